"""Exceptions: bad input, a failed model call, an unknown name; and counts in their sentences."""

import difflib
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path


class UserError(Exception):
    """Bad input, explained in one line: ``file``, 1-based ``line``, what was found and what was expected.

    The CLI prints it and exits with status 2.
    """

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

    def __str__(self) -> str:
        return self.reason


def count_of(number: int, one: str, many: str = "") -> str:
    """``1 question``, ``1,234 questions``. ``many`` is the plural; by default ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not among the known ones; it suggests the nearest."""
    options = sorted(known)
    near = nearest(name, options)
    hint = f"did you mean {near!r}? " if near else ""
    return UserError(f"unknown {kind} {name!r}; {hint}known: {', '.join(options)}")


def short(value: object, most: int = 80) -> str:
    """The value as an error quotes it, in at most so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: the most similar one; None if none is similar."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)
