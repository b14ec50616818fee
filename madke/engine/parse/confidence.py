"""Parse the confidence that a debater states in its answer."""

import re
from collections import deque

from madke.engine.parse.context import Parsed, nothing, parsed_at, windowed
from madke.engine.parse.echo import NOTHING_ASKED, Asked

_CONFIDENCE = re.compile(
    r"\bconfidence(?:\s+(?:level|score|rating|value))?(?:\s+(?:in|that|for)\s+[^.:\n]{0,60}?)?"
    r"(?:\s?\([^()\n]{0,60}\))?[\s*_`\"']{0,9}(?:is|of|at|=|:)?[\s*_`\"'\[(:~]{0,9}"
    r"(?P<number>-?(?:\d{1,9}(?:[.,]\d{1,20})?|\.\d{1,20}))"
    r"\s?(?P<share>%|percent\b|(?:/|out\s+of)\s?(?P<total>\d{1,4}))?(?!\s?[-\u2013]\s?\d|[\w/]|[.,]\d)"
    r"|(?<![\w.,/-])(?P<sure>\d{1,3}(?:\.\d{1,6})?)\s?(?:%|percent)\s+(?:confident|sure|certain)\b",
    re.IGNORECASE,
)


@windowed
def parse_confidence(text: str, *, asked: Asked = NOTHING_ASKED) -> Parsed[float | None]:
    """The last confidence that a reply states, 0 .. 1.

    "Confidence: 0.8", "80%", "8/10" and "80% sure" are 0.8 (rule ``stated``). None if none is stated (``none``) or the
    last one is out of range (``out_of_range``).
    """
    last = deque(_CONFIDENCE.finditer(text), maxlen=1)
    if not last:
        return nothing(None)
    stated = last[0]
    number = float((stated["number"] or stated["sure"]).replace(",", "."))
    total = float(stated["total"] or (100 if stated["share"] or stated["sure"] else 1))
    if not 0 <= number <= total or not total:
        return nothing(None, "out_of_range")
    return parsed_at(number / total, "stated", stated.span())
