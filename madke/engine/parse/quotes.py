"""Read what a reply quotes, and from which passage."""

import re
from collections.abc import Collection
from typing import NamedTuple

from madke.engine.parse.context import NEAR, WINDOW, sentences, text_before
from madke.engine.parse.forms import IDS, NUMBERS

_SPAN = re.compile(
    '["\u201c\u201d](?P<double>[^"\u201c\u201d\n]{1,2000})["\u201d\u201c]|\u201e(?P<low>[^\u201e\u201c\u201d\n]{1,2000})[\u201c\u201d]'
    "|\u00ab(?P<angle>[^\u00ab\u00bb\n]{1,2000})\u00bb|\u300c(?P<corner>[^\u300c\u300d\n]{1,2000})\u300d"
)
_AFTER = re.compile(
    rf"[\s.,;:)]{{0,4}}(?:[(\[]\s*(?:[a-z]{{1,9}}\s+){{0,2}})?(?P<ids>\[[^\[\]\n]{{1,40}}\]|{IDS})", re.I
)
_BRACKETED = re.compile(r"\[([^\[\]\n]{1,40})\]|\b(?:passage|knowledge|document|source)s?\s+\[?(\d{1,4})\b", re.I)
_QUOTED_LINE = re.compile(r"^[ \t]*>[^\n]*", re.MULTILINE)
_MOST = 20
"""Quotes of one reply that are read."""


class Quoted(NamedTuple):
    """A text in quotation marks."""

    text: str
    passage: int | None
    """The number that stands next to it, shown or not; None if there is none."""


def parse_quotes(text: str) -> list[Quoted]:
    """The texts in quotation marks, each with the number of the passage that stands after it or before it.

    Lines that begin with ``>`` quote other debaters, and are left out.
    """
    text = _QUOTED_LINE.sub(lambda line: " " * len(line[0]), text[-WINDOW:])
    spans = list(_SPAN.finditer(text))[:_MOST]
    return [Quoted(_content(span), _passage(text, span)) for span in spans]


def _content(span: re.Match[str]) -> str:
    return next(group for group in span.groups() if group is not None).strip()


def _passage(text: str, span: re.Match[str]) -> int | None:
    if after := _AFTER.match(text, span.end()):
        return _first(after["ids"])
    near = text_before(text, span.start())
    lead = near[max(start for start, _ in sentences(near)) :]
    named = list(_BRACKETED.finditer(lead))
    for marker in reversed(named):
        if (number := _first(marker[1] or marker[2])) is not None:
            return number
    rest = text[span.end() : span.end() + NEAR].split("\n", 1)[0].split(". ", 1)[0]
    following = _BRACKETED.search(rest)
    return _first(following[1] or following[2]) if following else None


def _first(ids: str) -> int | None:
    number = NUMBERS.search(ids)
    return int(number[1]) if number and re.fullmatch(rf"[\[(]?\s*{IDS}\s*[\])]?", ids.strip(), re.I) else None


_CITED = re.compile(rf"\[(\s*{IDS}\s*)\]", re.IGNORECASE)


def parse_citations(text: str, shown: Collection[int]) -> tuple[int, ...]:
    """The numbers in square brackets that name passages, in order of mention; only those that were ``shown``."""
    text = _QUOTED_LINE.sub("", text[-WINDOW:])
    named = (
        int(n) for ids in _CITED.findall(text) for first, last in NUMBERS.findall(ids) for n in _range(first, last)
    )
    return tuple(n for n in dict.fromkeys(named) if n in shown)


def _range(first: str, last: str) -> range:
    return range(int(first), min(int(last or first), int(first) + NEAR) + 1)
