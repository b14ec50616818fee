"""What a reader of a published file yields, and the row of the file it reads it from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from madke.core.errors import UserError


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
    """The dataset's own; None where it has none, and its place becomes one."""
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
        """The text under the first of these keys that there is.

        Raises:
            UserError: There is none, or it is no text with something in it.
        """
        for key in keys:
            if key in self.fields:
                return self.checked(self.fields[key], key)
        raise self.error(f"there is no {keys[0]!r}; expected a text; found {_keys(self.fields)}")

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts under a key, without those that stand there before; one text counts as a list of it.

        Raises:
            UserError: There is no such key, or what is there are no texts, or there is none.
        """
        if key not in self.fields:
            raise self.error(f"there is no {key!r}; expected a list of texts; found {_keys(self.fields)}")
        value = self.fields[key]
        entries = [value] if isinstance(value, str) else value
        if not isinstance(entries, list) or not entries:
            raise self.error(f"{key!r} is {short(value)}; expected a list of texts")
        return unique(self.checked(entry, key) for entry in entries)

    def list_of(self, key: str) -> list[Any]:
        """The list under a key.

        Raises:
            UserError: There is no list.
        """
        value = self.fields.get(key)
        if not isinstance(value, list):
            raise self.error(f"{key!r} is {short(value)}; expected a list")
        return value

    def checked(self, value: object, what: str) -> str:
        """The value, if it is a text (or a number, written as one) with something in it.

        Raises:
            UserError: It is not.
        """
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(f"{what!r} is {short(value)}; expected a text or a finite number")
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{what!r} is {short(value)}; expected a text")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.error(f"{what!r} holds half of a surrogate pair, which is no character") from None
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """How one dataset is published. Its name is that of its card, and ``metadata["dataset"]`` of its questions."""

    name: str
    task: str
    rows: Callable[[Path], Iterator[Row]]
    """The rows of a file (or folder) as the owner ships it."""
    item: Callable[[Row], Item]
    """One row, of a file or of the Hugging Face repository that the card names."""
    signs: tuple[frozenset[str], ...] = ()
    """For each of its layouts that has keys: those by which one knows it."""

    def fit(self, keys: Set[str]) -> int:
        """How well these keys fit: how many belong to the largest layout that they hold; 0 where they hold none."""
        return max((len(signs) for signs in self.signs if signs <= keys), default=0)


def unique(texts: Iterator[str]) -> tuple[str, ...]:
    """Each text once, in order."""
    return tuple(dict.fromkeys(texts))


def _keys(fields: Mapping[str, Any]) -> str:
    return ", ".join(repr(key) for key in fields) or "no keys"


def short(value: object) -> str:
    """The value as an error quotes it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
