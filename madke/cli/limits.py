"""What limits a run: options, and when to stop, as people write it."""

from __future__ import annotations

import re
import resource
import time
from datetime import datetime, timedelta

from madke.core.errors import UserError

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_LONGEST = 3e9
"""Seconds; a century."""

_TIME = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)


def refuse_limits(max_cost: float | None, token_budget: int | None, deadline: str | None) -> None:
    """Refuse limits beside ``--plan``."""
    if any(limit is not None for limit in (max_cost, token_budget, deadline)):
        raise UserError("--plan spends nothing; leave out --max-cost, --token-budget and --deadline")


def monotonic_deadline(text: str | None) -> float | None:
    """``--deadline`` in seconds of :func:`time.monotonic`, so that a clock that is set does not move it."""
    return None if text is None else time.monotonic() + seconds_until(text, datetime.now())


_OTHER_FILES = 256
"""Open files that are no connections: indexes, the call store, libraries; generously."""


def allow_connections(concurrency: int) -> None:
    """Raise this process's soft limit of open files where so many connections need it.

    Raises:
        UserError: The system's hard limit is below that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"--concurrency {concurrency} needs {needed} open files, and this system allows {hard} (ulimit -Hn)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def seconds_until(text: str, now: datetime) -> float:
    """The seconds from now until a deadline.

    Args:
        text: A duration (``90s``, ``45m``, ``1h30m``), a time of day, the next one (``06:30``), or an ISO 8601 date and
            time, local if it names no time zone.
        now: The present; without a time zone, by this machine's clock.

    Raises:
        UserError: It is none of these, or is over.
    """
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
