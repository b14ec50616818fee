"""Progress lines on stderr, and a clean end on Ctrl-C.

On a terminal one line is redrawn, cut to its width. Elsewhere a plain line is printed every 30 seconds.
"""

from __future__ import annotations

import atexit
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from madke._util.terminal import console, say
from madke.core.errors import count_of
from madke.core.events import Event, Listener, PoolProgress, PoolsReady, RunProgress, SourceOpened

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

    from madke.core.knowledge import Source, SourceCounts
    from madke.runs.meter import Meter

_TERMINAL_SECONDS = 0.5
PLAIN_SECONDS = 30.0
_PACE_SECONDS = 600.0
"""Window of the pace from which the remaining time is estimated."""
_SLOWEST = 0.05
"""Fewer calls per second are shown as none."""
_BAR, _SHORT_BAR = 30, 10
_WANTED = {_BAR: 4, _SHORT_BAR: 1, 0: 0}
"""Width of the bar -> the number of parts for which it makes room."""


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
    from madke.retrieval.named import is_sample

    sample = "; this is the shipped sample, use --sources for your own" if is_sample(name, spec) else ""
    say(f"source {name}: {description}{sample}", err=True)


def show_counts(found: Mapping[str, SourceCounts]) -> None:
    """Show the number of questions with passages, and of failed ones, by source."""
    for name, count in found.items():
        why = f" (first: {' '.join(count.reason.split())})" if count.reason else ""
        say(f"{name}: passages for {count.found} of {count.asked} questions, {count.failed} failed{why}", err=True)


def show_spent(sources: Iterable[Source]) -> None:
    """Show the requests and the cost of each source that counts them."""
    for source in sources:
        if hasattr(source, "spent"):
            say(source.spent.line(), err=True)


@contextmanager
def run_progress(what: str = "questions") -> Iterator[Listener]:
    """A listener that shows :class:`madke.core.events.RunProgress` during the block and once at its end."""
    line = _Line(what)
    latest: RunProgress | None = None

    def listen(event: Event) -> None:
        nonlocal latest
        if isinstance(event, RunProgress):
            latest = event
            # The first to end are the shortest, so they say nothing of the others.
            settled = event.done >= event.in_flight
            line.count(event.resumed + event.done, event.total, counts(event), settled=settled)

    try:
        yield listen
    finally:
        if latest is not None:
            line.count(latest.resumed + latest.done, latest.total, counts(latest), last=True)


def counts(progress: RunProgress) -> list[str]:
    """Cost, failures, rate and calls in flight, without zeros, the most important first."""
    rate = progress.calls / progress.at if progress.at else 0.0
    parts = {
        f"cost {progress.cost or 0:.4g}": progress.cost,
        f"{progress.failed:,} failed": progress.failed,
        f"{count_of(progress.failed_calls, 'call')} failed": progress.failed_calls,
        f"{rate:.1f} calls/s": rate >= _SLOWEST,
        f"{progress.in_flight} in flight": progress.in_flight,
        f"{count_of(progress.too_long, 'prompt')} too long": progress.too_long,
    }
    return [text for text, shown in parts.items() if shown]


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
    return f"{why}; {count_of(meter.left_over, 'question is', 'questions are')} unfinished; {how} resumes"


def counter(what: str) -> Callable[[int, int | None], None]:
    """A callback that shows ``done`` of ``total``, which is None while unknown."""
    line = _Line(what)

    def show(done: int, total: int | None) -> None:
        line.count(done, total, last=done == total)

    return show


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """A function that shows a line as the current status. A terminal is cleared at the end."""
    line = _Line("", stays=False)
    try:
        yield line.show
    finally:
        line.stop()


class Region:
    """Lines at the end of the terminal that are redrawn in place until :meth:`stop`; with ``stays`` they remain."""

    def __init__(self, shown: RenderableType, *, stays: bool = False) -> None:
        from rich.live import Live

        self._live = Live(
            shown,
            console=console(err=True),
            refresh_per_second=1 / _TERMINAL_SECONDS,
            transient=not stays,
            redirect_stdout=False,
        )
        self._live.start(refresh=True)
        self._live.console.show_cursor(True)  # otherwise a killed process leaves it hidden
        atexit.register(self.stop)

    def stop(self) -> None:
        """Draw the last state, or erase it."""
        self._live.stop()
        atexit.unregister(self.stop)


class _Line:
    """One line of progress. With ``stays``, its last state remains on a terminal."""

    def __init__(self, what: str, *, stays: bool = True) -> None:
        self._what = what
        self._stays = stays
        self._due = time.monotonic() + PLAIN_SECONDS
        self._region: Region | None = None
        self._text: Callable[[ConsoleOptions], str]
        self._seen: deque[tuple[float, int]] = deque()
        """Times of the pace's window, and the counts then."""

    def show(self, text: str, *, last: bool = False) -> None:
        self._show(lambda options: text, text, last=last)

    def count(
        self, done: int, total: int | None, extra: Sequence[str] = (), *, settled: bool = True, last: bool = False
    ) -> None:
        """Show a count with a bar on a terminal, its remaining time if ``settled``, and what fits of ``extra``."""
        number = f"{done:,}" if total is None else f"{done:,}/{total:,}"
        left = self._seconds_left(done, total)
        extra = [*([f"{duration(left)} left"] if left and settled and not last else []), *extra]
        plain = f"{self._what}: {', '.join((number, *extra))}"
        self._show(lambda options: _fitted(options, self._what, done, total, number, extra), plain, last=last)

    def stop(self) -> None:
        if self._region is not None:
            self._region.stop()
            self._region = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        yield Text(self._text(options), no_wrap=True, overflow="ellipsis", end="")

    def _show(self, text: Callable[[ConsoleOptions], str], plain: str, *, last: bool) -> None:
        if sys.stderr.isatty():
            self._text = text
            if self._region is None:
                self._region = Region(self, stays=self._stays)
            if last:
                self.stop()
        elif last or time.monotonic() >= self._due:
            self._due = time.monotonic() + PLAIN_SECONDS
            say(plain, err=True)

    def _seconds_left(self, done: int, total: int | None) -> float | None:
        """The remaining time at the pace of the window; None if there is none to tell."""
        now = time.monotonic()
        if self._seen and done < self._seen[-1][1]:  # a count that begins again
            self._seen.clear()
        if not self._seen or now >= self._seen[-1][0] + _TERMINAL_SECONDS:
            self._seen.append((now, done))
        while now - self._seen[0][0] > _PACE_SECONDS:
            self._seen.popleft()
        began, before = self._seen[0]
        return None if total is None or done <= before else (total - done) * (now - began) / (done - before)


def _fitted(options: ConsoleOptions, what: str, done: int, total: int | None, number: str, extra: Sequence[str]) -> str:
    """The line with a bar, as wide as the terminal allows: parts are dropped from the right, then the bar."""
    full, empty = ("#", ".") if options.ascii_only else ("\u2501", "\u2500")
    for width in (_BAR, _SHORT_BAR, 0):
        filled = width * done // total if total else 0
        bar = f"{full * filled}{empty * (width - filled)} " if width and total else ""
        head, kept = f"{what} {bar}{number}", len(extra)
        while kept and len(", ".join((head, *extra[:kept]))) > options.max_width:
            kept -= 1
        if kept >= min(_WANTED[width], len(extra)) and len(head) <= options.max_width:
            break
    return ", ".join((head, *extra[:kept]))


def duration(seconds: float) -> str:
    """Seconds as ``45 s``, ``12 min`` or ``3 h 20 min``."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{math.ceil(seconds)} s"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"
