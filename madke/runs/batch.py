"""The batch runner: workers over questions, every outcome written when it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.runs.directory import RunDirectory
from madke.runs.meter import Meter

Play = Callable[[Question, int], Awaitable[Transcript]]
"""Debates one question, in one repeat (0-based)."""


async def run_batch(
    pending: Iterable[tuple[Question, int]],
    play: Play,
    *,
    directory: RunDirectory,
    meter: Meter,
    workers: int,
    drain: Callable[[], Awaitable[None]],
) -> None:
    """Debate questions, each in the repeat that stands with it.

    Args:
        pending: What is to be done; taken one by one, so that no more than one state per worker is in memory.
        play: Who debates them.
        directory: Where transcripts go.
        meter: Its counts of questions are updated here. Where it says why to stop, no further question begins.
        workers: Questions under way at once.
        drain: Lets no call begin any more and waits for those under way, before an error in one debate ends the others.

    Raises:
        UserError: The directory or the call store cannot be written any more. What had finished is in them.
    """
    # One iterator shared by all workers: each takes the next question when it is free.
    left = iter(pending)

    async def work() -> None:
        for question, repeat in left:
            if meter.stopped:
                return
            transcript = await play(question, repeat)
            if directory.write(transcript):
                meter.done += 1
                meter.failed += transcript.status == "failed"

    at_work = [asyncio.create_task(work()) for _ in range(workers)]
    try:
        ended, _ = await asyncio.wait(at_work, return_when=asyncio.FIRST_EXCEPTION)
        failures = [error for worker in ended if (error := worker.exception()) is not None]
        if failures:
            meter.ended = meter.ended or "an error"
            await drain()
            raise failures[0]
    finally:
        for worker in at_work:
            worker.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)
