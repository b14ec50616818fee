"""How many calls at once, and how many calls and tokens a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from madke.core.chat import ChatModel, ChatRequest, Completion


class Limiter:
    """A bound that all calls of a process share; ``async with limiter:`` waits for room.

    The rates are kept by token buckets that hold one second's worth, so no minute sees more than a sixtieth above
    its share. What a call costs in tokens is known only afterwards: calls start while the bucket is not overdrawn,
    and an overdrawn one is paid back before the next starts. The excess is at most what was in flight.

    Args:
        concurrency: Calls in flight at most.
        rpm: Calls a minute at most; None for no bound.
        tpm: Prompt and completion tokens a minute at most; None for no bound.
        clock: Seconds that never go back.
        sleep: Waits for so many seconds.
    """

    def __init__(
        self,
        concurrency: int,
        rpm: int | None = None,
        tpm: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._calls = _Bucket(rpm, clock)
        self._tokens = _Bucket(tpm, clock)
        self._sleep = sleep

    def spend(self, tokens: int) -> None:
        """Count the tokens of a call that has ended."""
        self._tokens.take(tokens)

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        try:
            while wait := max(self._calls.wait(), self._tokens.wait()):
                await self._sleep(wait)
            self._calls.take(1)
        except BaseException:
            self._slots.release()
            raise

    async def __aexit__(self, *error: object) -> None:
        self._slots.release()


class Limited:
    """A model whose calls wait for a limiter.

    Put it under :class:`madke.llm.Retrying`, so that a call which waits for its next attempt holds no slot.
    """

    def __init__(self, model: ChatModel, limiter: Limiter) -> None:
        self.name = model.name
        self._model = model
        self._limiter = limiter

    async def complete(self, request: ChatRequest) -> Completion:
        """Wait for room, ask, count the tokens."""
        async with self._limiter:
            completion = await self._model.complete(request)
            self._limiter.spend(completion.usage.prompt_tokens + completion.usage.completion_tokens)
            return completion


class _Bucket:
    """Fills at a steady rate up to one second's worth (one unit at least); may be overdrawn."""

    def __init__(self, per_minute: int | None, clock: Callable[[], float]) -> None:
        self._rate = None if per_minute is None else per_minute / 60
        self._size = max(1.0, self._rate or 0.0)
        self._clock = clock
        self._level = self._size
        self._seen = clock()

    def wait(self) -> float:
        """Seconds until one unit is there; 0 if it is."""
        if self._rate is None:
            return 0.0
        now = self._clock()
        self._level = min(self._size, self._level + (now - self._seen) * self._rate)
        self._seen = now
        lacking = 1.0 - self._level
        # Below that, rounding would ask for waits too short to move the clock.
        return lacking / self._rate if lacking > 1e-6 else 0.0

    def take(self, units: int) -> None:
        self._level -= units
