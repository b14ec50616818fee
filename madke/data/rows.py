"""Rows of question files: CSV, TSV, Excel, JSON, JSON Lines and Parquet, and the checks of their values.

Nothing in a file is evaluated: lists in cells are read as literals.
"""

import ast
import datetime
import json
import logging
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from token import STRING
from tokenize import TokenError, generate_tokens
from typing import Any

from madke._util.assets import require
from madke._util.files import cells_of, not_utf8, open_unpacked, read_jsonl, text_lines
from madke.core.errors import UserError, short

_log = logging.getLogger(__name__)

FORMS = "CSV, TSV, XLSX, JSON, JSON Lines or Parquet"

_MAX_DOCUMENT = 2 << 30
"""Maximum size in bytes of a JSON document, which is held in memory as a whole; after unpacking."""
_MAX_SHEETS = 1 << 28
"""Maximum size in bytes of an unpacked Excel file, whose texts are held in memory."""
_BATCH_ROWS = 256
"""Rows of a Parquet file that are read at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The fields of one entry as in the file, and their position."""

    fields: Mapping[str, Any]
    file: Path | str | None
    """None: a question of the caller's own list."""
    line: int | None = None
    """1-based; None for files without lines."""
    number: int
    """1-based position among the entries."""

    @property
    def place(self) -> str:
        """The line, or the number of the entry if there are no lines."""
        return f"line {self.line}" if self.line is not None else f"{'item' if self.file else 'question'} {self.number}"

    def error(self, message: str) -> UserError:
        """A UserError about this row."""
        where = "" if self.line is not None else f"{self.place}: "
        return UserError(where + message, file=self.file, line=self.line)

    def text(self, *keys: str) -> str:
        """The text of the first of these keys that is present; UserError if none is."""
        for key in keys:
            if key in self.fields:
                return self.check_text(self.fields[key], key)
        keys_text = ", ".join(map(repr, self.fields)) or "(none)"
        raise self.error(f"{keys[0]!r} is missing; expected a text; found the keys {keys_text}")

    def texts(self, key: str) -> tuple[str, ...]:
        """The distinct texts of a key, at least one; a single text counts as a list of one."""
        if key not in self.fields:
            return (self.text(key),)  # raises the error
        value = self.fields[key]
        entries = value if isinstance(value, list) else [value]
        if not entries:
            raise self.error(f"{key!r} is {short(value)}; expected a list of texts")
        return tuple(dict.fromkeys(self.answer(entry, key) for entry in entries))

    def answer(self, value: object, what: str) -> str:
        """Like :meth:`check_text`, but takes JSON's ``true`` and ``false`` too, as these words."""
        return str(value).lower() if isinstance(value, bool) else self.check_text(value, what)

    def check_text(self, value: object, what: str) -> str:
        """The value, if it is a non-blank text or a finite number, which is converted to text."""
        is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        if is_finite and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{what!r} is {short(value)}; expected a text")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.error(f"{what!r} contains half of a surrogate pair, which is no valid character")
        return value

    def parse_value(self, value: Any, name: str, *, any_list: bool = False) -> Any:
        """The value of a column; a text that begins like a list of texts (or ``any_list``) or an object is parsed."""
        if not isinstance(value, str):
            return value
        if not (_LIST.match(value) or _OBJECT.match(value) or (any_list and value.lstrip().startswith("["))):
            return value
        try:
            return literal(value)
        except ValueError as error:
            form = "an object such as {'text': ['a', 'b']}" if _OBJECT.match(value) else "a list such as ['a', 'b']"
            cell = value if len(value) <= 60 else f"{value[:57]}..."
            raise self.error(f"expected {form}, found {cell!r} in {name!r}: {error}") from None


def naming(names: Sequence[str]) -> str:
    """An example of ``--columns`` with the names of a file, without those of a running number."""
    used = [name for name in names if not re.fullmatch(r"\W*(id|nr|no|n|index|number|)\W*", str(name), re.IGNORECASE)]
    pairs = zip(("question", "answers"), used or names, strict=False)
    return f"--columns {','.join(f'{field}={str(name)[:40]}' for field, name in pairs)!r}"


