"""Stop a run early, at a deadline or a signal, without losing a paid call.

No further call starts. Calls in flight may finish and are stored. Debates that wait for further calls are cancelled.
The same command starts them again, and the call store answers their finished calls.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

from madke._util.concurrency import gather
from madke.core.errors import count_of
from madke.models.limiter import Limits
from madke.runs.meter import Meter

_log = logging.getLogger(__name__)

T = TypeVar("T")

GRACE = 30.0
"""Maximum wait for calls in flight, in seconds."""

_LAST_STEPS = 0.2
"""Maximum wait for debates after their last call, in seconds."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal ended the run; everything is stored and closed. ``exit_status`` follows the shells' convention."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.exit_status = 128 + number


async def until_stopped(
    batch: Coroutine[None, None, None],
    drain: Callable[[], Coroutine[None, None, None]],
    *,
    seconds: float | None,
    signals: bool = True,
) -> bool:
    """Run the batch until it ends, a signal arrives or the time is up. A second signal does not wait for calls.

    ``drain`` prevents further calls and waits for those in flight (:func:`drained`). With ``signals``, SIGINT, SIGTERM
    and SIGHUP stop the batch and raise Interrupted. Returns False if the limit of ``seconds`` ended it, else True.
    """
    loop = asyncio.get_running_loop()
    work = loop.create_task(batch)
    stopped: asyncio.Future[signal.Signals | None] = loop.create_future()

    def stop(number: signal.Signals | None) -> None:
        if not stopped.done():
            stopped.set_result(number)
        elif number is not None:
            work.cancel()

    either: list[asyncio.Future[Any]] = [work, stopped]
    timer = None if seconds is None else loop.call_later(max(0.0, seconds), stop, None)
    by_itself = False
    try:
        with _handled(stop) if signals else nullcontext():
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                draining = loop.create_task(drain())
                await asyncio.wait([work, draining], return_when=asyncio.FIRST_COMPLETED)
                # A debate may still have to write its transcript after its last call.
                await asyncio.wait([work], timeout=_LAST_STEPS)
                draining.cancel()
                work.cancel()
            elif work.cancelled():  # a person who debates has left
                stop(signal.SIGINT)
            with suppress(asyncio.CancelledError):
                await work
                by_itself = True
    finally:
        work.cancel()
        if timer is not None:
            timer.cancel()
    if stopped.done() and (number := stopped.result()) is not None:
        raise Interrupted(number)
    return by_itself


async def until_limit(
    meter: Meter,
    items: Iterable[T],
    work: Callable[[T], Awaitable[None]],
    *,
    workers: int,
    drain: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Work on the items until the meter has a reason to stop. Each worker has one item, so memory holds few.

    After an error in one item, ``drain`` waits for the calls in flight before the others are cancelled.
    """
    left = iter(items)  # shared: a free worker takes the next item

    async def worker() -> None:
        for item in left:
            if meter.stopped:
                return
            try:
                await work(item)
            except Exception:
                meter.ended = meter.ended or "an error"
                if drain is not None:
                    await drain()
                raise

    await gather(worker() for _ in range(workers))


async def drained(limits: Limits, *, log: bool = True) -> None:
    """Start no further calls, and wait for those in flight, at most :data:`GRACE` seconds."""
    limits.close()
    if limits.in_flight and log:
        _log.warning("stopping; waiting for %s in flight (Ctrl-C: do not wait)", count_of(limits.in_flight, "call"))
    try:
        async with asyncio.timeout(GRACE):
            await limits.drained()
    except TimeoutError:
        why = "%d calls did not finish within %.0f s and are cancelled; they will be made again"
        _log.warning(why, limits.in_flight, GRACE)


@contextmanager
def _handled(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Pass signals that end a process to ``stop`` instead, if this thread may handle signals."""
    loop = asyncio.get_running_loop()
    handled = []
    try:
        for number in _SIGNALS:
            # Only the main thread may; and ignored signals (nohup) stay ignored.
            with suppress(ValueError, RuntimeError):
                if signal.getsignal(number) != signal.SIG_IGN:
                    loop.add_signal_handler(number, stop, number)
                    handled.append(number)
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
