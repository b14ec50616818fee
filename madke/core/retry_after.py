"""How long a server asks its clients to wait: one reading of Retry-After for all that ask servers."""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Mapping


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds that a response's headers ask us to wait: ``retry-after-ms``, or Retry-After in seconds or as a date.

    Args:
        headers: The response's, by lower-case name.
        now: Unix time; by default the present.

    Returns:
        Zero and more, finite; None where the headers say nothing, or nothing of the kind.
    """
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            seconds = float(milliseconds) / 1000
        elif (value := headers.get("retry-after")) is None:
            return None
        elif value.strip().replace(".", "", 1).isdigit():
            seconds = float(value)
        else:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
    except (ValueError, OverflowError, OSError):  # the last two for years that no clock has
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