# Lists and objects in the cells of a table, as Python, pandas and NumPy write them.

_LIST = re.compile(r"\s*(?:array\(\s*)?\[\s*(?:[uU]?['\"]|\]|np\.str_\(|(?:None|nan|NaN)\s*[,\]\s])")
"""The start of a list of texts, of an empty list, or of one whose first text is missing. ``[1, 2]`` is an answer in
mathematics."""
_OBJECT = re.compile(r"\s*\{\s*['\"]")
_NUMBERS = re.compile(r"\s*\[\s*[-+\d.][^\],\s]*(?:\s+[-+\d.][^\],\s]*)+\s*\]\s*")
"""At least two numbers without commas: NumPy's form of ``[1, 2]``."""


def is_ambiguous(cell: str) -> bool:
    """Whether a cell may be several numbers, or one text."""
    return bool(_NUMBERS.fullmatch(cell))


def literal(cell: str) -> Any:
    """The value that a cell describes; ValueError for anything but texts, numbers, lists and objects of them.

    NumPy writes a list of texts without commas: ``['Jane Austen' 'Austen']``. Python would join such texts.
    """
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        # Within brackets, a line end is a token of its own.
        tokens = [token for token in generate_tokens(StringIO(cell.strip()).readline) if token.string.strip()]
        gaps = [after for before, after in pairwise(tokens) if before.type == after.type == STRING]
        if gaps and any(token.string == "," for token in tokens):
            raise SyntaxError("only some elements are separated by commas")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about backslashes
            return ast.literal_eval("".join("," * (token in gaps) + token.string for token in tokens))
    except (ValueError, SyntaxError, TypeError, TokenError, MemoryError, RecursionError) as error:
        raise ValueError("no literal of Python or JSON; save the table as JSON Lines or Parquet") from error


# Files of one form.


def own_rows(path: Path, is_header: Callable[[Row], bool]) -> Iterator[Row]:
    """Yield the rows of a user's file; its form follows from the suffix or the first characters.

    Only JSON lists are held in memory. The cells of a table are texts. ``is_header`` tells whether the keys of a row,
    the first cells of a table, are names of columns, and refuses wrong ones.
    """
    suffix = (path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix).lower()
    with open_unpacked(path) as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"PAR1"):
        return _parquet_rows(path)
    if start.startswith(b"PK\x03\x04"):
        return table_rows(path, _sheet_cells(path), is_header)
    if suffix in (".csv", ".tsv") or not start.startswith((b"{", b"[")):
        header = next(text_lines(path), "")
        separator = "\t" if "\t" in header else max(",;", key=header.count)
        return table_rows(path, cells_of(path, separator, strict=True), is_header)
    first, several, _ = start.partition(b"\n")
    is_document = start.startswith(b"[") or (several and not first.rstrip().endswith(b"}"))
    return json_rows(path) if is_document else jsonl_rows(path)


def table_rows(
    path: Path, cells: Iterable[tuple[int, list[Any]]], is_header: Callable[[Row], bool] = lambda row: True
) -> Iterator[Row]:
    """The rows of a table, each a (line, cells); the first one has the names of the columns."""
    filled = ((line, values) for line, values in cells if any(not isinstance(c, str) or c.strip() for c in values))
    line, head = next(filled, (0, []))
    header = [str(cell).strip() for cell in head]
    if header and not is_header(Row(fields=dict.fromkeys(header), file=path, line=line, number=1)):
        listed = ", ".join(f"{cell[:40]!r}" for cell in header[:8])
        raise UserError(
            f"expected {FORMS} with a column 'question'; found no such header, but {listed}; if these are the names of "
            f"the columns, say which is which, for example {naming(header)}; a published file needs --dataset NAME",
            file=path,
            line=line,
        )
    if twice := [name for name in header if name and header.count(name) > 1]:
        raise UserError(f"the header has {twice[0]!r} twice; expected each name once", file=path, line=line)
    for number, (line, values) in enumerate(filled, start=1):
        if len(values) != len(header):
            expected = f"expected {len(header)} cells ({', '.join(header[:20])}), found {len(values)}"
            raise UserError(f"{expected}; put a text that contains the separator in quotes", file=path, line=line)
        yield Row(fields=dict(zip(header, values, strict=True)), file=path, line=line, number=number)


