"""Progress lines on stderr, and a clean end on Ctrl-C.

On a terminal Rich redraws one line. Elsewhere a plain line is printed every 30 seconds.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from madke.core.events import Event, Listener, PoolProgress, PoolsReady, RunProgress, SourceOpened
from madke.terminal import console, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from madke.core.knowledge import SourceCounts
    from madke.runs.meter import Meter

_TERMINAL_SECONDS = 0.5
_PLAIN_SECONDS = 30.0
_PACE_SECONDS = 600.0
"""Window of the pace from which the remaining time is estimated."""


@contextmanager
def resumable() -> Iterator[None]:
    """On Ctrl-C, exit with status 130 (SIGTERM: 143) and say how to resume."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        say("madke: interrupted; the same command resumes", err=True)
        raise typer.Exit(exit_status(interrupt)) from None


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """128 + the number of the signal, as shells report it."""
    return int(getattr(interrupt, "exit_status", 130))


@contextmanager
def listening(*, line: bool = True) -> Iterator[Listener]:
    """A listener that shows each source and the progress of retrieval; with ``line`` also that of debates."""
    retrieved = counter("retrieved")
    with run_progress() as progress:

        def listen(event: Event) -> None:
            if isinstance(event, SourceOpened):
                show_source(event.name, event.spec, event.description)
            elif isinstance(event, PoolProgress):
                retrieved(event.done, event.total)
            elif isinstance(event, PoolsReady):
                show_counts(event.found)
            elif line:
                progress(event)

        yield listen


def show_source(name: str, spec: str | None, description: str) -> None:
    """Show the description of a source."""
    from madke.knowledge.named import is_sample

    sample = "; this is the shipped sample, use --sources for your own" if is_sample(name, spec) else ""
    say(f"source {name}: {description}{sample}", err=True)


def show_counts(found: Mapping[str, SourceCounts]) -> None:
    """Show the number of questions with passages, and of failed ones, by source."""
    for name, count in found.items():
        say(f"{name}: passages for {count.found} of {count.asked} questions, {count.failed} failed", err=True)


@contextmanager
def run_progress() -> Iterator[Listener]:
    """A listener that shows :class:`madke.core.events.RunProgress` during the block and once at its end."""
    line = _Line("questions")
    latest: RunProgress | None = None

    def show(progress: RunProgress, *, last: bool) -> None:
        done, extra = progress.resumed + progress.done, counts(progress)
        line.show(f"{done:,}/{progress.total:,} questions, {extra}", extra, done=done, total=progress.total, last=last)

    def listen(event: Event) -> None:
        nonlocal latest
        if isinstance(event, RunProgress):
            latest = event
            show(event, last=False)

    try:
        yield listen
    finally:
        if latest is not None:
            show(latest, last=True)


def counts(progress: RunProgress) -> str:
    """The text after the progress bar: rate, calls in flight, cost, failures."""
    parts = [f"{progress.calls / progress.at if progress.at else 0.0:.1f} calls/s", f"{progress.in_flight} in flight"]
    if progress.cost is not None:
        parts.append(f"cost {progress.cost:.4g}")
    if progress.too_long:
        parts.append(f"{progress.too_long:,} prompts too long")
    if progress.failed or progress.failed_calls:
        parts.append(f"{progress.failed_calls:,} calls and {progress.failed:,} questions failed")
    return ", ".join(parts)


@asynccontextmanager
async def showing(line: Callable[[], str]) -> AsyncIterator[None]:
    """Show a line of text during the block and once at its end."""
    shown = _Line("")

    async def tick() -> None:
        while True:
            await asyncio.sleep(_TERMINAL_SECONDS)
            shown.show(line())

    ticker = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticker.cancel()
        with suppress(asyncio.CancelledError):
            await ticker
        shown.show(line(), last=True)


def why_stopped(meter: Meter) -> str:
    """Why a run stopped early, and how to resume it."""
    why, how = meter.stopped, "the same command"
    if why is None:
        why, how = "the call store lacks calls", "the command without --replay"
    elif meter.budget is not None and why == meter.budget.reached:
        used = f"{meter.budget.cost:.4g}" if why == "--max-cost" else f"{meter.budget.tokens:,} tokens"
        why, how = f"{why} is reached, {used} used", f"the same command with a higher {why}"
    elif why == "--deadline":
        why = "--deadline is reached"
    return f"{why}; {meter.left_over} questions are unfinished; {how} resumes"


def counter(what: str) -> Callable[[int, int | None], None]:
    """A callback that shows ``done`` of ``total``, which is None while unknown."""
    line = _Line(what)

    def show(done: int, total: int | None) -> None:
        of = "" if total is None else f"/{total:,}"
        line.show(f"{what}: {done:,}{of}", done=done, total=total, last=done == total)

    return show


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """A function that shows a line as the current status. A terminal is cleared at the end."""
    line = _Line("", stays=False)
    try:
        yield line.show
    finally:
        line.stop()


class _Line:
    """One line of progress. With ``stays``, its last state remains on a terminal."""

    def __init__(self, what: str, *, stays: bool = True) -> None:
        self._what = what
        self._stays = stays
        self._due = time.monotonic() + _PLAIN_SECONDS
        self._drawn: tuple[Progress, TaskID] | None = None

    def show(
        self, text: str, extra: str = "", *, done: int | None = None, total: int | None = None, last: bool = False
    ) -> None:
        """Show ``text``, or on a terminal with ``done``, a bar and ``extra``."""
        if sys.stderr.isatty():
            self._draw(text if done is None else extra, done, total)
            if last:
                self.stop()
        elif last or time.monotonic() >= self._due:
            self._due = time.monotonic() + _PLAIN_SECONDS
            say(text, err=True)

    def stop(self) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()
            self._drawn = None

    def _draw(self, text: str, done: int | None, total: int | None) -> None:
        if self._drawn is None:
            from rich import progress as rich

            bar = (
                rich.TextColumn("{task.description}", markup=False),
                rich.BarColumn(),
                rich.MofNCompleteColumn(),
                rich.TimeRemainingColumn(),
            )
            line = rich.Progress(
                *(bar if done is not None else ()),
                rich.TextColumn("{task.fields[text]}", markup=False),
                console=console(err=True),
                refresh_per_second=1 / _TERMINAL_SECONDS,
                speed_estimate_period=_PACE_SECONDS,
                transient=not self._stays,
                redirect_stdout=False,
            )
            self._drawn = line, line.add_task(self._what, completed=done or 0, total=total, text=text)
            line.start()
            line.console.show_cursor(True)  # otherwise a killed process leaves it hidden
            atexit.register(self.stop)
        else:
            line, task = self._drawn
            line.update(task, completed=done, total=total, text=text)
