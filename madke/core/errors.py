"""Exceptions: bad input, a failed model call, an unknown name; and counts in their sentences."""

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
    """Bad input, explained in one line: ``file``, 1-based ``line``, what was found and what was expected.

    The CLI prints it and exits with ``exit_status``.
    """

    exit_status = 2

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None) -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + " ".join(message.split()))


@dataclass(eq=False)
class CallError(Exception):
    """One attempt at a model call failed. Only ``madke.models`` raises and catches it."""

    reason: str
    """For the transcript; holds no secrets."""
    _: KW_ONLY
    retryable: bool
    """Whether the same request may succeed later (408, 409, 429, 5xx, connection, timeout)."""
    retry_after: float | None = None
    """Seconds that the server asked to wait."""
    overloaded: bool = False
    """Whether to send fewer calls at a time (429, 503)."""
    timed_out: bool = False
    """Whether the server may have processed the request and may charge for it. Then fewer calls are sent, too."""
    unavailable: bool = False
    """Whether the service tier has no resources at the moment. It costs nothing, and fewer calls would not help."""

    def __str__(self) -> str:
        return self.reason


class Unfinished(UserError):
    """Pools whose stages were stopped, by a limit or because the calls of a model all fail."""

    exit_status = 1

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the pools are not complete: {why}; the same command goes on, with a higher limit if one is "
            "reached; finished calls are kept"
        )


def count_of(number: int, one: str, many: str = "") -> str:
    """``1 question``, ``1,234 questions``. ``many`` is the plural; by default ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not among the known ones; it suggests the nearest."""
    options = sorted(known)
    return UserError(f"unknown {kind} {name!r}; {_hint(name, options, '? ')}known: {', '.join(options)}")


def suggesting(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: the TypeError for an unknown keyword suggests the nearest parameter of the function."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        known = signature(call).parameters
        if unexpected := [name for name in kwargs if name not in known]:
            hint = _hint(unexpected[0], known, "?") or f"it takes: {', '.join(known)}"
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unexpected[0]!r}; {hint}")
        return function(*args, **kwargs)

    return call


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: the most similar one; None if none is similar."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def _hint(name: str, known: Iterable[str], end: str) -> str:
    near = nearest(name, known)
    return f"did you mean {near!r}{end}" if near else ""
