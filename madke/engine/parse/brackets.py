"""Balanced brackets, in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BRACKETS = {kind: re.compile(rf"\\?[{re.escape(kind)}]") for kind in ("[]", "()", "{}")}


def pairs(text: str, kind: str) -> dict[int, int]:
    r"""Where balanced brackets open, and where each ends.

    Args:
        text: Any text.
        kind: The opening and the closing bracket: ``"[]"``, ``"()"`` or ``"{}"``.

    Returns:
        Start -> end. LaTeX's ``\[`` is no bracket, and an unclosed one hides nothing.
    """
    if kind[0] not in text:
        return {}
    opened: list[int] = []
    closed: dict[int, int] = {}
    for bracket in _BRACKETS[kind].finditer(text):
        if bracket.group() == kind[0]:
            opened.append(bracket.start())
        elif bracket.group() == kind[1] and opened:
            closed[opened.pop()] = bracket.end()
    return closed


def outermost(text: str, kind: str = "[]") -> Iterator[tuple[int, int]]:
    """Spans of the balanced brackets that stand in no other, in order."""
    other = "()" if kind == "[]" else "[]"
    end = 0
    for start, stop in sorted(pairs(text, kind).items()):
        if start >= end:
            # "[[0, 1)]" and "[(0, 1]]" are half-open intervals in a marker: the odd bracket belongs to them.
            odd_left = start > end and text[start - 1] == kind[0] and text[stop - 2] == other[1]
            odd_right = text.startswith(kind[1], stop) and text[start + 1] == other[0]
            left, right = start - odd_left, stop + odd_right
            yield left, right
            end = right
