"""Work on a real Ray cluster of two nodes, some of which are killed."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest

from madke._util.assets import versions
from madke._util.workers import Workers, open_workers
from madke.core.errors import UserError
from tests.support.cli import script
from tests.support.installed import needs
from tests.support.ray_nodes import another_node, running_cluster
from tests.support.rendezvous import meet, prepare
from tests.workers.work import MEETING, die, node, refuse, square, stumble

needs("ray", "ray")
pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with running_cluster() as cluster:
        yield cluster


@contextmanager
def on(address: str, *, gpus: bool = False) -> Iterator[Workers]:
    with patch.dict(os.environ, RAY_ADDRESS=address), open_workers("ray", gpus=gpus) as workers:
        yield workers


@pytest.fixture
def workers(cluster: Any) -> Iterator[Workers]:
    with on(cluster.address) as workers:
        yield workers


def test_results_come_in_order_and_what_a_task_raises_passes_through(workers: Workers) -> None:
    assert list(workers.map(square, range(20))) == [n * n for n in range(20)]
    assert list(workers.map(square, [])) == []
    with pytest.raises(UserError, match=r"^numbers\.txt:7: cannot take 1$"):
        list(workers.map(refuse, [1]))
    with pytest.raises(ZeroDivisionError) as raised:
        list(workers.map(stumble, [1, 0, 1]))
    assert "in stumble" in str(raised.value.__cause__)


def test_a_node_with_other_versions_is_refused_before_its_first_task(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = versions() | {"torch": "0.0.1", "newer": "7"}
    del here["pydantic"]
    monkeypatch.setattr("madke._util.workers.versions", lambda: here)
    log = tmp_path / "log"

    with pytest.raises(UserError) as refused:
        list(workers.map(log.write_text, ["done"]))

    there = versions()
    others = f"newer missing (expected 7), pydantic {there['pydantic']} (expected none), torch {there.get('torch')}"
    expected = f"Ray: the node {socket.gethostname()} has other versions than this machine: {others} (expected 0.0.1);"
    assert str(refused.value).startswith(expected.replace("torch None", "torch missing"))
    assert not log.exists()


def test_a_task_that_kills_its_worker_is_not_tried_forever(
    cluster: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("madke._util.workers._MAX_RETRIES", 1)
    died = pytest.raises(UserError, match="Ray: The worker died unexpectedly")
    with on(cluster.address) as workers, died:
        list(workers.map(die, [1]))
    assert capsys.readouterr().out == "", "Ray reports the retries, and scripts read stdout"


def test_work_for_gpus_goes_where_they_are(cluster: Any) -> None:
    def seen(_: int) -> tuple[str, list[int]]:
        import ray

        return node(), ray.get_gpu_ids()

    with another_node(cluster, num_cpus=2, num_gpus=2) as gpus:
        with on(cluster.address, gpus=True) as workers:
            found = list(workers.map(seen, range(3)))
        assert {where for where, _ in found} == {gpus.node_id}
        assert {len(ids) for _, ids in found} == {1}
        with on(cluster.address) as workers:
            assert {len(ids) for _, ids in workers.map(seen, range(3))} == {0}


def test_the_example_of_a_run_on_a_cluster(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    done = script(CHECKOUT / "examples" / "on_ray.py")
    assert done.returncode == 0, done.stderr
    assert "Aida first performed?" in done.stdout


def test_a_connection_that_is_there_is_used_and_left_open(cluster: Any) -> None:
    import ray

    with on(cluster.address):
        with open_workers("ray") as workers:
            assert list(workers.map(square, [2])) == [4]
        assert ray.is_initialized()
    assert not ray.is_initialized()


def test_ctrl_c_does_not_wait_for_what_is_under_way(cluster: Any, tmp_path: Path) -> None:
    folder = prepare(tmp_path, "a")
    script = folder / "program.py"
    script.write_text(MEETING)
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "RAY_ADDRESS": cluster.address}
    with subprocess.Popen(
        [sys.executable, script, "ray", folder, "a"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as program:
        try:
            worker = psutil.Process(int(meet(folder, "a")))
            program.send_signal(signal.SIGINT)
            stdout, stderr = program.communicate(timeout=60)
        finally:
            program.kill()

    assert stdout == ""
    assert stderr.strip().endswith("KeyboardInterrupt")
    _, alive = psutil.wait_procs([worker], timeout=30)
    assert alive == []


def test_an_address_where_nothing_answers_is_refused_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UserError, match=f"{address}: no answer"), on(address):
            pass


def test_java_keeps_the_signals_that_it_lives_by(cluster: Any) -> None:
    """Ray takes them when it connects, and gives them to nobody when it disconnects: both would end the process."""
    pytest.importorskip("jnius_config", reason="needs the extra madke[wiki]")
    script = """
import ctypes
from madke.retrieval.indexes.lucene import start_jvm
from madke._util.workers import open_workers

def handler():
    action = ctypes.create_string_buffer(512)
    ctypes.CDLL(None).sigaction(11, None, action)
    return action.raw[:8]

start_jvm()
java = handler()
with open_workers("ray") as workers:
    meanwhile = handler() == java, list(workers.map(abs, [-1]))
print(*meanwhile, handler() == java)
"""
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "True [1] True\n"), done.stderr
