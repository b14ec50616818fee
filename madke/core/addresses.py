"""Server addresses without secrets, for names, files and logs; and the wait time that a response asks for.

Debug lines of HTTP clients hold addresses, headers, bodies: secrets. ``madke/__init__`` calls
:func:`guard_http_logs`, so it applies before any request, also in worker processes and in other programs.
"""

import logging
import math
import re
import time
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import unquote, urlsplit, urlunsplit

MIN_SECRET = 8
"""Least length of a secret in characters; shorter values (``none``, ``EMPTY``, ``ollama``) are placeholders."""

_API_WORDS = re.compile(
    r"v\d+(?:(?:alpha|beta)\d*)?|api|openai|chat|completions|compatible-mode|compatibility|inference|deployments|models"
    r"|endpoints|serving-endpoints|applications|projects|accounts|gateway"
)
"""Path segments that belong to public APIs, so they are not secrets."""

_URL = re.compile(r"\bhttps?://[^\s\"'<>]+", re.IGNORECASE)

_HTTP_CLIENTS = (
    "httpx2",
    "openai._base_client",
    "openai._legacy_response",
    "openai._response",
    "urllib3.connectionpool",
)
"""Loggers that tell the address or the body of every request."""


def bare_url(url: str) -> str:
    """The URL without user, password, query and trailing slash; "the base URL" if it cannot be parsed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the base URL"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def public_url(url: str) -> str:
    """The bare URL with each path segment that may be a secret, such as a gateway's token, replaced by a short hash."""
    bare = bare_url(url)
    if "://" not in bare:
        return bare
    parts = urlsplit(bare)
    return urlunsplit(parts._replace(path="/".join(map(_mask, parts.path.split("/")))))


def without_path_secrets(text: str, url: str) -> str:
    """The text with possible secrets of the URL's path replaced by hashes; servers repeat the URL in errors."""
    for part in urlsplit(url).path.split("/"):
        if (masked := _mask(part)) != part:
            text = text.replace(part, masked).replace(unquote(part), masked)
    return text


def with_public_urls(text: str) -> str:
    """The text with :func:`public_url` of each address in it."""
    return _URL.sub(lambda match: public_url(match[0]), text)


def _mask(part: str) -> str:
    harmless = len(part) < MIN_SECRET or _API_WORDS.fullmatch(part)
    return part if harmless else f"~{sha256(part.encode()).hexdigest()[:8]}"


class _Guard(logging.Filter):
    """Drops lines below WARNING, whatever level somebody sets, and hides the secrets of addresses in the others."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record."""
        record.msg, record.args = with_public_urls(record.getMessage()), ()
        return record.levelno >= logging.WARNING


_GUARD = _Guard()


def guard_http_logs() -> None:
    """Let the loggers of HTTP clients tell warnings only, without the secrets of addresses."""
    for name in _HTTP_CLIENTS:
        logging.getLogger(name).addFilter(_GUARD)  # a filter that is there already is not added again


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds (>= 0) to wait according to a response's headers (lower-case names); None if they do not say.

    A Retry-After may be a date; ``now`` is Unix time, by default the current time.
    """
    import email.utils  # loads much, and `import madke` loads this module

    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            seconds = float(milliseconds) / 1000
        elif (value := headers.get("retry-after")) is None:
            return None
        elif value.strip().replace(".", "", 1).isdigit():
            seconds = float(value)
        else:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
    except (ValueError, OverflowError, OSError):  # the last two: years out of range
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
