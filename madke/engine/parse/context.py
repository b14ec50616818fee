"""What all parsers share: their result, what a reply answered, and sentences and brackets in a text."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from madke.core.transcript import ParseStatus

T = TypeVar("T")

WINDOW = 200_000
"""Characters that are read, counted from the end of a text, where the answer is."""
NEAR = 200
"""Characters around a place that are read as its context."""
MOST = 200
"""Marks of one kind that are read, counted from the end of a text."""

OTHER_SPEAKER = (
    r"\b(?:(?:debater|agent|speaker|expert|participant|panelist|assistant)[ _#-]?(?:\w*\d\w*|[a-z]\b)"
    r"|(?:(?:my|the)\s+)?opponents?|(?:my|the|an)\s?other\s+(?:debater|agent|expert|side)s?"
    r"|(?:affirmative|negative)\s+side)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed(Generic[T]):
    """What a parser read from a text."""

    value: T
    status: ParseStatus
    """``ok``, ``abstained`` (the text declines), ``contradictory`` (its conclusions differ), ``echoed`` (it gives back
    its request) or ``unmarked`` (it has no value)."""
    rule: str
    span: tuple[int, int] | None = None
    """Where the value is in the text."""


def parsed_at(value: T, rule: str, span: tuple[int, int]) -> Parsed[T]:
    """The result for a value at ``span``."""
    return Parsed(value=value, status="ok", rule=rule, span=span)


_STATUS: dict[str, ParseStatus] = {
    "declined": "abstained",
    "contradictory": "contradictory",
    "placeholder": "echoed",
    "example": "echoed",
    "copy": "echoed",
}


def nothing(value: T, rule: str = "none") -> Parsed[T]:
    """The result for a text without a value; ``value`` is the parser's empty value. The rule decides the status."""
    return Parsed(value=value, status=_STATUS.get(rule, "unmarked"), rule=rule)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseContext:
    """The request of a reply, as far as its reading depends on it."""

    request: str = ""
    """The texts of its messages."""
    material: tuple[str, ...] = ()
    """Its parts that are not rules or examples: question, options, passages, stances."""
    evidence: tuple[str, ...] = ()
    """Those of them that an answer may come from: of the stances, only the answers that were read from them."""
    others: tuple[str, ...] = ()
    """The stances of others that it shows."""
    own: str = ""
    """The debater's own previous stance and prepared notes."""
    speaker: str = ""
    """The name of the one who replies."""
    speakers: tuple[str, ...] = ()
    """The names of all debaters."""
    question: str = ""


NO_CONTEXT = ParseContext()


@dataclass(frozen=True, kw_only=True, slots=True)
class Conclusion(Generic[T]):
    """A value that a reply states in the requested form, and where."""

    value: T
    span: tuple[int, int]
    rule: str
    is_final: bool = False
    """The reply calls it final."""


_CORRECTS = re.compile(
    r"(?:^|[.!?\n][\s\"'*]*)(?:no|but|however|wait|actually|correction|sorry|oops|on\s+(?:second\s+thoughts?|(?:further\s+)?reflection)"
    r"|upon\s+\w+|hold\s+on|looking\s+again|i\s+was\s+wrong|(?:let\s+me|i)\s+(?:\w+\s+){0,2}(?:re-?\w+|correct|change|revise))\b",
    re.IGNORECASE,
)
"""Words between two conclusions with which a reply takes back the first."""


def settle(text: str, conclusions: Sequence[Conclusion[T]], same: Callable[[T, T], bool], empty: T) -> Parsed[T] | None:
    """The value on which conclusions agree; None if there are none.

    Where they differ, one that the reply calls final decides, or the last one if the reply takes the others back in
    words between them. Otherwise the reply is ``contradictory``.
    """
    if not conclusions:
        return None
    last = conclusions[-1]
    rivals = [one for one in conclusions if not same(one.value, last.value)]
    if rivals and not last.is_final:
        corrected = _CORRECTS.search(text, rivals[-1].span[1] - 1, last.span[1])
        if any(one.is_final for one in rivals) or not corrected:
            return nothing(empty, "contradictory")
    return parsed_at(last.value, last.rule, last.span)


