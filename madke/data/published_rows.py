"""Rows of published files (JSON Lines, one JSON document, or CSV), and the items that readers make of them."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from madke._util.files import cells_of, open_unpacked, read_jsonl
from madke.core.errors import UserError

_MAX_DOCUMENT = 2 << 30
"""Maximum size in bytes of a JSON document, which is held in memory as a whole; after unpacking."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    """A text that comes with a question of the dataset."""

    title: str
    text: str
    kind: Literal["gold", "misinformation", "other"] = "other"
    """``gold``: contains evidence for the answer; ``misinformation``: states a wrong answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One entry of a published file."""

    question: str
    answers: tuple[str, ...]
    """Gold answer first, then its aliases; letters if there are choices. Empty in an unlabelled split."""
    id: str | None = None
    """None: the id is made from the position."""
    series: str | None = None
    """Positions are counted within the series from 0, as MIRAGE (Xiong et al., 2024) numbers the questions of an MMLU
    subject; None: within the whole dataset from 1."""
    choices: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    paragraphs: tuple[Paragraph, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The fields of one entry as in the file, and their position."""

    fields: Mapping[str, Any]
    file: Path | str
    line: int | None = None
    """1-based; None for files without lines."""
    number: int
    """1-based position among the entries."""

    @property
    def place(self) -> str:
        """The line, or the number of the entry if there are no lines."""
        return f"line {self.line}" if self.line is not None else f"item {self.number}"

    def error(self, message: str) -> UserError:
        """A UserError about this row."""
        where = "" if self.line is not None else f"{self.place}: "
        return UserError(where + message, file=self.file, line=self.line)

    def text(self, *keys: str) -> str:
        """The text of the first of these keys that is present; UserError if none is."""
        for key in keys:
            if key in self.fields:
                return self.checked(self.fields[key], key)
        found = ", ".join(map(repr, self.fields)) or "(none)"
        raise self.error(f"{keys[0]!r} is missing; expected a text; found the keys {found}")

    def texts(self, key: str) -> tuple[str, ...]:
        """The distinct texts of a key, at least one; a single text counts as a list of one."""
        if key not in self.fields:
            return (self.text(key),)  # raises the error
        value = self.fields[key]
        entries = [value] if isinstance(value, str | bool) else value
        if not isinstance(entries, list) or not entries:
            raise self.error(f"{key!r} is {short(value)}; expected a list of texts")
        return tuple(dict.fromkeys(self.answer(entry, key) for entry in entries))

    def answer(self, value: object, what: str) -> str:
        """Like :meth:`checked`, but takes JSON's ``true`` and ``false`` too, as these words."""
        return str(value).lower() if isinstance(value, bool) else self.checked(value, what)

    def checked(self, value: object, what: str) -> str:
        """The value, if it is a non-blank text or a finite number, which is converted to text."""
        is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        if is_finite and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{what!r} is {short(value)}; expected a text")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.error(f"{what!r} contains half of a surrogate pair, which is no valid character")
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """The format of one dataset. Its card and ``metadata["dataset"]`` of its questions have the same name."""

    name: str
    task: str
    rows: Callable[[Path], Iterator[Row]]
    """Reads the rows of a file (or folder) as the owner publishes it."""
    read: Callable[[Row], Item]
    """Converts one row of a file, or of the Hugging Face repository that the card names."""
    marks: frozenset[str] | None = None
    """Fields of which a row has at least one if it is of this dataset. Empty: nothing tells it from a user's file.
    None: ``read`` accepts no other rows."""

    def item(self, row: Row) -> Item:
        """The item of a row; UserError if the row is no entry of this dataset."""
        if "golden_answers" in row.fields:
            remedy = "omit --dataset (madke ablate: give --data PATH without NAME=)"
            raise row.error(f"found 'golden_answers', so this file is in madke's own format; {remedy}")
        try:
            return self.read(row)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise row.error(f"not a valid entry of {self.name}: {type(error).__name__}: {error}") from None


def short(value: object) -> str:
    """The value as quoted in an error, at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


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
        raise UserError(f"expected {expected}, found {type(document).__name__}{keys}", file=path)
    for number, fields in enumerate(items, start=1):
        if not isinstance(fields, dict):
            raise UserError(f"item {number}: expected an object, found {type(fields).__name__}", file=path)
        yield Row(fields=fields, file=path, number=number)


def jsonl_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON Lines file, which may be gzipped."""
    for number, (line, fields) in enumerate(read_jsonl(path), start=1):
        yield Row(fields=fields, file=path, line=line, number=number)


def _document(path: Path) -> object:
    try:
        with open_unpacked(path) as file:
            content = file.read(_MAX_DOCUMENT + 1)
        if len(content) > _MAX_DOCUMENT:
            raise UserError(f"is longer than {_MAX_DOCUMENT >> 30} GiB; convert it to JSON Lines (.jsonl)", file=path)
        return json.loads(content)
    except json.JSONDecodeError as error:
        hint = "; name a file with one object per line .jsonl" if error.msg == "Extra data" else ""
        found = f"is not JSON: {error.msg}, column {error.colno}{hint}"
        raise UserError(found, file=path, line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not JSON: {error}", file=path) from None


def csv_rows(path: Path, columns: Sequence[str], *, header: bool) -> Iterator[Row]:
    """Yield the rows of a UTF-8 CSV file with these columns; ``header``: the first row must contain their names."""
    rows = ((line, cells) for line, cells in cells_of(path) if cells)
    if header:
        _, found = next(rows, (1, []))
        if [cell.strip() for cell in found] != list(columns):
            raise UserError(f"expected the header {','.join(columns)}, found {','.join(found)}", file=path, line=1)
    for number, (line, cells) in enumerate(rows, start=1):
        if len(cells) != len(columns):
            expected = f"expected {len(columns)} columns ({', '.join(columns)})"
            raise UserError(f"{expected}, found {len(cells)}", file=path, line=line)
        yield Row(fields=dict(zip(columns, cells, strict=True)), file=path, line=line, number=number)
