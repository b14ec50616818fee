"""Progress on stderr: a line that renews itself on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from madke.terminal import renew

if TYPE_CHECKING:
    from madke.core.events import Event
    from madke.runs.meter import Meter

_TERMINAL_SECONDS = 0.5
_PLAIN_SECONDS = 10.0


@asynccontextmanager
async def showing(line: Callable[[], str]) -> AsyncIterator[None]:
    """Show a line while the block runs, and once more when it ends."""

    async def tick() -> None:
        while True:
            await asyncio.sleep(_pause())
            renew(line(), last=False)

    ticker = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticker.cancel()
        with suppress(asyncio.CancelledError):
            await ticker
        renew(line(), last=True)


@contextmanager
def run_progress() -> Iterator[Callable[[Event], None]]:
    """A listener that shows how far a run is."""
    yield lambda event: None


def why_stopped(meter: Meter) -> str:
    """Why a run has ended early, and how it goes on."""
    why, again = meter.stopped, "the same command again"
    if why is None:
        why, again = "the call store lacks calls", "the command without --replay"
    elif meter.budget is not None and why == meter.budget.reached:
        used = f"{meter.budget.cost:.4g}" if why == "--max-cost" else f"{meter.budget.tokens:,} tokens"
        why, again = f"{why} is reached, {used} are used", "a higher one"
    elif why == "--deadline":
        why = "--deadline is reached"
    return f"{why}; {meter.left_over} questions have no outcome yet, and {again} goes on from there"


def counter(what: str) -> Callable[[int, int | None], None]:
    """A callback that shows ``done`` of ``total``, not more often than people can read."""
    due = _due()

    def show(done: int, total: int | None) -> None:
        if done == total or due():
            of = "" if total is None else f"/{total:,}"
            renew(f"{what}: {done:,}{of}", last=done == total)

    return show


@contextmanager
def now_and_then() -> Iterator[Callable[[str], None]]:
    """Shows the lines that it is given, not more often than people can read; none stays on a terminal."""
    due = _due()
    try:
        yield lambda line: renew(line, last=False) if due() else None
    finally:
        if sys.stderr.isatty():
            renew("", last=False)


def _due() -> Callable[[], bool]:
    """Says yes when people have had time to read since it last did, or since it was made."""
    said = time.monotonic()

    def due() -> bool:
        nonlocal said
        now = time.monotonic()
        if now - said < _pause():
            return False
        said = now
        return True

    return due


def _pause() -> float:
    return _TERMINAL_SECONDS if sys.stderr.isatty() else _PLAIN_SECONDS
