"""Where sentences begin and end, and what stands near a place in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

NEAR = 200
"""Characters around a marker that can bear on it. It keeps the work linear on texts of any shape."""

_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“*(]*[A-Z\[])|\n+")


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences of a text; a line break ends one."""
    start = 0
    for end in _END.finditer(text):
        yield start, end.start()
        start = end.end()
    yield start, len(text)


def last_sentence(text: str) -> int:
    """Where the last sentence with a letter or a digit in it begins; 0 if there is none."""
    said = (start for start, end in reversed(list(sentences(text))) if re.search(r"\w", text[start:end]))
    return next(said, 0)


def before(text: str, at: int) -> str:
    """The characters near a place, up to it."""
    return text[max(0, at - NEAR) : at]


def lead(text: str, at: int) -> str:
    """What stands before a place in its own sentence."""
    near = before(text, at)
    return near[max(start for start, _ in sentences(near)) :]


def tail(text: str, at: int) -> str:
    """What follows a place on its line."""
    return text[at : at + NEAR].split("\n", 1)[0]
