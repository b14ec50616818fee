"""Errors with a name: bad input, a model call that did not succeed, a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class UserError(Exception):
    """Bad input, said in one line for the person who can mend it. The CLI prints it and exits 2.

    Args:
        message: What was found and what was expected.
        file: Where it was found.
        line: 1-based.
    """

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None) -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + " ".join(message.split()))


@dataclass(eq=False)
class CallError(Exception):
    """One attempt at a model call failed. Only ``madke.llm`` raises and catches it."""

    reason: str
    """In words fit for a transcript (no secrets)."""
    _: KW_ONLY
    retryable: bool
    """Whether the same request may succeed later (408, 409, 429, 5xx, connection, timeout)."""
    retry_after: float | None = None
    """Seconds the server asked us to wait."""
    overloaded: bool = False
    """Whether less should be asked (429, 503)."""
    timed_out: bool = False
    """Whether the server may have worked on it, and may charge for it."""

    def __str__(self) -> str:
        return self.reason


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is none of the known ones, with the nearest as a suggestion."""
    options = sorted(known)
    return UserError(f"unknown {kind} {name!r}; {_hint(name, options, '? ')}known: {', '.join(options)}")


def suggesting(function: Callable[P, T]) -> Callable[P, T]:
    """The function, whose TypeError for an unknown keyword names the nearest one of its signature."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        known = signature(call).parameters
        if strange := [name for name in kwargs if name not in known]:
            hint = _hint(strange[0], known, "?") or f"it takes: {', '.join(known)}"
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {strange[0]!r}; {hint}")
        return function(*args, **kwargs)

    return call


def _hint(name: str, known: Iterable[str], end: str) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}{end}" if near else ""
