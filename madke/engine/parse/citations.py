"""References to numbered knowledge, ``[3]`` or ``[1][2]``: what they look like, and a text without them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from madke.engine.parse.brackets import pairs
from madke.engine.parse.cues import states
from madke.engine.parse.sentences import NEAR

_NOUN = r"(?:(?:knowledge|passage|document|doc|source|no)\.?\s{0,9})"
_JOIN = r"\s*(?:,|;|&|and|-|–|to)\s*(?:and\s+)?"  # noqa: RUF001
ID_LIST = re.compile(rf"\s*{_NOUN}?#?\d{{1,4}}(?:{_JOIN}{_NOUN}?#?\d{{1,4}})*[\s,;]*", re.IGNORECASE)
"""The content of a bracket of pool numbers: one, several, or a range."""

_AUTHORS = re.compile(r"[^\[\]]{1,80} et al\b[^\[\]]{0,40}")
_HINT = re.compile(r"\d| et al")
"""What a citation cannot do without."""
_YEAR = re.compile(r"\s*\d{4}\s*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Uncited:
    """A text without its citations, and the way back to the original."""

    text: str
    starts: tuple[int, ...]
    """Where each kept piece begins in :attr:`text`."""
    shifts: tuple[int, ...]
    """How many characters have been cut before that piece."""

    def original(self, span: tuple[int, int]) -> tuple[int, int]:
        """A span of :attr:`text` as a span of the text with its citations."""
        return self._back(span[0]), self._back(span[1] - 1) + 1

    def _back(self, at: int) -> int:
        return at + self.shifts[bisect_right(self.starts, at) - 1]


def without_citations(text: str) -> Uncited:
    """The text as it would read had its author cited nothing, so that citing can change no answer.

    A number in brackets is kept where the text states it as an answer ("the answer is [7]"), and where it alone makes
    up the last line. Years are no citations.
    """
    pieces: list[str] = []
    starts, shifts = [0], [0]
    at = length = 0
    for start, end in _citations(text):
        pieces.append(text[at:start])
        length += start - at
        at = end
        starts.append(length)
        shifts.append(at - length)
    return Uncited(text="".join([*pieces, text[at:]]), starts=tuple(starts), shifts=tuple(shifts))


def _citations(text: str) -> Iterator[tuple[int, int]]:
    """What goes: each citation, the blanks in front of it, and a full stop behind it that ends a sentence anew.

    Inside another bracket only one that follows a sentence is a citation: "[x lies in [0, 1]]" is an answer.
    """
    near, at, outer = "", 0, 0
    for start, end in sorted(pairs(text, "[]").items()):
        if start < at or not _is_citation(text[start + 1 : min(end - 1, start + 2 + NEAR)]):
            outer = max(outer, end)
            continue
        near = (near + text[max(at, start - NEAR) : start])[-NEAR:]
        first, at = at, start
        ends_sentence = near.rstrip(" \t").endswith((".", "!", "?"))
        if (start < outer and not ends_sentence) or states(near) or _is_last_line(text, start, end):
            continue
        while start > first and text[start - 1] in " \t":
            start -= 1
        near = near.rstrip(" \t")
        at = end + (ends_sentence and text.startswith(".", end))
        yield start, at


def _is_citation(content: str) -> bool:
    if len(content) > NEAR or not _HINT.search(content):
        return False
    ids = re.sub(r"[\[\]\"']", "", content)
    return bool(_AUTHORS.fullmatch(content) or (ID_LIST.fullmatch(ids) and not _YEAR.fullmatch(content)))


def _is_last_line(text: str, start: int, end: int) -> bool:
    """Whether nothing but one number stands on the last line, and no "Sources:" above it."""
    rest = text[end : end + NEAR + 1]
    if not text[start + 1 : end - 1].isdecimal() or len(rest) > NEAR or re.search(r"\w", rest):
        return False
    line_start = text.rfind("\n", 0, start) + 1
    above = text[max(0, line_start - NEAR) : line_start].rstrip()
    return not re.search(r"\w", text[line_start:start]) and not above.endswith(":")
