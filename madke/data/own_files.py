"""Rows of a user's question file: CSV, TSV, JSON, JSON Lines or Parquet."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from madke.assets import install
from madke.core.errors import UserError
from madke.data.columns import Columns, is_header
from madke.data.published_rows import Row, json_rows, jsonl_rows
from madke.files import cells_of, opened, text_lines

FORMS = "CSV, TSV, JSON, JSON Lines or Parquet"

_BOM = b"\xef\xbb\xbf"
_LIST = re.compile(r"\s*\[\s*(?:['\"].*|\])", re.DOTALL)
"""A list of texts in a cell. ``[1, 2]`` is an answer in mathematics."""
_BATCH = 256


def own_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; its form follows from the suffix or the first characters.

    Only JSON lists are held in memory. Lists in the cells of a table become lists. A table without a header is read
    if it has the form of DPR's topics: a question and a list of answers, in columns 1 and 2.
    """
    if path.is_fifo():  # can be read only once
        return jsonl_rows(path)
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    with opened(path) as file:
        start = file.read(4096).removeprefix(_BOM).lstrip()
    if start.startswith(b"PAR1"):
        return _parquet_rows(path)
    if suffix.lower() in (".csv", ".tsv") or not start.startswith((b"{", b"[")):
        return _table_rows(path)
    first, several, _ = start.partition(b"\n")
    is_document = start.startswith(b"[") or (several and not first.rstrip().endswith(b"}"))
    return json_rows(path) if is_document else jsonl_rows(path)


def _table_rows(path: Path) -> Iterator[Row]:
    cells = cells_of(path, _delimiter(path), strict=True)
    header: Sequence[str] | None = None
    number = 0
    for line, found in cells:
        if not any(cell.strip() for cell in found):
            continue
        if header is None:
            header = [cell.strip() for cell in found] if is_header(found) else _topics(path, found, line)
            if twice := [name for name in header if name and header.count(name) > 1]:
                raise UserError(f"the header has {twice[0]!r} twice; expected each name once", file=path, line=line)
            Columns().names(Row(fields=dict.fromkeys(header), file=path, line=line, number=1))
            if is_header(found):
                continue
        if len(found) != len(header):
            expected = f"expected {len(header)} cells ({', '.join(header)}), found {len(found)}"
            raise UserError(f"{expected}; put a text that contains the separator in quotes", file=path, line=line)
        number += 1
        fields = {name: _value(cell, path, line) for name, cell in zip(header, found, strict=True)}
        yield Row(fields=fields, file=path, line=line, number=number)


def _delimiter(path: Path) -> str:
    first = next((line for line in islice(text_lines(path), 1)), "")
    return next((sign for sign in ("\t", ",", ";") if sign in first), ",")


def _topics(path: Path, cells: Sequence[str], line: int) -> tuple[str, ...]:
    """The names of the columns of DPR's topics, which have no header."""
    if len(cells) == 2 and _LIST.match(cells[1]):
        return "column 1", "column 2"
    found = ", ".join(f"{cell.strip()[:40]!r}" for cell in cells[:8])
    expected = f"expected {FORMS} with a column 'question'"
    raise UserError(f"{expected}; found no such header, but {found}", file=path, line=line)


def _value(cell: str, path: Path, line: int) -> Any:
    """The text of a cell; a list if it is one of texts, as JSON or as Python writes it."""
    if not _LIST.match(cell):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about backslashes
            return ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = cell if len(cell) <= 60 else f"{cell[:57]}..."
        raise UserError(f"expected a list such as ['a', 'b'], found {found!r}", file=path, line=line) from None


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UserError(f"Parquet files need pyarrow: {install('report')}", file=path) from None
    try:
        with ParquetFile(path) as file:
            batches = file.iter_batches(batch_size=_BATCH)
            rows = (row for batch in batches for row in batch.to_pylist())
            for number, fields in enumerate(rows, start=1):
                yield Row(fields=fields, file=path, number=number)
    except (ArrowException, OSError) as error:
        raise UserError(f"cannot be read as Parquet: {' '.join(str(error).split())[:200]}", file=path) from None
