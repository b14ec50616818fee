"""Stopping a run early without losing a call that is paid for: at a deadline, at Ctrl-C, when it is terminated.

No further call begins, those under way may end and are stored, and the debates that wait for more are given up: the
same command begins them anew, and the call store has what was said so far.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from typing import Any

from madke.core.errors import UserError
from madke.llm import Limiter, Limits

_log = logging.getLogger(__name__)

GRACE = 30.0
"""Seconds that calls under way are given to end."""

_LAST_STEPS = 0.2
"""Seconds for debates to end after their last call."""

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_LONGEST = 3e9
"""Seconds; a century."""

_TIME = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal ended the run; everything is closed and stored. ``exit_status`` is as shells report it."""

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
    """Run the batch to its end, or until a signal comes or the time is over. A second signal does not wait for calls.

    Args:
        batch: What is run.
        drain: Lets no call of it begin any more and waits for those under way: :func:`drained`.
        seconds: How long the batch may take; None: as long as it likes.
        signals: Whether SIGINT, SIGTERM and SIGHUP stop it so.

    Returns:
        Whether the batch ended by itself; False: its time was over.

    Raises:
        Interrupted: A signal came.
    """
    loop = asyncio.get_running_loop()
    work = loop.create_task(batch)
    asked: asyncio.Future[signal.Signals | None] = loop.create_future()

    def stop(number: signal.Signals | None) -> None:
        if not asked.done():
            asked.set_result(number)
        elif number is not None:
            work.cancel()

    either: list[asyncio.Future[Any]] = [work, asked]
    timer = None if seconds is None else loop.call_later(max(0.0, seconds), stop, None)
    by_itself = False
    try:
        with _handled(stop) if signals else nullcontext():
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                draining = loop.create_task(drain())
                await asyncio.wait([work, draining], return_when=asyncio.FIRST_COMPLETED)
                # A debate whose last call it was has its transcript yet to write.
                await asyncio.wait([work], timeout=_LAST_STEPS)
                draining.cancel()
                work.cancel()
            with suppress(asyncio.CancelledError):
                await work
                by_itself = True
    finally:
        work.cancel()
        if timer is not None:
            timer.cancel()
    if asked.done() and (number := asked.result()) is not None:
        raise Interrupted(number)
    return by_itself


async def drained(*limiters: Limits | Limiter, told: bool = True) -> None:
    """Let no call begin any more; wait until those under way have ended, but not longer than :data:`GRACE`."""
    for limiter in limiters:
        limiter.close()
    under_way = sum(limiter.state().in_flight for limiter in limiters)
    if under_way and told:
        _log.warning("stopping; %d calls under way may end first (Ctrl-C does not wait for them)", under_way)
    try:
        async with asyncio.timeout(GRACE):
            for limiter in limiters:
                await limiter.drained()
    except TimeoutError:
        given_up = sum(limiter.state().in_flight for limiter in limiters)
        _log.warning("%d calls did not end within %.0f s and are given up; they will be made again", given_up, GRACE)


@contextmanager
def _handled(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Signals that end a process are told to ``stop`` instead, where this thread may do that."""
    loop = asyncio.get_running_loop()
    handled = []
    try:
        for number in _SIGNALS:
            # Not in a thread beside the main one; and what is ignored (nohup) stays ignored.
            with suppress(ValueError, RuntimeError):
                if signal.getsignal(number) != signal.SIG_IGN:
                    loop.add_signal_handler(number, stop, number)
                    handled.append(number)
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def seconds_until(text: str, now: datetime) -> float:
    """The seconds from now until a deadline: see the help text of :attr:`madke.RunOptions.deadline`."""
    text = text.strip()
    if text and (duration := _DURATION.fullmatch(text)):
        hours, minutes, seconds = (float(part or 0) for part in duration.groups())
        left = 3600 * hours + 60 * minutes + seconds
    else:
        try:
            if time := _TIME.fullmatch(text):
                until = now.replace(hour=int(time[1]), minute=int(time[2]), second=0, microsecond=0)
                until += timedelta(days=until <= now)
            else:
                until = datetime.fromisoformat(text)
                until = until if until.tzinfo else until.replace(tzinfo=now.tzinfo)
            # By the clock of the world: between two times of day there may be a change to or from summer time.
            left = until.timestamp() - now.timestamp()
        except (ValueError, OverflowError):
            raise UserError(f"--deadline {text!r}: expected 90s, 45m, 1h30m, 06:30 or 2027-01-31T06:30") from None
    if not 0 < left < _LONGEST:
        raise UserError(f"--deadline {text!r} is over, or never comes; expected a time to come")
    return left