_SENTENCE_END = re.compile(r"(?<=[.!?])(?:[\"'”)*\]]{0,3})\s+(?=[\"'“*(]*[A-Z\d\[])|\n+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|St|Mr|Ms|Mrs|Dr|Jr|Sr|Mt|No|vs|e\.g|i\.e|ca|approx)|(?:\b[A-Z]\.)+[A-Z])\.\Z"
)
_BRACKETS = {kind: re.compile(rf"\\?[{re.escape(kind)}]") for kind in ("[]", "()", "{}")}


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences of a text; a line break ends one."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if "\n" in end[0] or not _ABBREVIATION.search(text, max(start, end.start() - 12), end.start()):
            yield start, end.start()
            start = end.end()
    yield start, len(text)


PHRASE_WORDS = 6
"""Words of a line that is an answer by itself."""
_VERB = re.compile(
    r"\b(?:is|are|was|were|am|has|have|had|do|does|did|can|cannot|could|will|would|should|must|means?|became|made|wrote|gave"
    r"|went|came|took|got|lies|lived|plays?|played|helps?|contains?|mentions?|cites?|differs?|agrees?|provides?|shows?|won"
    r"|hope|see|think|know|believe)\b|n['’]t\b",  # noqa: RUF001
    re.IGNORECASE,
)
_BEGINS_SENTENCE = re.compile(
    r"\W*(?:i|i['’]\w+|we|it|he|she|they|there|this|that|these|those|so|thus|if|also|let|both\s+\w+ed)\b(?!['’.-]\w)",  # noqa: RUF001
    re.IGNORECASE,
)


def is_phrase(line: str) -> bool:
    """Whether a line is a few words that are no sentence."""
    words = line.split()
    is_sentence = (
        _VERB.search(line)
        or _BEGINS_SENTENCE.match(line)
        or re.search(r"[.!?]\s|[:?]\W*\Z", line)
        or (len(words) > 3 and line.endswith("."))
    )
    return 0 < len(words) <= PHRASE_WORDS and not is_sentence


def last_sentence(text: str) -> int:
    """The start of the last sentence with a letter or a digit; 0 if there is none."""
    return next((start for start, end in reversed(list(sentences(text))) if re.search(r"\w", text[start:end])), 0)


def line_end(text: str, at: int) -> int:
    """Where the line of a position ends."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def text_before(text: str, at: int) -> str:
    """Up to :data:`NEAR` characters before a position."""
    return text[max(0, at - NEAR) : at]


def lead(text: str, at: int) -> str:
    """The part of the sentence before a position."""
    near = text_before(text, at)
    return near[max(start for start, _ in sentences(near)) :]


def pairs(text: str, kind: str) -> dict[int, int]:
    r"""Start -> end of balanced brackets of a kind (``"[]"``, ``"()"``, ``"{}"``); escaped brackets are ignored."""
    opened: list[int] = []
    closed: dict[int, int] = {}
    for bracket in _BRACKETS[kind].finditer(text):
        if bracket.group() == kind[0]:
            opened.append(bracket.start())
        elif bracket.group() == kind[1] and opened:
            closed[opened.pop()] = bracket.end()
    return closed


def outermost(text: str, kind: str = "[]") -> list[tuple[int, int]]:
    """Spans of the last balanced brackets that are not inside others, in order."""
    other = "()" if kind == "[]" else "[]"
    spans: list[tuple[int, int]] = []
    end = 0
    for start, stop in sorted(pairs(text, kind).items()):
        if start >= end:
            # "[[0, 1)]" and "[(0, 1]]" are markers around half-open intervals: the unpaired bracket is part of them.
            odd_left = start > end and text[start - 1] == kind[0] and text[stop - 2] == other[1]
            odd_right = text.startswith(kind[1], stop) and text[start + 1] == other[0]
            spans.append((start - odd_left, stop + odd_right))
            end = stop + odd_right
    return spans[-MOST:]
