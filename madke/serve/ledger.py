"""Which answers have reached their clients, so that a retry goes on and a new request debates anew."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from madke.core.errors import UserError
from madke.files import file_lock

Asked = tuple[str, str]
"""Run and question id."""


@dataclass(slots=True)
class _Repeats:
    """The debates of one question, by repeat number."""

    started: set[int] = field(default_factory=set)
    delivered: set[int] = field(default_factory=set)
    live: dict[int, int] = field(default_factory=dict)
    """Repeat -> number of requests that wait for it."""


@dataclass(slots=True)
class Place:
    """One request's debate."""

    repeat: int
    delivered: bool = False
    """Set it when the whole answer has been sent."""


class Ledger:
    """The debates that were started and delivered, in ``served.jsonl``. Use it as a context manager.

    A request takes the first repeat of its question that no other request waits for and that was not delivered: after
    a lost connection or a crash that is the debate which it continues. A request that says it is a retry may also
    share a repeat with a connection that has not closed yet, or get a delivered answer that was lost on its way.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "served.jsonl"
        self._asked: defaultdict[Asked, _Repeats] = defaultdict(_Repeats)

    @contextmanager
    def place(self, run: str, question: str, *, retry: bool) -> Iterator[Place]:
        """The repeat for a request, until the request ends."""
        known = self._asked[run, question]
        place = Place(_retried(known) if retry else _free(known))
        self._write(run, question, place.repeat, known.started, "started")
        known.live[place.repeat] = known.live.get(place.repeat, 0) + 1
        try:
            yield place
        finally:
            known.live[place.repeat] -= 1
            if not known.live[place.repeat]:
                del known.live[place.repeat]
            if place.delivered:
                self._write(run, question, place.repeat, known.delivered, "delivered")

    def _write(self, run: str, question: str, repeat: int, known: set[int], state: str) -> None:
        if repeat not in known:
            known.add(repeat)
            self._file.write(json.dumps([run, question, repeat, state]).encode() + b"\n")

    def __enter__(self) -> Self:
        busy = UserError("another server is using it; choose another --out", file=self._path.parent)
        self._held = file_lock(self._path, busy)
        self._file = self._held.__enter__()
        content = self._path.read_bytes()
        if not content.endswith(b"\n"):  # of a killed server
            self._file.write(b"\n")
        for line in content.splitlines():
            with suppress(ValueError, TypeError):
                run, question, repeat, state = json.loads(line)
                known = self._asked[run, question]
                (known.delivered if state == "delivered" else known.started).add(int(repeat))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, trace)


def _free(known: _Repeats) -> int:
    return next(n for n in count() if n not in known.live and n not in known.delivered)


def _retried(known: _Repeats) -> int:
    left = known.started - known.delivered - known.live.keys()
    if left:
        return min(left)
    if known.live:
        return min(known.live, key=lambda n: (known.live[n], n))
    return max(known.delivered, default=0)
