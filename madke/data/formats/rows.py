"""The rows of a file: JSON Lines, one JSON document, or CSV."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from madke.core.errors import UserError
from madke.data.formats.record import Row
from madke.files import NO_GZIP, read_jsonl


def json_rows(path: Path, *, under: str | None = None) -> Iterator[Row]:
    """The objects of a JSON Lines file (``.jsonl``), or of a list in a JSON document; ``.gz`` is unpacked.

    Args:
        path: The file.
        under: The key of the list, where the document is an object that holds it; the bare list is read too.

    Raises:
        UserError: The file cannot be read, or is of another form.
    """
    if ".jsonl" in path.suffixes:
        for number, (line, fields) in enumerate(read_jsonl(path), start=1):
            yield Row(fields=fields, file=path, line=line, number=number)
        return
    document = _document(path)
    items = document.get(under) if under is not None and isinstance(document, dict) else document
    if not isinstance(items, list):
        expected = "a list of objects" if under is None else f"an object with a list under {under!r}"
        raise UserError(f"expected {expected}, found {_kind(document)}", file=path)
    for number, fields in enumerate(items, start=1):
        if not isinstance(fields, dict):
            raise UserError(f"item {number}: expected an object, found {type(fields).__name__}", file=path)
        yield Row(fields=fields, file=path, number=number)


def _document(path: Path) -> object:
    try:
        return json.loads(_bytes(path))
    except json.JSONDecodeError as error:
        hint = "; a file with one object a line is named .jsonl" if error.msg == "Extra data" else ""
        raise UserError(f"is not JSON: {error.msg}, column {error.colno}{hint}", file=path, line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not JSON: {error}", file=path) from None


def _kind(document: object) -> str:
    keys = f" with the keys {', '.join(map(repr, list(document)[:8]))}" if isinstance(document, dict) else ""
    return f"{type(document).__name__}{keys}"


def csv_rows(path: Path, columns: Sequence[str], *, header: bool) -> Iterator[Row]:
    """The rows of a CSV file in UTF-8, as fields of these names.

    Args:
        path: The file.
        columns: Their names, in order.
        header: Whether the first row must hold these names; without, it is data already.

    Raises:
        UserError: The file cannot be read, or a row has another number of columns.
    """
    reader = csv.reader(lines(path, keep_ends=True))
    begins, number = 1, 0
    try:
        for cells in reader:
            line, begins = begins, reader.line_num + 1
            if not cells:
                continue
            if len(cells) != len(columns):
                raise UserError(
                    f"expected {len(columns)} columns ({', '.join(columns)}), found {len(cells)}", file=path, line=line
                )
            if header and line == 1:
                if [cell.strip() for cell in cells] != list(columns):
                    raise UserError(
                        f"expected the header {','.join(columns)}, found {','.join(cells)}", file=path, line=1
                    )
                continue
            number += 1
            yield Row(fields=dict(zip(columns, cells, strict=True)), file=path, line=line, number=number)
    except csv.Error as error:
        raise UserError(f"is not CSV: {error}", file=path, line=reader.line_num) from None


def lines(path: Path, *, keep_ends: bool = False) -> list[str]:
    r"""The lines of a text file in UTF-8; only ``\n`` and ``\r\n`` end one.

    Raises:
        UserError: The file cannot be read, or holds a NUL character.
    """
    try:
        text = _bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"is not UTF-8 text: {error.reason} at byte {error.start}", file=path) from None
    found = text.removesuffix("\n").split("\n") if text else []
    if "\0" in text:
        number = next(number for number, line in enumerate(found, start=1) if "\0" in line)
        raise UserError("holds a NUL character, which is no text", file=path, line=number)
    return [f"{line}\n" for line in found] if keep_ends else [line.removesuffix("\r") for line in found]


def _bytes(path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as file:
                return file.read()
        return path.read_bytes()
    except gzip.BadGzipFile as error:
        raise UserError(NO_GZIP.format(error), file=path) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None
