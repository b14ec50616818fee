"""The files of a folder of documents."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from madke.indexing.documents.reading import is_document


class FoundFile(NamedTuple):
    """A file of the folder."""

    path: Path
    name: str
    """Relative to the folder, with ``/``; printable."""
    size: int
    mtime_ns: int
    problem: str
    """Why it is not read; empty for a document."""


def files_in(folder: Path) -> Iterator[FoundFile]:
    """Every file below a folder, sorted by name.

    Hidden files and folders (``.git``) and the lock files of office programs (``~$report.docx``) are passed over.
    Symbolic links are never followed: they may lead out of the folder.
    """
    closed: list[OSError] = []
    for above, folders, names in os.walk(folder, onerror=closed.append):
        kept = sorted(name for name in folders if not name.startswith("."))
        folders[:] = [name for name in kept if not Path(above, name).is_symlink()]
        links = [name for name in kept if name not in folders]
        for name in sorted(links + [name for name in names if not name.startswith((".", "~$"))]):
            path = Path(above, name)
            with suppress(FileNotFoundError):  # a temporary file of another program
                status = path.lstat()
                problem = _problem(name, status.st_mode)
                yield FoundFile(path, _name(path, folder), status.st_size, status.st_mtime_ns, problem)
    for error in closed:
        path = Path(error.filename)
        yield FoundFile(path, _name(path, folder), 0, 0, f"cannot be read: {error.strerror}")


def _name(path: Path, folder: Path) -> str:
    return os.fsencode(path.relative_to(folder).as_posix()).decode(errors="replace")


def _problem(name: str, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    if not is_document(name):
        return f"unknown type {Path(name).suffix or 'without an ending'}"
    return ""
