"""Filling a disk up."""

import shutil
from contextlib import suppress
from pathlib import Path


def fill_up(disk: Path, leave: int) -> Path:
    """A file that leaves so many bytes free."""
    filler = disk / "filler"
    with suppress(OSError):  # what others took of it meanwhile leaves less, and nothing at the end
        filler.write_bytes(bytes(shutil.disk_usage(disk).free - leave))
    return filler
