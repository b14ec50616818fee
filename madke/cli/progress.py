"""Progress on stderr, and a clean end on Ctrl-C.

On a terminal one line is redrawn. Elsewhere a plain line is printed every 30 seconds.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from madke._util.terminal import say, show_status
from madke.core.errors import count_of
from madke.core.events import Event, Listener, PoolProgress, PoolsReady, RunProgress, SourceOpened
from madke.core.knowledge import SourceCounts

if TYPE_CHECKING:
    from madke.core.knowledge import Source
    from madke.runs.meter import Meter

_TERMINAL_SECONDS, _PLAIN_SECONDS = 0.1, 30.0
"""Seconds between two states of a line, on a terminal and elsewhere."""


@contextmanager
def resumable() -> Iterator[None]:
    """On Ctrl-C, exit with status 130 (SIGTERM: 143) and say how to resume."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        show_status("")
        say("madke: interrupted; the same command resumes", err=True)
        raise typer.Exit(exit_status(interrupt)) from None


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """128 + the number of the signal, as shells report it."""
    return int(getattr(interrupt, "exit_status", 130))


@contextmanager
def listening(*, line: bool = True) -> Iterator[Listener]:
    """A listener that shows each source and the progress of retrieval; with ``line`` also that of debates.

    A study gets its pools block by block. Those of further blocks are counted, and shown at the end if passages lack.
    """
    retrieved, counts, lacking = _line(), dict[str, SourceCounts](), dict[str, None]()
    with run_progress() as progress:

        def listen(event: Event) -> None:
            if isinstance(event, SourceOpened):
                show_source(event.name, event.spec, event.description)
            elif isinstance(event, PoolProgress):
                if not counts or sys.stderr.isatty():
                    retrieved(f"retrieved: {event.done:,}/{event.total:,}")
            elif isinstance(event, PoolsReady):
                show_status("")
                show_counts({name: each for name, each in event.found.items() if name not in counts})
                lacking.update(dict.fromkeys(n for n, e in event.found.items() if n in counts and e.found < e.asked))
                counts.update({name: counts.get(name, SourceCounts()) + each for name, each in event.found.items()})
            elif line:
                progress(event)

        try:
            yield listen
        finally:
            show_counts({name: counts[name] for name in lacking})


def show_source(name: str, spec: str | None, description: str) -> None:
    """Show the description of a source."""
    from madke.retrieval.named import is_sample

    sample = "; this is the shipped sample, use --sources for your own" if is_sample(name, spec) else ""
    say(f"source {name}: {description}{sample}", err=True)


def show_counts(counts: Mapping[str, SourceCounts]) -> None:
    """Show the number of questions with passages, and of failed ones, by source."""
    for name, count in counts.items():
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
    show, latest = _line(), RunProgress(done=0, total=0)

    def text(*, last: bool = False) -> str:
        done, total = latest.resumed + latest.done, latest.total
        # The first to end are the shortest, so they say nothing of the others.
        known = latest.done > 0 and latest.done >= latest.in_flight and not last
        parts = {
            f"{done:,}/{total:,}": True,
            f"{duration(latest.at / max(1, latest.done) * (total - done))} left": known and done < total,
            f"cost {latest.cost or 0:.4g}": latest.cost,
            f"{latest.failed:,} failed": latest.failed,
            f"{count_of(latest.failed_calls, 'call')} failed": latest.failed_calls,
            f"{latest.calls / (latest.at or 1):.1f} calls/s": latest.calls,
            f"{latest.in_flight} in flight": latest.in_flight,
            f"{count_of(latest.too_long, 'prompt')} too long": latest.too_long,
        }
        return f"{what}: {', '.join(part for part, shown in parts.items() if shown)}"

    def listen(event: Event) -> None:
        nonlocal latest
        if isinstance(event, RunProgress):
            latest = event
            show(text())

    try:
        yield listen
    finally:
        if latest.total:
            show(text(last=True), last=True)


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
    show = _line()

    def count(done: int, total: int | None) -> None:
        show(f"{what}: {done:,}" + ("" if total is None else f"/{total:,}"), last=done == total)

    return count


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """A function that shows a line as the current status. A terminal is cleared at the end."""
    try:
        yield _line()
    finally:
        show_status("")


def _line() -> Callable[..., None]:
    """A function that shows the state of something, if the last one was long enough ago; ``last``: in any case."""
    on_terminal = sys.stderr.isatty()
    due = 0.0 if on_terminal else time.monotonic() + _PLAIN_SECONDS

    def show(text: str, *, last: bool = False) -> None:
        nonlocal due
        if not last and time.monotonic() < due:
            return
        due = time.monotonic() + (_TERMINAL_SECONDS if on_terminal else _PLAIN_SECONDS)
        if on_terminal and not last:
            show_status(text)
        else:
            show_status("")
            say(text, err=True)

    return show


def duration(seconds: float) -> str:
    """Seconds as ``45 s``, ``12 min`` or ``3 h 20 min``."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{math.ceil(seconds)} s"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"
