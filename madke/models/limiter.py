"""Limits on concurrent calls, on calls and tokens per minute, and on the silence of a server."""

import asyncio
import math
import os
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from heapq import heappop, heappush
from itertools import count

from madke.core.chat import ChatModel
from madke.core.errors import CallError, UserError
from madke.models.endpoint import AtEndpoint, Endpoint, ModelEntry
from madke.models.prefixes import Prefixes

SLOW_START = 16
MAX_PAUSE = 120.0
"""Longest pause in seconds that one response can cause; as long as the total wait of a ``RetryPolicy``."""
_MAX_QUESTIONS = 10_000
"""Questions whose turn is remembered."""
_MIN_WAIT = 1e-6
"""Shorter waits, in seconds, are rounding errors."""
_OTHER_FILES = 256
"""Upper bound on open files other than connections: indexes, the call store, libraries."""
TIMEOUT = 300.0
_FIRST_SIGN_FACTOR = 2
_WHOLE = 12


class Limiter:
    """The limit that all calls to one endpoint share: additive increase, multiplicative decrease.

    It grows by one for each successful call while others wait, from ``start`` up to ``concurrency`` (TCP's slow start),
    and after the first rejection (429, 503) or time-out by one for each round of calls. Each rejected call lowers it by
    one half: a server that rejects a whole round halves it, and one that rejects a few calls at random costs little.
    Questions that made a call before others go first, so that they find their prompts in the server's cache.

    A server may name a wait. When it rejects two calls in a row, the wait delays every call; a single rejection delays
    only its own. A wait longer than :data:`MAX_PAUSE` means a used-up quota, which a failed call reports at once.
    Rates are token buckets that hold one second's worth. The tokens of a call are known only afterwards: an overdrawn
    bucket refills before the next call starts.

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
    ) -> None:
        self._concurrency = concurrency
        self._limit = float(min(start, concurrency))
        self.in_flight = 0
        self.rejections = 0
        """Calls that were rejected or timed out; each one lowered the limit by half a call."""
        self.lowest = self.limit
        self._calls = _Bucket(rpm, clock)
        self._tokens = _Bucket(tpm, clock)
        self._clock = clock
        self._paused_until = 0.0
        self._rejected_in_a_row = 0
        self._closed = False
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap: the turn of the call's question, a number, and the call's slot."""
        self._numbers = count()
        self._turns: dict[str, int] = {}
        self._timer: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()

    @property
    def limit(self) -> int:
        """How many calls may be in flight now."""
        return int(self._limit)

    def spend(self, tokens: int) -> None:
        """Count the tokens of a finished call."""
        self._tokens.take(tokens)

    def on_rejection(self, failure: CallError) -> None:
        """Lower the limit for a call that was rejected or timed out, and keep to the wait that the server names."""
        self.rejections += 1
        self._limit = max(1.0, min(self._limit, self.in_flight + 1) - 0.5)
        self.lowest = min(self.lowest, self.limit)
        self._rejected_in_a_row += 1
        seconds = failure.retry_after or 0.0
        if self._rejected_in_a_row > 1 and seconds <= MAX_PAUSE:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def close(self) -> None:
        """Start no further calls: waiting calls never start, calls in flight finish."""
        self._closed = True

    async def drain(self) -> None:
        """Wait until no call is in flight."""
        while self.in_flight:
            self._idle.clear()
            await self._idle.wait()

    @asynccontextmanager
    async def slot(self, question: str) -> AsyncIterator[None]:
        """A slot for a call of a question. The limit grows if the block raises nothing."""
        slot = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        if len(self._turns) >= _MAX_QUESTIONS:
            self._turns.clear()
        heappush(self._queue, (self._turns.setdefault(question, number), number, slot))
        self._admit()
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self._leave()
            raise
        try:
            yield
            self._rejected_in_a_row = 0
            if self._queue and self.limit <= self.in_flight < self._concurrency:
                self._limit += 1 / self.limit if self.rejections else 1
        finally:
            self._leave()

    def _leave(self) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self._idle.set()
        self._admit()

    def _wait(self) -> float:
        """Seconds until the next call may start, if a slot is free."""
        pause = self._paused_until - self._clock() if self._paused_until else 0.0
        return max(pause if pause > _MIN_WAIT else 0.0, self._calls.wait(), self._tokens.wait())

    def _admit(self) -> None:
        """Start the waiting calls that have a slot; if a rate or a pause delays them, try again after the wait."""
        while self._queue and self.in_flight < self.limit and not self._closed:
            if self._queue[0][-1].done():  # cancelled
                heappop(self._queue)
            elif self._wait():
                if self._timer is None or self._timer.done():
                    self._timer = asyncio.get_running_loop().create_task(self._admit_later())
                return
            else:
                self._calls.take(1)
                self.in_flight += 1
                heappop(self._queue)[-1].set_result(None)

    async def _admit_later(self) -> None:
        await asyncio.sleep(self._wait())
        self._timer = None
        self._admit()


