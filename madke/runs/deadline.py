"""How long a run may take: ``--deadline``."""

import re
from datetime import datetime, timedelta

from madke.core.errors import UserError

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_LONGEST = 3e9
"""About a century, in seconds."""

_TIME = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)


def seconds_until(text: str, now: datetime) -> float:
    """Seconds from now until a deadline; its form is in the help text of :attr:`madke.RunOptions.deadline`."""
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
            # Use timestamps, since a change to or from summer time may come between two times of day.
            left = until.timestamp() - now.timestamp()
        except (ValueError, OverflowError):
            raise UserError(f"--deadline {text!r}: expected 90s, 45m, 1h30m, 06:30 or 2027-01-31T06:30") from None
    if not 0 < left < _LONGEST:
        raise UserError(f"--deadline {text!r} is past or too far away; expected a future time within a century")
    return left
