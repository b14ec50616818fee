"""The schema of a bound reply: a few fields in a fixed order. Endpoints get it as JSON Schema."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaField:
    """One field of a bound reply."""

    name: Literal["reasoning", "selected", "quotes", "verdict", "side", "answer"]
    words: tuple[str, ...] = ()
    """The words that a text may be; empty: any text."""
    numbers: tuple[int, ...] | None = None
    """The numbers that a list may hold; None: the field is a text."""
    with_texts: bool = False
    """Whether the items of the list are records: a ``passage``, which is one of the numbers, and a ``text``."""
    max_length: int | None = None
    """Characters of a text, items of a list. A server may not enforce it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """The fields of a reply, in order. All are required, and there are no others."""

    name: str
    """A word that describes the reply; servers require one."""
    fields: tuple[SchemaField, ...]
