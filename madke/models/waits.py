"""How long to wait before the next attempt, as the body of an error says it.

A Retry-After header is read by :func:`madke.core.addresses.retry_after`. Many servers send none and say it in the body:
Gemini in ``retryDelay``, OpenAI, Groq and Azure in the message, OpenRouter in the headers of the provider behind it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
_DURATION = rf"\d+(?:\.\d+)? ?{_UNIT}(?![a-z])(?:,? ?(?:and )?\d+(?:\.\d+)? ?{_UNIT}(?![a-z]))*"
"""``39.2s``, ``1m26.4s``, ``2 minutes and 5 seconds``."""
_PART = re.compile(r"(\d+(?:\.\d+)?) ?(ms|milli|s|m|h|d)")
_SENTENCES = (
    # "Please retry in 39.2s", "try again in 1m26.4s", "retry after 26 seconds", "wait 30 seconds", "resets in 2 min"
    re.compile(
        r"\b(?:retry(?:ing)?|try(?:ing)? again|wait(?:ing)?|available|resets?|resumes?)\b[^.!?\d]{0,40}?"
        rf"(?P<wait>{_DURATION})"
    ),
    re.compile(r"\bretry[ _-]?after:? ?(?P<wait>\d+(?:\.\d+)?)(?![\d.]*\w)"),
)
_FIELD = re.compile(r"(?:retry(?:delay|after|in)|wait)(ms|milliseconds|s|sec|seconds)?")
_RESET = re.compile(r"(?:x?ratelimit)reset")
_DEPTH = 8
"""Levels of a body in which a wait is looked for."""
_READ_CHARACTERS = 20_000
_LARGEST = 1e15
_MILLISECONDS = 1e11
"""A larger Unix time is one in milliseconds."""


def stated_wait(body: Any, *, now: float | None = None) -> float | None:
    """The seconds to wait that an error names, in a field such as ``retryDelay``, else in a text; None if in none.

    ``now`` is Unix time, by default the current time.
    """
    values = list(_values("", body, _DEPTH))
    fields = (_of_field(name, value, time.time() if now is None else now) for name, value in values)
    sentences = (_of_sentence(value) for _, value in values if isinstance(value, str))
    return next((wait for found in (fields, sentences) for wait in found if wait is not None), None)


def _values(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """All fields of a JSON value, with their names in lower case without hyphens and underscores."""
    yield re.sub(r"[-_ ]", "", name).lower(), value
    if isinstance(value, Mapping) and depth:
        for key, inner in value.items():
            yield from _values(str(key), inner, depth - 1)
    elif isinstance(value, list) and depth:
        for inner in value:
            yield from _values("", inner, depth - 1)


def _of_field(name: str, value: Any, now: float) -> float | None:
    if (named := _FIELD.fullmatch(name)) is not None:
        if isinstance(value, Mapping):  # a Duration of Google's, as JSON of its fields
            value = value.get("seconds")
        if (number := _number(value)) is not None:
            return number * (0.001 if (named[1] or "").startswith("m") else 1.0)
        return _seconds(value) if isinstance(value, str) and re.fullmatch(_DURATION, value.strip().lower()) else None
    if _RESET.fullmatch(name) and (number := _number(value)) is not None:
        seconds = number / (1000 if number > _MILLISECONDS else 1) - now
        return seconds if seconds > 0 else None
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}(?:\.\d{1,9})?", value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        return None
    return float(value)


def _of_sentence(text: str) -> float | None:
    text = " ".join(text[:_READ_CHARACTERS].lower().split())
    found = next(filter(None, (pattern.search(text) for pattern in _SENTENCES)), None)
    return None if found is None else _seconds(found["wait"])


def _seconds(duration: str) -> float:
    """The seconds of a duration; a number without a unit is one of seconds."""
    parts = _PART.findall(duration.lower())
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(duration)