def allow_connections(concurrency: int) -> None:
    """Raise the soft limit of open files of this process if ``concurrency`` connections need it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        why = f"needs {needed} open files, but this system allows {hard} (ulimit -Hn)"
        raise UserError(f"--concurrency {concurrency} {why}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _endpoint_of(model: object) -> Endpoint | None:
    """As ``isinstance(model, AtEndpoint)`` tells, which takes ten times as long; this is asked at each call."""
    endpoint = getattr(model, "endpoint", None)
    return endpoint if isinstance(endpoint, Endpoint) else None


class Limits:
    """The limiters of a run: one for each endpoint, one for all models on this machine, one for services.

    Arguments as for :class:`Limiter` and :class:`madke.models.prefixes.Prefixes`.
    """

    def __init__(self, concurrency: int, *, interactive: bool = False) -> None:
        self._concurrency = concurrency
        self._interactive = interactive
        self._limiters: dict[str | None, Limiter] = {}
        self._prefixes: dict[tuple[str, str], Prefixes] = {}
        self.services = Limiter(concurrency, start=concurrency)
        """Of searches and answer scoring; not part of :meth:`state`."""

    def of(self, model: object) -> Limiter:
        """The limiter of a model's calls."""
        endpoint = _endpoint_of(model)
        key = endpoint.limited_as if endpoint else None
        if key not in self._limiters:
            own = endpoint.entry if endpoint else ModelEntry()
            concurrency = own.concurrency or self._concurrency
            start = SLOW_START if endpoint else concurrency
            self._limiters[key] = Limiter(concurrency, own.rpm, own.tpm, start=start)
        return self._limiters[key]

    def prefixes_of(self, model: ChatModel) -> Prefixes | None:
        """The gate of a model's calls; None for models on this machine, which batch their calls themselves."""
        endpoint = _endpoint_of(model)
        if endpoint is None:
            return None
        key = (endpoint.limited_as, model.name)
        if key not in self._prefixes:
            assert isinstance(model, AtEndpoint)
            self._prefixes[key] = Prefixes(model, interactive=self._interactive, bound=time_limit(endpoint.entry))
        return self._prefixes[key]

    def state(self) -> dict[str, int]:
        """For ``run.json``: the limit of calls in flight, its lowest value, and how many calls were rejected."""
        limiters = self._limiters.values()
        return {
            "limit": sum(limiter.limit for limiter in limiters),
            "lowest": min((limiter.lowest for limiter in limiters), default=0),
            "rejections": sum(limiter.rejections for limiter in limiters),
        }

    def close(self) -> None:
        """Start no further calls."""
        for limiter in self._all:
            limiter.close()

    async def drain(self) -> None:
        """Wait until no call is in flight."""
        for limiter in self._all:
            await limiter.drain()

    @property
    def in_flight(self) -> int:
        """Calls in flight, also to services."""
        return sum(limiter.in_flight for limiter in self._all)

    @property
    def _all(self) -> list[Limiter]:
        return [*self._limiters.values(), self.services]


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
        return lacking / self._rate if lacking > _MIN_WAIT else 0.0

    def take(self, units: int) -> None:
        self._level -= units


class SilenceLimit:
    """Limits on the silence in the calls of one model at one server, in one event loop, not on the length of a reply.

    **One number**, ``timeout`` in seconds, sets three limits. A call is given up after ``timeout`` without a byte in
    the middle of a streamed reply, after twice as long before the first byte (the server loads the model, reads the
    prompt, or serves others), and after twelve times as long in all, since a server may drip or send only comments.

    **Queues.** Servers answer calls in the order in which they came. So a call is not silent while an earlier call of
    the same model gets something: it waits in the server's queue. Calls behind it prove nothing, so a lost call is
    noticed.
    """

    def __init__(self, timeout: float) -> None:
        self.seconds = timeout
        self.whole = _WHOLE * timeout
        """Limit on a call in seconds, whatever it receives."""
        self._last_sign: dict[object, float] = {}
        """Calls in flight, in the order of their start -> when the server last sent something for it, or before it."""

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Callable[[], None]]:
        """Limit the call in the block; TimeoutError at the limit. The block reports each sign of life."""
        loop, call = asyncio.get_running_loop(), object()
        began = self._last_sign[call] = loop.time()
        silence = _FIRST_SIGN_FACTOR * self.seconds
        timer: asyncio.TimerHandle

        def alive() -> None:
            nonlocal silence
            silence = self.seconds
            self._last_sign[call] = loop.time()

        def check() -> None:
            nonlocal timer
            calls = list(self._last_sign)
            last = max(self._last_sign[each] for each in calls[: calls.index(call) + 1])
            due = min(began + self.whole, last + silence)
            if due <= loop.time():
                scope.reschedule(due)
            else:
                timer = loop.call_at(due, check)

        timer = loop.call_at(began + self.seconds, check)
        try:
            async with asyncio.timeout(None) as scope:
                yield alive
        finally:
            timer.cancel()
            calls = list(self._last_sign)
            sign, behind = self._last_sign[call], calls[calls.index(call) + 1 :][:1]
            for each in behind:  # the next call keeps the sign, for itself and those behind it
                self._last_sign[each] = max(self._last_sign[each], sign)
            del self._last_sign[call]


def time_limit(entry: ModelEntry) -> float:
    """How many seconds a server may be silent: the entry's ``timeout``, else ``MADKE_TIMEOUT``, else 300."""
    value = os.environ.get("MADKE_TIMEOUT") or str(TIMEOUT)
    with suppress(ValueError):
        if 0 < (seconds := float(value)) < math.inf:
            return entry.timeout or seconds
    raise UserError(f"MADKE_TIMEOUT is {value!r}; expected how many seconds a server may be silent, such as 600")
