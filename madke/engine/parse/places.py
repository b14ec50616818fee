"""Places in a text: sentences, balanced brackets, and what stands near a mark. All of it takes linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator

NEAR = 200
"""Characters around a mark that can bear on it."""
MOST = 200
"""Marks looked at, from the end of a text."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“*(]*[A-Z\[])|\n+")
_BRACKETS = {kind: re.compile(rf"\\?[{re.escape(kind)}]") for kind in ("[]", "()", "{}")}


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences of a text; a line break ends one."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        yield start, end.start()
        start = end.end()
    yield start, len(text)


def last_sentence(text: str) -> int:
    """Where the last sentence with a letter or a digit begins; 0 if there is none."""
    return next((start for start, end in reversed(list(sentences(text))) if re.search(r"\w", text[start:end])), 0)


def before(text: str, at: int) -> str:
    """The characters near a place, up to it."""
    return text[max(0, at - NEAR) : at]


def lead(text: str, at: int) -> str:
    """The part of a place's sentence that comes before it."""
    near = before(text, at)
    return near[max(start for start, _ in sentences(near)) :]


def tail(text: str, at: int) -> str:
    """The rest of a place's line."""
    return text[at : at + NEAR].split("\n", 1)[0]


def pairs(text: str, kind: str) -> dict[int, int]:
    r"""Start -> end of balanced brackets of a kind (``"[]"``, ``"()"``, ``"{}"``).

    An escaped bracket such as LaTeX's ``\[`` does not count, and an unclosed one hides nothing.
    """
    opened: list[int] = []
    closed: dict[int, int] = {}
    for bracket in _BRACKETS[kind].finditer(text):
        if bracket.group() == kind[0]:
            opened.append(bracket.start())
        elif bracket.group() == kind[1] and opened:
            closed[opened.pop()] = bracket.end()
    return closed


def outermost(text: str, kind: str = "[]") -> list[tuple[int, int]]:
    """Spans of the last balanced brackets that stand in no other, in order."""
    other = "()" if kind == "[]" else "[]"
    spans: list[tuple[int, int]] = []
    end = 0
    for start, stop in sorted(pairs(text, kind).items()):
        if start >= end:
            # "[[0, 1)]" and "[(0, 1]]" are half-open intervals in a marker: the odd bracket belongs to them.
            odd_left = start > end and text[start - 1] == kind[0] and text[stop - 2] == other[1]
            odd_right = text.startswith(kind[1], stop) and text[start + 1] == other[0]
            spans.append((start - odd_left, stop + odd_right))
            end = stop + odd_right
    return spans[-MOST:]
