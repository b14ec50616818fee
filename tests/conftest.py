import gc
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# With two test processes of two threads each on two cores, an encoder waits three quarters of its time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test asks the ports of this machine's own model servers.
os.environ["MADKE_LOCAL_PORTS"] = ""
# Ray's workers give way to all other processes, and tests beside them would let them wait for minutes.
os.environ.setdefault("RAY_worker_niceness", "0")

from madke.core.knowledge import KnowledgePool, Passage
from tests.support import forked

# The duration of an example depends on the load of the machine. Quick tests take a third of the examples.
hypothesis.settings.register_profile("all", deadline=None, derandomize=True)
hypothesis.settings.register_profile("quick", deadline=None, derandomize=True, max_examples=33)


def pytest_configure(config: pytest.Config) -> None:
    """Let all test processes fork from one server, which imports everything once."""
    gc.set_threshold(50_000, 20, 20)
    # A background job of a script inherits that Ctrl-C is ignored, and so would the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("quick" if "not slow" in config.getoption("-m") else "all")
    if not hasattr(config, "workerinput"):
        forked.share()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache, keys or server settings. All test processes share a cache."""
    session = tmp_path_factory.getbasetemp()
    together = session.parent if "PYTEST_XDIST_WORKER" in os.environ else session
    monkeypatch.setenv("MADKE_CACHE", str(together / "cache"))
    for name in os.environ:
        if name.startswith(("OPENAI_", "AZURE_OPENAI_", "SERPER_")):
            monkeypatch.delenv(name)


@pytest.fixture
def shared_data() -> Path:
    """Samples of real datasets and real model output, in a folder next to the checkout that only developers have."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the samples of real data (../shared/data) are not on this machine")
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Any]:
    """A disk with room for a megabyte."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield mount
    # Lazily, since a traceback may still hold a mapped index file.
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


@pytest.fixture
def pool() -> KnowledgePool:
    """Three passages, numbered 0 to 2, from two sources."""
    return KnowledgePool(
        passages=(
            passage("wiki", "baikal-1", "Lake Baikal", "Lake Baikal is 1,642 metres deep."),
            passage("wiki", "tanganyika-1", "Lake Tanganyika", "Lake Tanganyika is 1,470 metres deep."),
            passage("google", "https://lakes.example/deep", "Deep lakes", "Baikal is the deepest lake of all."),
        )
    )


def passage(source: str, key: str, title: str, text: str, rank: int = 0) -> Passage:
    return Passage(source=source, key=key, title=title, text=text, score=1.0, rank=rank)
