"""Passages of an index by row number, in a memory-mapped Arrow file: opening is free, a row takes microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from madke.core.errors import UserError
from madke.files import replacing

_ROWS_PER_BATCH = 1_000


class StoredPassage(NamedTuple):
    """One passage of a corpus."""

    id: str
    title: str
    text: str


def write_passages(path: Path, passages: Iterable[StoredPassage]) -> int:
    """Stream passages into a new store and return how many they were. A failure leaves no file.

    Raises:
        UserError: ``pyarrow`` is missing. Errors of the iterable pass through.
    """
    pa = _pyarrow()
    schema = pa.schema([(name, pa.string()) for name in StoredPassage._fields])
    count = 0
    rows = iter(passages)
    with replacing(path) as file, pa.ipc.new_file(file, schema) as writer:
        while chunk := list(islice(rows, _ROWS_PER_BATCH)):
            columns = [pa.array(column, pa.string()) for column in zip(*chunk, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            count += len(chunk)
    return count


class PassageStore:
    """Reads a store: ``store[row]`` is a :class:`StoredPassage`, ``len(store)`` their number.

    Raises:
        UserError: ``pyarrow`` is missing, or the file is no passage store.
    """

    def __init__(self, path: Path) -> None:
        pa = _pyarrow()
        self._path = path
        try:
            self._map = pa.memory_map(str(path), "r")
            self._reader = pa.ipc.open_file(self._map)
        except (OSError, pa.ArrowInvalid) as error:
            raise UserError(f"cannot be read as a passage store ({error})", file=path) from error
        self._batches: dict[int, tuple[Any, ...]] = {}
        full = self._reader.num_record_batches - 1
        self._length = 0 if full < 0 else full * _ROWS_PER_BATCH + len(self._batch(full)[0])

    def ids(self) -> Iterator[str]:
        """The ids of all passages in order, at a small part of the cost of the passages."""
        for number in range(self._reader.num_record_batches):
            yield from self._reader.get_batch(number).column(0).to_pylist()

    def read(self, rows: range) -> list[StoredPassage]:
        """The passages of consecutive rows, several times as fast as one by one.

        Raises:
            UserError: One of them is damaged.
        """
        found: list[StoredPassage] = []
        while rows:
            batch, place = divmod(rows.start, _ROWS_PER_BATCH)
            count = min(len(rows), _ROWS_PER_BATCH - place)
            try:
                columns = self._reader.get_batch(batch).slice(place, count).columns
                found += map(StoredPassage, *(column.to_pylist() for column in columns))
            except (OSError, ValueError) as error:
                raise self._damaged(rows.start, error) from None
            rows = rows[count:]
        return found

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> StoredPassage:
        if not 0 <= row < self._length:
            raise IndexError(f"row {row} of a store of {self._length} passages")
        batch, place = divmod(row, _ROWS_PER_BATCH)
        try:
            ids, titles, texts = self._batch(batch)
            # Table.take would copy whole columns; one value of a cached batch costs a few microseconds.
            return StoredPassage(ids[place].as_py(), titles[place].as_py(), texts[place].as_py())
        except (OSError, ValueError) as error:  # Arrow's own errors are among them, and so is text that is not UTF-8
            raise self._damaged(row, error) from None

    def _damaged(self, row: int, error: Exception) -> UserError:
        return UserError(f"is damaged at row {row:,} ({error}); build the index again", file=self._path)

    def _batch(self, number: int) -> tuple[Any, ...]:
        columns = self._batches.get(number)
        if columns is None:
            columns = self._batches[number] = tuple(self._reader.get_batch(number).columns)
        return columns


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.ipc
    except ImportError as error:
        raise UserError("indexes need pyarrow: pip install 'madke[wiki]' or 'madke[dense]'") from error
    return pa