def _sheet_cells(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """The cells of the first sheet of an Excel file."""
    require(f"{path}: Excel files need", "documents", "openpyxl")
    import openpyxl

    try:
        with zipfile.ZipFile(path) as parts:
            if sum(part.file_size for part in parts.infolist()) > _MAX_SHEETS:
                raise UserError(f"unpacks to more than {_MAX_SHEETS >> 20} MiB; save the sheet as CSV", file=path)
        with path.open("rb") as file:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write wrong ones
            if len(book.worksheets) > 1:
                warning = "%s: only the first sheet %r of %d is read; move the questions there if they are on another"
                _log.warning(warning, path, sheet.title, len(book.worksheets))
            width = 0
            for line, values in enumerate(sheet.iter_rows(values_only=True), start=1):
                cells = [_cell(value) for value in values]
                while cells and cells[-1] == "":
                    cells.pop()
                width = width or len(cells)
                if cells:
                    yield line, cells + [""] * (width - len(cells))
    except UserError:
        raise
    except Exception as error:  # a damaged file may raise anything
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"cannot be read as an Excel file (.xlsx): {why}", file=path) from error


def _cell(value: Any) -> Any:
    """The text of a cell, as in a CSV file; truth values stay."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, bool) else "" if value is None else str(value)


def _parquet_rows(path: Path) -> Iterator[Row]:
    require(f"{path}: Parquet files need", "report", "pyarrow")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            batches = file.iter_batches(batch_size=_BATCH_ROWS)
            rows = (row for batch in batches for row in batch.to_pylist())
            for number, fields in enumerate(rows, start=1):
                yield Row(fields=fields, file=path, number=number)
    except (ArrowException, OSError) as error:
        raise UserError(f"cannot be read as Parquet: {' '.join(str(error).split())[:200]}", file=path) from None


def jsonl_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON Lines file, which may be gzipped."""
    for number, (line, fields) in enumerate(read_jsonl(path), start=1):
        yield Row(fields=fields, file=path, line=line, number=number)


def json_rows(path: Path, *, under: str | None = None) -> Iterator[Row]:
    """Yield the objects of a JSON Lines file, or of a JSON list, bare or at the key ``under``; both may be gzipped."""
    if ".jsonl" in path.suffixes:
        yield from jsonl_rows(path)
        return
    document = _document(path)
    items = document.get(under) if under is not None and isinstance(document, dict) else document
    if not isinstance(items, list):
        expected = "a list of objects" if under is None else f"an object with a list under {under!r}"
        keys = f" with the keys {', '.join(map(repr, list(document)[:8]))}" if isinstance(document, dict) else ""
        hint = "; a published file needs --dataset NAME" if keys and under is None else ""
        raise UserError(f"expected {expected}, found {type(document).__name__}{keys}{hint}", file=path)
    for number, fields in enumerate(items, start=1):
        if not isinstance(fields, dict):
            raise UserError(f"item {number}: expected an object, found {type(fields).__name__}", file=path)
        yield Row(fields=fields, file=path, number=number)


def _document(path: Path) -> object:
    try:
        with open_unpacked(path) as file:
            content = bytearray()
            while chunk := file.read(1 << 20):
                content += chunk
                if len(content) > _MAX_DOCUMENT:
                    limit = f"{_MAX_DOCUMENT >> 30} GiB"
                    raise UserError(f"is longer than {limit}; convert it to JSON Lines (.jsonl)", file=path)
        return json.loads(content)
    except UnicodeDecodeError as error:
        raise not_utf8(error, path, None) from None
    except json.JSONDecodeError as error:
        hint = "; name a file with one object per line .jsonl" if error.msg == "Extra data" else ""
        problem = f"is not JSON: {error.msg}, column {error.colno}{hint}"
        raise UserError(problem, file=path, line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not JSON: {error}", file=path) from None
