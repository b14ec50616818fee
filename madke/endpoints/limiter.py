"""Limits on concurrent calls, and on calls and tokens per minute."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from heapq import heappop, heappush
from itertools import count

from madke.core.chat import ChatModel, ChatRequest, Completion, Prefix, takes_schemas
from madke.core.errors import CallError
from madke.endpoints.endpoint import AtEndpoint
from madke.endpoints.patience import time_limit
from madke.endpoints.prefixes import Prefixes

SLOW_START = 16
LONGEST_PAUSE = 120.0
"""Longest pause in seconds that one response can cause; as long as the total wait of :class:`madke.llm.RetryPolicy`."""
TOLERATED = 0.2
"""Share of calls that a server may reject (429, 503) at random without being overloaded."""
EVIDENCE = 3.75
"""Score at which rejections count as an overload: five in a row, or more if calls succeed in between."""
_STEPS = 8
"""Steps of the event loop from a reply to the next call of its debate: it is stored, read, and the round may end."""
_QUESTIONS = 4096
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
    """The limit that all calls to one endpoint share. ``async with limiter:`` waits for a free slot, in FIFO order.

    **Turns.** With :meth:`of`, the calls of questions that have begun go before those of later ones: many questions at
    once would push each other's prompts out of the server's cache.

    **Concurrency.** The limit grows from ``start`` by one for each successful call that was in flight while others
    waited, so it doubles with each round of calls (TCP's slow start, RFC 5681), up to ``concurrency``.

    **Overload.** Each rejection raises a score by ``1 - TOLERATED``, each success lowers it by ``TOLERATED``, down to 0
    (Page's CUSUM test, 1954). At :data:`EVIDENCE` an *episode* begins: the limit, or the number of calls in flight if
    that is lower, is halved. Calls that began before a cut are not counted. One time-out is an overload. A service tier
    that has no resources is none: fewer calls would not help.

    **Recovery.** With each round of calls, the limit then grows by half of its distance to its value before the cut, at
    least by one: fast when it is far below, slowly when it is near (as in CUBIC, RFC 9438).

    **Pauses.** The Retry-After of an overload, or of a first call, delays every call. Pauses longer than
    :data:`LONGEST_PAUSE` are ignored: they mean a used-up quota, which a failed call reports at once.

    **Rates** are token buckets that hold one second's worth. The tokens of a call are known only afterwards: an
    overdrawn bucket refills before the next call starts.

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
        self._crowded = 0
        """Calls in flight when a call last had to wait, minus those that have ended since."""
        self._wanted = 0
        """Calls in flight and waiting when a call last had to wait."""
        self._score = 0.0
        self._suspected = 0
        """Calls in flight when the score left 0."""
        self._succeeded = False
        self._cut_at = 0.0
        self._paused_until = 0.0
        self._closed = False
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap: turn, number, and the place of a call."""
        self._numbers = count()
        self._turns: OrderedDict[str, int] = OrderedDict()
        """Question -> the turn of its calls."""
        self._held: list[str] = []
        """The question of each free place that waits for the question's next call."""
        self._timer: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()

    def state(self) -> LimiterState:
        """A snapshot of the limiter."""
        waiting = sum(not place.done() for _, _, place in self._queue)
        return replace(self._state, limit=int(self._limit), waiting=waiting)

    def spend(self, tokens: int) -> None:
        """Count the tokens of a finished call."""
        self._tokens.take(tokens)

    def back_off(self, began: int, *, timed_out: bool = False) -> bool:
        """Count a rejection, and halve the limit at an overload; returns whether the rejection is part of one.

        ``began`` is the number of episodes before the call. Before the first success, every rejection counts. A call
        that ``timed_out`` needs no further evidence: it took minutes, and the server may still work on it.
        """
        if began != self._state.episodes:
            return True
        if not self._score:
            self._suspected = self._state.in_flight
        self._score += EVIDENCE if timed_out else 1 - TOLERATED
        if self._score < EVIDENCE:
            return not self._succeeded
        self._state.episodes += 1
        self._score = 0.0
        self._cut_at = max(1.0, min(self._limit, self._suspected))
        self._limit = max(1.0, self._cut_at / 2)
        self._state.lowest = min(self._state.lowest, int(self._limit))
        return True

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
    async def of(self, question: str) -> AsyncIterator[int]:
        """A place for a call of a question. Questions that made a call before others go first."""
        turn = self._turns[question] = self._turns.pop(question, next(self._numbers))
        if len(self._turns) > _QUESTIONS:
            self._turns.popitem(last=False)
        if question in self._held:
            self._held.remove(question)
        began = await self._enter(turn)
        kind: type[BaseException] | None = None
        try:
            yield began
        except BaseException as error:
            kind = type(error)
            raise
        finally:
            if self._queue:
                self._held.append(question)
                self._release(question, _STEPS)
            self._exit(kind)

    def _release(self, question: str, steps: int) -> None:
        """Give up a held place after so many steps of the event loop."""
        if steps:
            asyncio.get_running_loop().call_soon(self._release, question, steps - 1)
        elif question in self._held:
            self._held.remove(question)
            self._admit()

    async def __aenter__(self) -> int:
        return await self._enter(next(self._numbers))

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._exit(kind)

    async def _enter(self, turn: int) -> int:
        place = asyncio.get_running_loop().create_future()
        heappush(self._queue, (turn, next(self._numbers), place))
        self._admit()
        if not place.done() and self._state.in_flight >= int(self._limit):
            self._crowded, self._wanted = self._state.in_flight, self._state.in_flight + len(self._queue)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave()
            raise
        return self._state.episodes

    def _exit(self, kind: type[BaseException] | None) -> None:
        in_flight, limit = self._state.in_flight, int(self._limit)
        if self._queue and in_flight >= limit:
            self._crowded = in_flight
        if kind is None:
            self._succeeded = True
            self._score = max(0.0, self._score - TOLERATED)
            # When calls end together, the queue is empty until their debates make the next calls: _wanted has both.
            if self._crowded and in_flight <= limit < min(self._wanted, self._concurrency):
                self._grow()
        self._crowded = max(0, self._crowded - 1)
        self._leave()

    def _grow(self) -> None:
        """One place more for each call that succeeds; after an overload a part of a place, more far from the cut."""
        if not self._state.episodes:
            self._limit += 1
            return
        growth = max(1.0, abs(self._cut_at - self._limit) / 2)
        self._limit += growth / self._limit

    def _wait(self) -> float:
        """Seconds until the next call may start, if a slot is free."""
        pause = self._paused_until - self._clock() if self._paused_until else 0.0
        return max(pause if pause > _SHORTEST else 0.0, self._calls.wait(), self._tokens.wait())

    def _leave(self) -> None:
        self._state.in_flight -= 1
        if not self._state.in_flight:
            self._idle.set()
        self._admit()

    def _admit(self) -> None:
        """Start the waiting calls that have a slot; if a rate or a pause delays them, try again after the wait."""
        while self._queue and self._state.in_flight + len(self._held) < int(self._limit) and not self._closed:
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

    Arguments as for :class:`Limiter` and :class:`madke.endpoints.prefixes.Prefixes`.
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
        if self._prefixes is None or not self._prefixes.on:
            async with self._limiter as began:
                completion = await self._attempt(request, began)
            if self._prefixes is not None:
                self._prefixes.hear(completion)
            return completion
        async with self._prefixes.call(request) as call:
            async with self._limiter.of(request.purpose.question) as began:
                completion = await self._attempt(call.sent(), began)
            self._prefixes.answered(call, completion)
            return completion

    async def _attempt(self, request: ChatRequest, began: int) -> Completion:
        try:
            completion = await self._model.complete(request)
        except CallError as error:
            timed_out = error.timed_out
            if (error.overloaded or timed_out) and self._limiter.back_off(began, timed_out=timed_out):
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
