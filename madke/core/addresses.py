"""Addresses of servers as names, files and logs may show them, and how long a server asks its clients to wait."""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import unquote, urlsplit, urlunsplit

SECRET = 8
"""Characters that a secret has at least; shorter values (``none``, ``EMPTY``, ``ollama``) are placeholders."""

_API_WORDS = re.compile(
    r"v\d+(?:(?:alpha|beta)\d*)?|api|openai|chat|completions|compatible-mode|compatibility|inference|deployments|models"
    r"|endpoints|serving-endpoints|applications|projects|accounts|gateway"
)
"""Parts of a path that the APIs themselves prescribe."""


def bare_url(url: str) -> str:
    """The URL without user, password, query and trailing slash; where it is none, words for it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the base URL"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def public_url(url: str) -> str:
    """The bare URL with a short hash for each part of its path that may be a secret, such as a gateway's token."""
    bare = bare_url(url)
    if "://" not in bare:
        return bare
    parts = urlsplit(bare)
    return urlunsplit(parts._replace(path="/".join(map(_shown, parts.path.split("/")))))


def without_path_secrets(text: str, url: str) -> str:
    """A text in which a server may have repeated the URL that it was asked at."""
    for part in urlsplit(url).path.split("/"):
        if (shown := _shown(part)) != part:
            text = text.replace(part, shown).replace(unquote(part), shown)
    return text


def _shown(part: str) -> str:
    harmless = len(part) < SECRET or _API_WORDS.fullmatch(part)
    return part if harmless else f"~{sha256(part.encode()).hexdigest()[:8]}"


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds, 0 or more, that a response's headers (by lower-case name) ask us to wait; None where they do not say.

    ``now`` is Unix time, by default the present; a Retry-After may be a date.
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
