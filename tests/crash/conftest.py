import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder whose content is read-only once :func:`freeze` was called on it, for root too."""
    folder = tmp_path / "frozen"
    folder.mkdir()
    yield folder
    if os.geteuid() == 0:
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)
    else:
        folder.chmod(0o700)


def freeze(folder: Path) -> None:
    """Make a folder and the files in it read-only."""
    if os.geteuid() != 0:
        for path in folder.iterdir():
            path.chmod(0o400)
        folder.chmod(0o500)
        return
    bind = ["mount", "--bind", str(folder), str(folder)]
    if subprocess.run(bind, capture_output=True, check=False).returncode != 0:
        pytest.skip("a folder that is read-only for root needs a mount")
    subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
