"""What a reader of a published file yields, and the rows of the file: JSON Lines, one JSON document, or CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from madke.core.errors import UserError
from madke.files import opened, read_jsonl


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    """A text that the dataset brings along with a question."""

    title: str
    text: str
    kind: Literal["gold", "misinformation", "other"] = "other"
    """``gold``: it holds evidence for the answer; ``misinformation``: it states a wrong one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One entry of a published file."""

    question: str
    answers: tuple[str, ...]
    """Gold answer first, then its aliases; letters where there are choices. Empty where the split is unlabelled."""
    id: str | None = None
    """None: its place becomes its id."""
    series: str | None = None
    """Places are counted in it, from 0, as MIRAGE (Xiong et al., 2024) numbers the questions of a subject of MMLU;
    None: in the whole dataset, from 1."""
    choices: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    paragraphs: tuple[Paragraph, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The fields of one entry as the file has them, and where that is."""

    fields: Mapping[str, Any]
    file: Path | str
    line: int | None = None
    """1-based, in files of lines."""
    number: int
    """1-based place among the entries."""

    @property
    def place(self) -> str:
        """Its line, or its number where there are no lines."""
        return f"line {self.line}" if self.line is not None else f"item {self.number}"

    def error(self, message: str) -> UserError:
        """The error for what is wrong with this row."""
        where = "" if self.line is not None else f"{self.place}: "
        return UserError(where + message, file=self.file, line=self.line)

    def text(self, *keys: str) -> str:
        """The text under the first of these keys that there is; UserError where there is none."""
        for key in keys:
            if key in self.fields:
                return self.checked(self.fields[key], key)
        found = ", ".join(map(repr, self.fields)) or "no keys"
        raise self.error(f"there is no {keys[0]!r}; expected a text; found {found}")

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts under a key, each once, at least one; one text counts as a list of it."""
        if key not in self.fields:
            return (self.text(key),)
        value = self.fields[key]
        entries = [value] if isinstance(value, str) else value
        if not isinstance(entries, list) or not entries:
            raise self.error(f"{key!r} is {short(value)}; expected a list of texts")
        return tuple(dict.fromkeys(self.checked(entry, key) for entry in entries))

    def checked(self, value: object, what: str) -> str:
        """The value, if it is a text (or a finite number, written as one) with something in it."""
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{what!r} is {short(value)}; expected a text")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.error(f"{what!r} holds half of a surrogate pair, which is no character")
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """How one dataset is published. Its name is that of its card, and ``metadata["dataset"]`` of its questions."""

    name: str
    task: str
    rows: Callable[[Path], Iterator[Row]]
    """The rows of a file (or folder) as the owner ships it."""
    read: Callable[[Row], Item]
    """One row, of a file or of the Hugging Face repository that the card names. Whatever it raises is told as a row
    that is no entry of the dataset."""

    def item(self, row: Row) -> Item:
        """The row's item; UserError where it is no entry of this dataset."""
        try:
            return self.read(row)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise row.error(f"is no entry of {self.name}: {type(error).__name__}: {error}") from None


def short(value: object) -> str:
    """The value as an error quotes it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def json_rows(path: Path, *, under: str | None = None) -> Iterator[Row]:
    """The objects of a JSON Lines file (``.jsonl``), or of a list in a JSON document; ``.gz`` is unpacked.

    ``under`` is the key of the list, where the document is an object that holds it; the bare list is read too.
    """
    if ".jsonl" in path.suffixes:
        for number, (line, fields) in enumerate(read_jsonl(path), start=1):
            yield Row(fields=fields, file=path, line=line, number=number)
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


def _document(path: Path) -> object:
    try:
        with opened(path) as file:
            return json.load(file)
    except json.JSONDecodeError as error:
        hint = "; a file with one object a line is named .jsonl" if error.msg == "Extra data" else ""
        raise UserError(f"is not JSON: {error.msg}, column {error.colno}{hint}", file=path, line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not JSON: {error}", file=path) from None


def csv_rows(path: Path, columns: Sequence[str], *, header: bool) -> Iterator[Row]:
    """The rows of a CSV file in UTF-8, as fields of these names; with ``header`` its first row must hold them."""
    reader = csv.reader(f"{line}\n" for line in lines(path))
    begins = number = 1
    try:
        for cells in reader:
            line, begins = begins, reader.line_num + 1
            if header and line == 1:
                if [cell.strip() for cell in cells] != list(columns):
                    found = ",".join(cells)
                    raise UserError(f"expected the header {','.join(columns)}, found {found}", file=path, line=1)
            elif cells and len(cells) != len(columns):
                expected = f"expected {len(columns)} columns ({', '.join(columns)})"
                raise UserError(f"{expected}, found {len(cells)}", file=path, line=line)
            elif cells:
                yield Row(fields=dict(zip(columns, cells, strict=True)), file=path, line=line, number=number)
                number += 1
    except csv.Error as error:
        raise UserError(f"is not CSV: {error}", file=path, line=reader.line_num) from None


def lines(path: Path) -> list[str]:
    r"""The lines of a text file in UTF-8, without their ends: only ``\n`` and ``\r\n`` end one."""
    try:
        with opened(path) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"is not UTF-8 text: {error.reason} at byte {error.start}", file=path) from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
