"""Limits on concurrent calls, and on calls and tokens per minute."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from heapq import heappop, heappush
from itertools import count

from madke.core.chat import ChatModel, ChatRequest, Completion, Prefix, takes_schemas
from madke.core.errors import CallError
from madke.models.endpoint import AtEndpoint
from madke.models.prefixes import Prefixes
from madke.models.timeouts import time_limit

SLOW_START = 16
LONGEST_PAUSE = 120.0
"""Longest pause in seconds that one response can cause; as long as the total wait of a ``RetryPolicy``."""
_QUESTIONS = 10_000
"""Questions whose turn is remembered."""
_SHORTEST = 1e-6
"""Shorter waits, in seconds, are rounding errors."""


@dataclass(kw_only=True, slots=True)
class LimiterState:
    """The state of a limiter, for display."""

    limit: int = 0
    in_flight: int = 0
    waiting: int = 0
    """Calls that wait for a free slot, for a rate limit, or for the end of a pause."""
    peak: int = 0
    """Highest number of calls in flight; ``lowest`` is the lowest limit."""
    lowest: int = 0
    episodes: int = 0
    """Number of overloads; each one halved the limit."""
    paused_seconds: float = 0.0


class Limiter:
    """The limit that all calls to one endpoint share: additive increase, multiplicative decrease.

    It grows by one for each successful call while others wait, from ``start`` up to ``concurrency`` (TCP's slow start).
    A rejected call (429, 503) or one that timed out halves it; calls that began before a cut do not cut again. After
    that it grows by one for each round of calls. Questions that made a call before others go first, so that they find
    their prompts in the server's cache.

    A wait that the server names delays every call; one longer than :data:`LONGEST_PAUSE` means a used-up quota, which a
    failed call reports at once. Rates are token buckets that hold one second's worth. The tokens of a call are known
    only afterwards: an overdrawn bucket refills before the next call starts.

    ``concurrency`` is the maximum number of calls in flight, ``rpm`` of calls per minute, ``tpm`` of prompt and
    completion tokens per minute. ``start`` is ``concurrency`` for local models, which have no other clients.
    """

    def __init__(
        self,
        concurrency: int,
        rpm: int | None = None,
        tpm: int | None = None,
        *,
        start: int = SLOW_START,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._concurrency = concurrency
        self._limit = float(min(start, concurrency))
        self._state = LimiterState(lowest=int(self._limit))
        self._calls = _Bucket(rpm, clock)
        self._tokens = _Bucket(tpm, clock)
        self._clock = clock
        self._sleep = sleep
        self._paused_until = 0.0
        self._growth = 0
        """Number of further successes that raise the limit: the calls in flight when a call last had to wait."""
        self._closed = False
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap: the turn of the call's question, a number, and the call's slot."""
        self._numbers = count()
        self._turns: dict[str, int] = {}
        self._timer: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()

    def state(self) -> LimiterState:
        """A snapshot of the limiter."""
        waiting = sum(not slot.done() for _, _, slot in self._queue)
        return replace(self._state, limit=int(self._limit), waiting=waiting)

    def spend(self, tokens: int) -> None:
        """Count the tokens of a finished call."""
        self._tokens.take(tokens)

    def back_off(self, began: int) -> None:
        """Halve the limit for a rejected call, unless it began before the last cut: with fewer overloads than now."""
        if began == self._state.episodes:
            self._state.episodes += 1
            self._limit = max(1.0, min(self._limit, self._state.in_flight) / 2)
            self._state.lowest = min(self._state.lowest, int(self._limit))

    def pause(self, seconds: float) -> None:
        """Start no call for ``seconds``; ignored if that is longer than :data:`LONGEST_PAUSE`."""
        if 0 < seconds <= LONGEST_PAUSE:
            now = self._clock()
            self._state.paused_seconds += max(0.0, now + seconds - max(now, self._paused_until))
            self._paused_until = max(self._paused_until, now + seconds)

    def close(self) -> None:
        """Start no further calls: waiting calls never start, calls in flight finish."""
        self._closed = True

    async def drained(self) -> None:
        """Wait until no call is in flight."""
        while self._state.in_flight:
            self._idle.clear()
            await self._idle.wait()

    @asynccontextmanager
    async def slot(self, question: str) -> AsyncIterator[int]:
        """A slot for a call of a question; gives the number of overloads so far."""
        slot = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        if len(self._turns) >= _QUESTIONS:
            self._turns.clear()
        heappush(self._queue, (self._turns.setdefault(question, number), number, slot))
        self._admit()
        if not slot.done() and self._state.in_flight >= int(self._limit):
            self._growth = self._state.in_flight
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self._leave()
            raise
        try:
            yield self._state.episodes
            if self._queue and self._state.in_flight >= int(self._limit):
                self._growth = self._state.in_flight
            if self._growth and self._limit < self._concurrency:
                self._growth -= 1
                self._limit += 1 / int(self._limit) if self._state.episodes else 1
        finally:
            self._leave()

    def _leave(self) -> None:
        self._state.in_flight -= 1
        if not self._state.in_flight:
            self._idle.set()
        self._admit()

    def _wait(self) -> float:
        """Seconds until the next call may start, if a slot is free."""
        pause = self._paused_until - self._clock() if self._paused_until else 0.0
        return max(pause if pause > _SHORTEST else 0.0, self._calls.wait(), self._tokens.wait())

    def _admit(self) -> None:
        """Start the waiting calls that have a slot; if a rate or a pause delays them, try again after the wait."""
        while self._queue and self._state.in_flight < int(self._limit) and not self._closed:
            if self._queue[0][-1].done():  # cancelled
                heappop(self._queue)
            elif self._wait():
                if self._timer is None or self._timer.done():
                    self._timer = asyncio.get_running_loop().create_task(self._admit_later())
                return
            else:
                self._calls.take(1)
                self._state.in_flight += 1
                self._state.peak = max(self._state.peak, self._state.in_flight)
                heappop(self._queue)[-1].set_result(None)

    async def _admit_later(self) -> None:
        while seconds := self._wait():
            await self._sleep(seconds)
        self._timer = None
        self._admit()


class Limits:
    """The limiters of a run: one for each endpoint, one for all models on this machine, one for services.

    Arguments as for :class:`Limiter` and :class:`madke.models.prefixes.Prefixes`.
    """

    def __init__(
        self,
        concurrency: int,
        rpm: int | None = None,
        tpm: int | None = None,
        *,
        prefix: Prefix = "auto",
        interactive: bool = False,
    ) -> None:
        self._default = (concurrency, rpm, tpm)
        self._prefix, self._interactive = prefix, interactive
        self._limiters: dict[str | None, Limiter] = {}
        self._prefixes: dict[tuple[str, str], Prefixes] = {}
        self.services = Limiter(concurrency, start=concurrency)
        """Of searches and answer scoring; not part of :meth:`state`."""

    def of(self, model: object) -> Limiter:
        """The limiter of a model's calls."""
        concurrency, rpm, tpm = self._default
        if not isinstance(model, AtEndpoint):
            return self._limiters.setdefault(None, Limiter(concurrency, rpm, tpm, start=concurrency))
        own = model.endpoint.entry
        limiter = Limiter(own.concurrency or concurrency, own.rpm or rpm, own.tpm or tpm)
        return self._limiters.setdefault(model.endpoint.limited_as, limiter)

    def prefixes_of(self, model: object) -> Prefixes | None:
        """The gate of a model's calls; None for models on this machine, which batch their calls themselves."""
        if not isinstance(model, AtEndpoint):
            return None
        key = (model.endpoint.limited_as, model.name)
        if key not in self._prefixes:
            bound = time_limit(model.endpoint.entry)
            self._prefixes[key] = Prefixes(model, self._prefix, interactive=self._interactive, bound=bound)
        return self._prefixes[key]

    def state(self) -> LimiterState:
        """The sums over all limiters; ``lowest`` is their minimum."""
        states = [limiter.state() for limiter in self._limiters.values()]
        sums = {each.name: sum(getattr(state, each.name) for state in states) for each in fields(LimiterState)}
        return LimiterState(**{**sums, "lowest": min((state.lowest for state in states), default=0)})

    def close(self) -> None:
        """Start no further calls."""
        for limiter in self._all:
            limiter.close()

    async def drained(self) -> None:
        """Wait until no call is in flight."""
        for limiter in self._all:
            await limiter.drained()

    @property
    def in_flight(self) -> int:
        """Calls in flight, also to services."""
        return sum(limiter.state().in_flight for limiter in self._all)

    @property
    def _all(self) -> list[Limiter]:
        return [*self._limiters.values(), self.services]


class Limited:
    """A model whose calls wait for a leader, if there is a gate, and for a limiter; they report to both."""

    def __init__(self, model: ChatModel, limiter: Limiter, prefixes: Prefixes | None = None) -> None:
        self.name = model.name
        self.takes_schemas = takes_schemas(model)
        self._model = model
        self._limiter = limiter
        self._prefixes = prefixes

    async def complete(self, request: ChatRequest) -> Completion:
        """Wait for a slot, call the model, count the tokens."""
        if self._prefixes is None:
            async with self._limiter.slot(request.purpose.question) as began:
                return await self._attempt(request, began)
        async with self._prefixes.call(request) as call:
            async with self._limiter.slot(request.purpose.question) as began:
                completion = await self._attempt(call.sent(), began)
            self._prefixes.note_reply(call, completion)
            return completion

    async def _attempt(self, request: ChatRequest, began: int) -> Completion:
        try:
            completion = await self._model.complete(request)
        except CallError as error:
            if error.overloaded or error.timed_out:
                self._limiter.back_off(began)
                self._limiter.pause(error.retry_after or 0.0)
            raise
        self._limiter.spend(completion.usage.prompt_tokens + completion.usage.completion_tokens)
        return completion


class _Bucket:
    """A token bucket: fills at a steady rate up to one second's worth (at least one unit); may be overdrawn."""

    def __init__(self, per_minute: int | None, clock: Callable[[], float]) -> None:
        self._rate = None if per_minute is None else per_minute / 60
        self._size = max(1.0, self._rate or 0.0)
        self._clock = clock
        self._level = self._size
        self._seen = clock()

    def wait(self) -> float:
        """Seconds until one unit is available; 0 if one is."""
        if self._rate is None:
            return 0.0
        now = self._clock()
        self._level = min(self._size, self._level + (now - self._seen) * self._rate)
        self._seen = now
        lacking = 1.0 - self._level
        return lacking / self._rate if lacking > _SHORTEST else 0.0

    def take(self, units: int) -> None:
        self._level -= units
