"""How long a call may take, decided by what its server sends: limits are on silence, not on the length of a reply.

**One number**, ``timeout``, sets three limits. A call is given up after ``timeout`` seconds without a byte
in the middle of a reply, after twice as long before the first byte (the server loads the model, reads the prompt, or
serves others), and after twelve times as long in all, since a server may drip or send only comments.

**Queues.** Servers answer calls in the order in which they came. So a call is not silent while an earlier call of the
same model gets something: it waits in the server's queue. Calls behind it prove nothing, so a lost call is noticed.

**Streaming** costs CPU: a call of 256 tokens takes 4 to 11 ms with it and 0.8 ms without (aiohttp, 64 at a time). So
calls are streamed until the server has shown itself fast: until they end in a tenth of ``timeout``, where the limits do
not matter. A slow call may cost some milliseconds. A server that cannot stream, or reports no usage in streams, has
only the limits on the first byte, and on the whole call once it is known as slow.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from madke.core.errors import UserError
from madke.models.endpoint import ModelEntry, Streams

TIMEOUT = 300.0
FLEX_TIMEOUT = 900.0
"""The default at the service tier ``flex``, for which OpenAI and Azure advise 15 minutes."""
_FIRST = 2
_WHOLE = 12
_FAST = 0.1
_FAILED_STREAMS = 2
_MEMORY = 0.9
"""What is left of a slow call's length after each later one: a call of ``timeout`` seconds counts for 21 more."""


class AdaptiveTimeout:
    """The limits on the calls of one model at one server, in one event loop; ``timeout`` is in seconds.

    ``streams`` is what an earlier process found out.
    """

    def __init__(self, timeout: float, *, streams: Streams = "until_fast") -> None:
        self.seconds = timeout
        self._last_sign: dict[object, float] = {}
        """Calls in flight, in the order of their start -> when the server last sent something for it, or before it."""
        self._pace: float | None = None if streams == "until_fast" else 0.0
        """Seconds of the slowest recent call; None before the first."""
        self._streams = streams != "never"
        self._failed_streams = 0
        """Consecutive ones."""

    @property
    def whole(self) -> float:
        """Limit on a call in seconds, whatever it receives."""
        return _WHOLE * self.seconds

    @property
    def wants_stream(self) -> bool:
        """Whether the next call should be streamed, though nobody listens to its reply."""
        return self._streams and not self.is_fast

    @property
    def streams(self) -> Streams:
        """Which replies are streamed: all, until the server is known to be fast; those with a listener; none."""
        return "never" if not self._streams else "for_listeners" if self.is_fast else "until_fast"

    @property
    def can_stream(self) -> bool:
        """Whether the server streams, with usage, as far as is known."""
        return self._streams

    def finished(self, seconds: float) -> None:
        """Note how long a call took."""
        self._pace = max(seconds, _MEMORY * (self._pace or 0.0))

    def cannot_stream(self) -> None:
        """Note that the server ignores the wish for a stream, or streams without usage."""
        self._streams = False

    def stream_ended(self, *, well: bool) -> None:
        """Note whether a stream held a whole reply. After two failed ones in a row, perhaps whole replies arrive."""
        self._failed_streams = 0 if well else self._failed_streams + 1
        self._streams = self._streams and self._failed_streams < _FAILED_STREAMS

    @asynccontextmanager
    async def call(self, *, streamed: bool) -> AsyncIterator[Callable[[], None]]:
        """Limit the call in the block; TimeoutError at the limit. The block reports each sign of life."""
        loop, call = asyncio.get_running_loop(), object()
        began = self._last_sign[call] = loop.time()
        # Without a stream nothing arrives before the end.
        silence = self.whole if self._is_slow and not streamed else _FIRST * self.seconds

        timer = loop.call_at(began + min(self.seconds, silence), lambda: check())

        def alive() -> None:
            nonlocal silence
            silence = self.seconds
            self._last_sign[call] = loop.time()

        def check() -> None:
            nonlocal timer
            due = min(began + self.whole, self._sign_before(call) + silence)
            if due <= loop.time():
                scope.reschedule(due)
            else:
                timer = loop.call_at(due, check)

        try:
            async with asyncio.timeout(None) as scope:
                yield alive
        except TimeoutError:
            self.finished(self.seconds)
            raise
        finally:
            timer.cancel()
            self._leave(call)

    @property
    def is_fast(self) -> bool:
        """Whether the recent calls were so short that no limit matters to them."""
        return self._pace is not None and not self._is_slow

    @property
    def _is_slow(self) -> bool:
        return self._pace is not None and self._pace >= _FAST * self.seconds

    def _sign_before(self, call: object) -> float:
        """The last sign of life for a call or for one before it."""
        last = 0.0
        for each, sign in self._last_sign.items():
            last = max(last, sign)
            if each is call:
                break
        return last

    def _leave(self, call: object) -> None:
        """Forget a call; those behind it keep its last sign of life."""
        sign, behind = self._last_sign[call], False
        if len(self._last_sign) > 1 and not self.is_fast:
            for each, own in self._last_sign.items():
                behind = behind or each is call
                if behind and own < sign:
                    self._last_sign[each] = sign
        del self._last_sign[call]


def time_limit(entry: ModelEntry) -> float:
    """How many seconds a server may be silent: the entry's ``timeout``, else the chosen one, longer at ``flex``."""
    return entry.timeout or max(chosen_timeout(), FLEX_TIMEOUT if entry.tier else 0.0)


def chosen_timeout() -> float:
    """How many seconds a server may be silent: ``MADKE_TIMEOUT``, else :data:`TIMEOUT`."""
    value = os.environ.get("MADKE_TIMEOUT") or str(TIMEOUT)
    with suppress(ValueError):
        if 0 < (seconds := float(value)) < math.inf:
            return seconds
    raise UserError(f"MADKE_TIMEOUT is {value!r}; expected how many seconds a server may be silent, such as 600")
