"""What every grammar returns, and how much of a text it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar

from madke.core.transcript import ParseStatus

T = TypeVar("T")
P = ParamSpec("P")

WINDOW = 200_000
"""Characters that are read, from the end of a text: its answer stands there."""


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
    """A value and its place."""
    return Parsed(value=value, status="ok", rule=rule, span=span)


def abstained(value: T, rule: str = "none") -> Parsed[T]:
    """No value; ``value`` is the grammar's way to say so."""
    return Parsed(value=value, status="abstained", rule=rule)


def windowed(parse: Callable[Concatenate[str, P], Parsed[T]]) -> Callable[Concatenate[str, P], Parsed[T]]:
    """A grammar that reads only the last :data:`WINDOW` characters; spans refer to the whole text."""

    @wraps(parse)
    def read(text: str, /, *args: P.args, **kwargs: P.kwargs) -> Parsed[T]:
        cut = max(0, len(text) - WINDOW)
        parsed = parse(text[cut:], *args, **kwargs)
        return replace(parsed, span=(parsed.span[0] + cut, parsed.span[1] + cut)) if parsed.span and cut else parsed

    return read
