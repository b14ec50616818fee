"""A run without a pool file builds its own pools, once, in its directory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from madke.core.errors import UserError
from madke.core.events import Event, Listener, PoolProgress, PoolsReady, silent
from madke.core.knowledge import SourceCounts
from madke.pools.building import depth, in_search_thread, retrieve_pools
from madke.pools.pool_file import missing_pools
from madke.runs.directory import RunDirectory
from madke.runs.job import Job

_log = logging.getLogger(__name__)


async def own_pools(
    job: Job,
    directory: RunDirectory,
    tell: Listener = silent,
    *,
    replay: bool,
    stage: Callable[[Path], Awaitable[None]] | None = None,
) -> Path:
    """The run's own pool file, after missing pools are retrieved; UserError if a source or the file fails.

    ``stage`` adds query stages and rerankings to a file of pools.
    """
    knowledge, file = job.protocol.knowledge, directory.path / "pools.jsonl"
    assert knowledge is not None
    if directory.begun and not file.exists():
        raise UserError("holds a run without its own pools; pass its pool file with --pools", file=directory.path)
    if replay:
        return file
    if not directory.begun:
        # Pools without a run come from one that was stopped early; their origin is unknown.
        file.unlink(missing_ok=True)
    counts: Mapping[str, SourceCounts] = {}
    with missing_pools(file, job.questions) as (missing, more):
        if missing:
            listen = from_thread(tell)
            k, progress = depth(knowledge), partial(pool_progress, listen)
            counts = await in_search_thread(
                lambda stopped: retrieve_pools(
                    missing, job.sources(listen), k, more, progress=progress, stopped=stopped
                )
            )
            if stage is not None:
                await stage(more)
    for name, count in counts.items():
        if count.failed:
            _log.warning("source %s failed for %d of %d questions: %s", name, count.failed, count.asked, count.reason)
    if counts:
        tell(PoolsReady(found=counts))
    return file


def pool_progress(listen: Listener, done: int, total: int) -> None:
    """Send the progress of a search for pools."""
    listen(PoolProgress(done=done, total=total))


def from_thread(listen: Listener) -> Listener:
    """A listener for another thread, which passes events to ``listen`` in this event loop."""
    loop = asyncio.get_running_loop()

    def forward(event: Event) -> None:
        loop.call_soon_threadsafe(lambda: listen(event))

    return forward
