"""What a reply says besides its answer: a search, a confidence, the reasoning in front of it."""

from __future__ import annotations

import re
from collections import deque

from madke.engine.parse.content import is_placeholder
from madke.engine.parse.places import outermost
from madke.engine.parse.result import Parsed, abstained, found, windowed

LONGEST = 300
"""Characters of a query; a longer one is cut."""

_TAG = re.compile(r"(?<![`\"'])<(/?)think(?:ing)?>(?!\s{0,3}(?:tags?|blocks?|tokens?)\b)", re.IGNORECASE)
_OPENING_PLACE = re.compile(r"(?:\A|[\n.!?:>…])\s{0,9}\Z")
_STATED = re.compile(
    r"\bconfidence(?:\s+(?:level|score|rating|value))?(?:\s+(?:in|that|for)\s+[^.:\n]{0,60}?)?"
    r"(?:\s?\([^()\n]{0,60}\))?[\s*_`\"']{0,9}(?:is|of|at|=|:)?[\s*_`\"'\[(:~]{0,9}"
    r"(?P<number>-?(?:\d{1,9}(?:[.,]\d{1,20})?|\.\d{1,20}))"
    r"\s?(?P<share>%|percent\b|(?:/|out\s+of)\s?(?P<total>\d{1,4}))?(?!\s?[-\u2013]\s?\d|[\w/]|[.,]\d)"
    r"|(?<![\w.,/-])(?P<sure>\d{1,3}(?:\.\d{1,6})?)\s?(?:%|percent)\s+(?:confident|sure|certain)\b",
    re.IGNORECASE,
)
_SEARCH = re.compile(r"\s*search\s*:\s*", re.IGNORECASE)


def without_reasoning(text: str) -> str:
    """The text that counts as said: reasoning blocks, closed, cut off or opened by the server, are left out.

    A tag that the text only talks about, in quotes or as "the <think> tag", is an ordinary word, and so is an opening
    tag in the middle of a sentence that is never closed.
    """
    tags = list(_TAG.finditer(text))
    last_close = max((tag.start() for tag in tags if tag[1]), default=-1)
    said: list[str] = []
    inside, at = False, 0
    for tag in tags:
        if tag[1]:
            said, inside, at = said if inside else [], False, tag.end()
        elif not inside and (
            tag.start() < last_close or _OPENING_PLACE.search(text, max(0, tag.start() - 10), tag.start())
        ):
            said.append(text[at : tag.start()])
            inside = True
    return "".join(said if inside else [*said, text[at:]]).strip()


@windowed
def parse_confidence(text: str) -> Parsed[float | None]:
    """The confidence that a reply states last, as a number from 0 to 1.

    Args:
        text: The reply, reasoning left out.

    Returns:
        "Confidence: 0.8", "80%", "8/10" and "80% sure" are 0.8 (rule ``stated``). None where none is stated (``none``)
        or the last one lies outside 0 to 1 (``out_of_range``).
    """
    last = deque(_STATED.finditer(text), maxlen=1)
    if not last:
        return abstained(None)
    stated = last[0]
    number = float((stated["number"] or stated["sure"]).replace(",", "."))
    total = float(stated["total"] or (100 if stated["share"] or stated["sure"] else 1))
    if not 0 <= number <= total or not total:
        return abstained(None, "out_of_range")
    return found(number / total, "stated", stated.span())


@windowed
def parse_search(text: str) -> Parsed[str | None]:
    """The query of the last ``[Search: query]`` of a reply.

    Args:
        text: The reply, reasoning left out.

    Returns:
        The query, white space folded, at most :data:`LONGEST` characters (rule ``marker``); None where there is none
        or only an echo of the form (``none``).
    """
    for start, end in reversed(outermost(text)):
        marker = _SEARCH.match(text, start + 1, end - 1)
        query = " ".join(text[marker.end() : end - 1].split()).strip("\"'") if marker else ""
        if not is_placeholder(query):
            return found(query[:LONGEST].rstrip(), "marker", (start, end))
    return abstained(None)
