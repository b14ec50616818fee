"""What every grammar returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from madke.core.transcript import ParseStatus

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed(Generic[T]):
    """What a grammar read from a text."""

    value: T
    status: ParseStatus
    """``ok``, or ``abstained`` where the text holds no value of this grammar."""
    rule: str
    """Which rule fired, for the parse-rate tables."""
    span: tuple[int, int] | None = None
    """Where in the text the value stands (of a selection: its last marker)."""


def found(value: T, rule: str, span: tuple[int, int]) -> Parsed[T]:
    """A value, and where it stands."""
    return Parsed(value=value, status="ok", rule=rule, span=span)


def abstained(value: T, rule: str = "none") -> Parsed[T]:
    """No value; ``value`` is how the grammar says so."""
    return Parsed(value=value, status="abstained", rule=rule)
