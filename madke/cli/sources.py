"""Sources opened, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from madke.terminal import say

if TYPE_CHECKING:
    from madke.core.events import Listener, SourceOpened
    from madke.core.knowledge import Source, SourceCounts


@contextmanager
def listening() -> Iterator[Listener]:
    """A listener that shows what serves each source, how far the pools are, and how far the run is."""
    from madke.cli.progress import counter, run_progress
    from madke.core.events import Event, PoolProgress, PoolsReady, SourceOpened

    retrieved = counter("retrieved")
    with run_progress() as progress:

        def listen(event: Event) -> None:
            if isinstance(event, SourceOpened):
                show_source(event)
            elif isinstance(event, PoolProgress):
                retrieved(event.done, event.total)
            elif isinstance(event, PoolsReady):
                show_found(event.found)
            else:
                progress(event)

        yield listen


def show_source(event: SourceOpened) -> None:
    """Say on stderr what serves a source."""
    from madke.knowledge.named import is_sample

    sample = "; the shipped sample, --sources names your own" if is_sample(event.name, event.spec) else ""
    say(f"source {event.name}: {event.description}{sample}", err=True)


def show_found(found: Mapping[str, SourceCounts]) -> None:
    """Say on stderr for how many questions each source found something, and for how many it failed."""
    for name, count in found.items():
        say(f"{name}: passages for {count.found} of {count.asked} questions, {count.failed} failed", err=True)


def open_sources(specs: Mapping[str, str | None]) -> list[Source]:
    """Open each source and say on stderr what serves it."""
    from madke.knowledge.named import is_sample, open_source

    opened = [open_source(name, spec) for name, spec in specs.items()]
    for source in opened:
        sample = "; the shipped sample, --sources names your own" if is_sample(source.name, specs[source.name]) else ""
        say(f"source {source.name}: {source.description}{sample}", err=True)
    return opened


def show_spent(sources: Iterable[Source]) -> None:
    """Say on stderr what each source that costs money has cost."""
    from madke.knowledge.serper import SerperSource

    for source in sources:
        if isinstance(source, SerperSource):
            say(source.spent.line(), err=True)
