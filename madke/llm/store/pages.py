"""The rows of a damaged SQLite file, read from its pages without SQLite.

SQLite follows pointers from the header and the schema down to the rows, and gives up where one of them is wrong. Here
every page is taken for itself: one that reads as a leaf of a table gives its rows, whatever the header, the schema and
the pages above it have become. Committed pages of the write-ahead log stand above those of the file. Whether a row is
what was written, and of which table it is, the caller must be able to tell from the row.

The format is that of https://www.sqlite.org/fileformat2.html, sections 1.6 (pages), 2.1 (records) and 4 (the log).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

Value = int | float | bytes | str | None
"""A column; text that is no UTF-8 reads as bytes."""

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_LEAF_OF_TABLE = 13
_OF_INDEX = {2: 12, 10: 8}
"""Kind of page, inner or leaf -> bytes of its header; the entries of an index lie in both."""
_USUAL_PAGE = 4096
"""Bytes of a page unless the header says otherwise."""

_LOG_HEADER = 32
_FRAME_HEADER = 24
_LOG_ORDERS = {0x377F0682: "<", 0x377F0683: ">"}
"""The log's first number -> byte order in which its checksums are reckoned."""

_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


def rows(path: Path, log: Path) -> Iterator[tuple[int | None, list[Value]]]:
    """(Row id, columns) of every row that can be read, in the order of pages.

    A table's integer key, which SQLite keeps as the row id, reads as None among the columns. Of an entry of an index
    the row id is the last column; those that do not fit into a page are left out.

    Args:
        path: The file.
        log: Its write-ahead log, which need not be there.
    """
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        size = _page_size(file.read(_HEADER))
        pages = _Pages(file=file, size=size, count=-(-path.stat().st_size // size), log=None, logged={})
        if log.exists():
            pages.log = stack.enter_context(log.open("rb"))
            pages.logged = _committed(pages.log, size)
            pages.count = max([pages.count, *pages.logged])
        for number in range(1, pages.count + 1):
            yield from _rows_of_page(pages, number)


def is_log(log: Path) -> bool:
    """Whether a write-ahead log begins as one, or is not there or empty; SQLite passes over one that does not."""
    try:
        with log.open("rb") as file:
            header = file.read(_LOG_HEADER)
    except FileNotFoundError:
        return True
    return len(header) < _LOG_HEADER or _log_start(header) is not None


@dataclass(kw_only=True, slots=True)
class _Pages:
    """All pages of a file and its log; the first is number 1."""

    file: IO[bytes]
    size: int
    count: int
    log: IO[bytes] | None
    logged: dict[int, int]
    """Page -> where the log holds it."""

    def __getitem__(self, number: int) -> bytes:
        source, at = self.file, (number - 1) * self.size
        if self.log is not None and number in self.logged:
            source, at = self.log, self.logged[number]
        source.seek(at)
        return source.read(self.size).ljust(self.size, b"\0")


def _page_size(header: bytes) -> int:
    size = int.from_bytes(header[16:18], "big")
    size = 65_536 if size == 1 else size
    return size if header.startswith(_MAGIC) and size >= 512 and size & (size - 1) == 0 else _USUAL_PAGE


def _rows_of_page(pages: _Pages, number: int) -> Iterator[tuple[int | None, list[Value]]]:
    page = pages[number]
    start = _HEADER if number == 1 else 0
    kind = page[start]
    if kind != _LEAF_OF_TABLE and kind not in _OF_INDEX:
        return
    first = start + _OF_INDEX.get(kind, 8)
    cells = int.from_bytes(page[start + 3 : start + 5], "big")
    for pointer in range(first, min(first + 2 * cells, pages.size - 1), 2):
        at = int.from_bytes(page[pointer : pointer + 2], "big")
        try:
            if kind == _LEAF_OF_TABLE:
                yield _row(pages, page, at)
            else:
                yield None, _entry(page, at + _OF_INDEX[kind] - 8)  # an inner page's begins with a page's number
        except (ValueError, IndexError, struct.error):  # damaged
            continue


def _row(pages: _Pages, page: bytes, at: int) -> tuple[int, list[Value]]:
    length, at = _varint(page, at)
    row_id, at = _varint(page, at)
    return _signed(row_id), _columns(_payload(pages, page, at, length))


def _entry(page: bytes, at: int) -> list[Value]:
    length, at = _varint(page, at)
    return _columns(page[at : at + length])


def _payload(pages: _Pages, page: bytes, at: int, length: int) -> bytes:
    """A row's bytes; what does not fit into its page goes on in a chain of pages of its own."""
    most = pages.size - 35
    if length <= most:
        here = length
    else:
        least = (pages.size - 12) * 32 // 255 - 23
        here = least + (length - least) % (pages.size - 4)
        here = here if here <= most else least
    if at + here > pages.size or length > pages.size * pages.count:
        raise ValueError
    parts = [page[at : at + here]]
    following = int.from_bytes(page[at + here : at + here + 4], "big")
    left = length - here
    while left > 0:  # ends even where a damaged chain is a ring
        if not 0 < following <= pages.count:
            raise ValueError
        overflow = pages[following]
        parts.append(overflow[4 : 4 + left])
        left -= len(parts[-1])
        following = int.from_bytes(overflow[:4], "big")
    return b"".join(parts)


def _columns(payload: bytes) -> list[Value]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    if not values or at != len(payload):
        raise ValueError
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in _INTEGER_BYTES:
        end = at + _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        return None, at
    end = at + (kind - 12) // 2
    content = payload[at:end]
    if kind % 2 == 0:
        return content, end
    try:
        return content.decode(), end
    except UnicodeDecodeError:
        return content, end


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(8):
        byte = content[at + n]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    return value << 8 | content[at + 8], at + 9


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _committed(log: IO[bytes], page_size: int) -> dict[int, int]:
    """Page -> where in the log its last committed content is."""
    header = log.read(_LOG_HEADER)
    start = _log_start(header) if len(header) == _LOG_HEADER else None
    if start is None or int.from_bytes(header[8:12], "big") != page_size:
        return {}
    order, sums = start
    committed: dict[int, int] = {}
    written: dict[int, int] = {}
    at = _LOG_HEADER
    while len(frame := log.read(_FRAME_HEADER + page_size)) == _FRAME_HEADER + page_size:
        sums = _log_sums(frame[:8] + frame[_FRAME_HEADER:], order, sums)
        if frame[8:16] != header[16:24] or struct.unpack_from(">2I", frame, 16) != sums:
            break
        number, pages_after_commit = struct.unpack_from(">2I", frame)
        written[number] = at + _FRAME_HEADER
        at += len(frame)
        if pages_after_commit:
            committed.update(written)
            written = {}
    return committed


def _log_start(header: bytes) -> tuple[str, tuple[int, int]] | None:
    """Byte order and checksums with which a log begins; None where its header is none."""
    order = _LOG_ORDERS.get(int.from_bytes(header[:4], "big"))
    if order is None:
        return None
    sums = _log_sums(header[:24], order, (0, 0))
    return (order, sums) if struct.unpack_from(">2I", header, 24) == sums else None


def _log_sums(content: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two
