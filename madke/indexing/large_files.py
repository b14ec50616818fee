"""Large files: identified without reading them whole, and read by line without holding the lines in memory."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from madke.assets import cache_dir
from madke.core.errors import UserError
from madke.files import atomic_write, opened

FETCHED = "fetched.json"
"""The file in which ``madke index fetch`` records which published index a folder holds."""
_EDGE = 1 << 16
_BLOCK = 1 << 20


def fingerprint_of(path: Path) -> str:
    """Twelve hexadecimal digits that identify a file or the content of a folder, without reading it whole.

    They hash names, sizes, and the first and last 64 KiB of every file (this covers all of Lucene's ``segments_N``,
    which lists the live documents).
    """
    digest = sha256()
    for part in sorted(path.iterdir()) if path.is_dir() else [path]:
        if not part.is_file() or part.name in ("write.lock", FETCHED):
            continue
        with opened(part) as file:
            size = file.seek(0, 2)
            digest.update(f"{part.name}\n{size}\n".encode())
            for start in {0, max(0, size - _EDGE)}:
                file.seek(start)
                digest.update(file.read(_EDGE))
    return digest.hexdigest()[:12]


class Lines:
    """The lines of a file, memory-mapped. The ends of all lines are kept in the cache folder, 8 bytes each."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        try:
            self._text = np.memmap(path, np.uint8, "r")
            changed = os.stat(path).st_mtime_ns
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise UserError(f"cannot be read: {error}", file=path) from None
        ends = cache_dir("lines") / f"{fingerprint_of(path)}-{changed:x}"
        if not ends.exists():
            with atomic_write(ends) as file:
                for start in range(0, len(self._text), _BLOCK):
                    file.write((start + np.flatnonzero(self._text[start : start + _BLOCK] == ord("\n"))).tobytes())
                if self._text[-1] != ord("\n"):
                    file.write(np.int64(len(self._text)).tobytes())
        self._ends = np.memmap(ends, np.int64, "r")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} lines")
        start = int(self._ends[row - 1]) + 1 if row else 0
        return self._text[start : int(self._ends[row])].tobytes().rstrip().decode()
