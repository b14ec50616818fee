"""How long a call may take: limits are on silence, not on the length of a reply.

**One number**, ``timeout``, sets three limits. A call is given up after ``timeout`` seconds without a byte in the
middle of a streamed reply, after twice as long before the first byte (the server loads the model, reads the prompt, or
serves others), and after twelve times as long in all, since a server may drip or send only comments.

**Queues.** Servers answer calls in the order in which they came. So a call is not silent while an earlier call of the
same model gets something: it waits in the server's queue. Calls behind it prove nothing, so a lost call is noticed.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from madke.core.errors import UserError
from madke.models.endpoint import ModelEntry

TIMEOUT = 300.0
_FIRST = 2
_WHOLE = 12


class SilenceLimit:
    """The limits on the calls of one model at one server, in one event loop; ``timeout`` is in seconds."""

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
        silence = _FIRST * self.seconds
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
