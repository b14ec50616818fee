"""The lines of a pool file: found by question, read on demand, added."""

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic_core import from_json

from madke._util.files import atomic_write, numbered_lines, short_hash
from madke.core.question import Question
from madke.pools.pool_file import PoolRecord, record_from_json

MORE = "pools.more.jsonl"
"""Temporary file for pools that are being built."""


class PoolLines:
    """The lines of a pool file for some questions or all, read on demand; UserError if the file cannot be read."""

    def __init__(self, file: Path, ids: Container[str] | None = None) -> None:
        self._file = file
        self.hashes: dict[str, str] = {}
        """Question id -> hash of its line."""
        self._starts: dict[str, int] = {}
        self._held: dict[str, bytes] | None = {} if file.suffix == ".gz" else None
        """The lines themselves, where the file has no random access."""
        for id_, start, line in _found(file, ids):
            self.hashes[id_], self._starts[id_] = short_hash(line.strip()), start
            if self._held is not None:
                self._held[id_] = line

    def record(self, id_: str) -> PoolRecord | None:
        """The record of a question; None if the file has none, or if its line has changed since."""
        if id_ not in self._starts:
            return None
        try:
            line = self._line_at(self._starts[id_]) if self._held is None else self._held[id_]
        except OSError:
            return None
        return record_from_json(line) if short_hash(line.strip()) == self.hashes[id_] else None

    def _line_at(self, start: int) -> bytes:
        with self._file.open("rb") as lines:
            lines.seek(start)
            return lines.readline()

    def append(self, id_: str, line: bytes) -> None:
        """Add the line of a question to the file."""
        with self._file.open("ab") as file:
            self._starts[id_], self.hashes[id_] = file.tell(), short_hash(line)
            file.write(line + b"\n")


def lines_of(file: Path, ids: Container[str] | None) -> dict[str, tuple[str, int]]:
    """Question id -> hash and offset of its line in a pool file, for these questions or all, if it is readable."""
    return {id_: (short_hash(line.strip()), start) for id_, start, line in _found(file, ids)}


def _found(file: Path, ids: Container[str] | None) -> Iterator[tuple[str, int, bytes]]:
    """(Question id, offset, line) of each readable line."""
    start = 0
    for _, line in numbered_lines(file):
        with suppress(ValueError, TypeError, KeyError):
            id_ = str(from_json(line)["id"])
            if ids is None or id_ in ids:
                yield id_, start, line
        start += len(line)


@contextmanager
def missing_pools(file: Path, questions: Sequence[Question]) -> Iterator[tuple[list[Question], Path]]:
    """The questions that a pool file lacks, and where to write their pools; the file gets them after the block."""
    held = lines_of(file, None) if file.exists() else {}
    missing, more = [question for question in questions if question.id not in held], file.with_name(MORE)
    yield missing, more
    if missing:
        with atomic_write(file) as whole:
            whole.write(file.read_bytes() if file.exists() else b"")
            whole.write(more.read_bytes())
        more.unlink()
