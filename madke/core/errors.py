"""The two kinds of trouble that have a name: bad input, and a model call that did not succeed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """Bad input, said in one line for the person who can mend it. The CLI prints it and exits 2.

    Args:
        message: What was found and what was expected.
        file: The file it was found in, if there is one.
        line: The 1-based line in that file, if there is one.
    """

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None) -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + " ".join(message.split()))


class CallError(Exception):
    """One attempt at a model call failed. Only ``madke.llm`` raises and catches it.

    Args:
        reason: Why, in words fit for a transcript (no secrets).
        retryable: Whether the same request may succeed later (408, 409, 429, 5xx, connection, timeout).
        retry_after: Seconds the server asked us to wait, if it did.
        overloaded: Whether the server said that it is asked too much (429, 503), so that less should be asked.
        timed_out: Whether the reply was not there in time: the server may have worked on it, and may charge for it.
    """

    def __init__(
        self,
        reason: str,
        *,
        retryable: bool,
        retry_after: float | None = None,
        overloaded: bool = False,
        timed_out: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable
        self.retry_after = retry_after
        self.overloaded = overloaded
        self.timed_out = timed_out


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is none of the known ones, with the nearest as a suggestion."""
    options = sorted(known)
    near = difflib.get_close_matches(name, options, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"unknown {kind} {name!r}; {hint}known: {', '.join(options)}")
