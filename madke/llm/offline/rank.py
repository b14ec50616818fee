"""Which span answers: features of form, place and meaning under fixed weights.

The weights were set by hand; nothing here was fitted to a dataset.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from madke.llm.offline.passages import Line, read_lines, stated, word_weights
from madke.llm.offline.prompt import Knowledge
from madke.llm.offline.question import Asked, Kind
from madke.llm.offline.spans import Span, SpanKind, candidates
from madke.llm.offline.text import content, normal, word_set

if TYPE_CHECKING:
    from madke.llm.offline.passages import Embed

Features = dict[str, float]
"""Feature name, a key of :data:`WEIGHTS`, to its value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A possible answer with the sentence that speaks for it."""

    answer: str
    score: float
    line: Line | None = None
    """None where nothing was read that speaks for it."""


Rated = tuple[Candidate, Features]

WEIGHTS = {
    "line": 1.0,
    "type": 1.0,
    "focus": 0.8,
    "near": 0.5,
    "asked": -1.2,
    "count": 0.15,
    "phrase": -0.35,
    "part": -0.25,
    "last": 0.5,
    "cue": 0.4,
    "cloze": 1.2,
    "opening": -0.3,
}
"""Weight of each feature of :func:`_features`."""

_LINES = 8
"""Sentences that candidates are taken from."""
_EMBEDDED = 24
"""Candidates, best first by form and place alone, that are compared with the focus."""
_CLOZED = 10
"""Candidates, best first after that, that are put into the question and compared with their sentence."""
_CLEAR = frozenset(("person", "date", "year", "number"))
"""Kinds whose form says enough: no comparison with the focus."""


def answer_spans(asked: Asked, knowledge: Sequence[Knowledge], embed: Embed) -> list[Candidate]:
    """Candidate answers from the passages, best first; one entry per answer in normal form."""
    found = sorted(span_features(asked, knowledge, embed), key=lambda entry: -_score(entry[1]))
    best: dict[str, Rated] = {}
    for candidate, features in found:
        best.setdefault(normal(candidate.answer), (candidate, features))
    rated = list(best.values())
    if asked.kind not in _CLEAR and asked.focus:
        rated = _with(rated, "focus", _EMBEDDED, lambda c: (asked.focus, c.answer), embed)
    rated = _with(rated, "cloze", _CLOZED, lambda c: (asked.hypothesis(c.answer), stated(c.line)), embed)
    return [replace(candidate, score=_score(features)) for candidate, features in rated]


def _score(features: dict[str, float]) -> float:
    return sum(WEIGHTS[name] * value for name, value in features.items())


def _with(
    rated: list[Rated],
    feature: str,
    count: int,
    texts: Callable[[Candidate], tuple[str, str]],
    embed: Embed,
) -> list[Rated]:
    """The first ``count`` candidates with one more feature, the similarity of two texts, ranked again."""
    if not rated:
        return []
    vectors = embed([text for candidate, _ in rated[:count] for text in texts(candidate)])
    near = (vectors[::2] * vectors[1::2]).sum(axis=1)
    again = [
        (candidate, {**known, feature: float(value)}) for (candidate, known), value in zip(rated, near, strict=False)
    ]
    return sorted(again, key=lambda entry: -_score(entry[1]))


def span_features(asked: Asked, knowledge: Sequence[Knowledge], embed: Embed) -> list[Rated]:
    """Every span of the best sentences with its features of form and place."""
    lines = sorted(read_lines(asked.text, knowledge, embed), key=lambda line: -line.score)[:_LINES]
    weights = word_weights(asked.text, knowledge)
    pairs = [(line, span) for line in lines for span in _spans(line) if normal(span.text)]
    counts = Counter(form for form, _ in {(normal(span.text), line.number) for line, span in pairs})
    return [
        (Candidate(answer=span.text, score=0.0, line=line), _features(asked, line, span, weights, counts))
        for line, span in pairs
    ]


def _spans(line: Line) -> list[Span]:
    title = re.sub(r"\s*\(.*?\)", "", line.title)
    return [*candidates(line.text), *([Span(text=title, kind="name", start=0, end=0)] if title else [])]


_NOT_PERSON = word_set(
    """
    University College School County River City State States Kingdom Award Awards Series Company League Club Church
    Street Island Islands War Battle Act Prize Party Records Cup Tour Times Open Studios Day Hall Park Museum
    Association Council North South East West American British English French German Best Season Episode Academy
    Department Court House The
    January February March April May June July August September October November December
    Sunday Monday Tuesday Wednesday Thursday Friday Saturday
    """
)
"""Words that no person's name holds."""
_PERSON_CUE = re.compile(
    r"\b(?:by|actor|actress|singer|author|writer|president|king|queen|captain|director|starring|starred|was|son|daughter)"
    r"\s+$",
    re.IGNORECASE,
)
_PLACE_CUE = re.compile(r"\b(?:in|at|near|from|of|to|into|on)\s+(?:the\s+)?$", re.I)
_UNIT = re.compile(
    r"^[ -]?(?:square |cubic )?(?:m|km|cm|mm|ft|mi|kg|g|metres?|meters?|kilomet\w+|feet|foot|miles?|inches|years?"
    r"|months|days|hours|minutes|seconds|tonnes|tons|pounds|degrees|°)\b"
)
_MEASURE = re.compile(r"\bhow (?:long|tall|high|far|old|deep|big|large|wide|fast|heavy|hot|cold)\b", re.I)
_LAST = re.compile(r"\b(?:last|latest|most recent|current)\b", re.I)
_ANY_YEAR = re.compile(r"\b(?:1\d|20)\d{2}\b")


def _features(asked: Asked, line: Line, span: Span, weights: dict[str, float], counts: Counter[str]) -> Features:
    own = set(content(span.text))
    year = _ANY_YEAR.search(span.text) if asked.kind in {"date", "year"} and _LAST.search(asked.text) else None
    return {
        "line": line.score,
        "type": _type_match(asked, span),
        "near": _nearness(line.text, span, weights),
        "asked": len(own & (weights.keys() - set(content(asked.focus)))) / max(1, len(own)),
        "count": math.log(counts[normal(span.text)]),
        "phrase": float(span.kind == "phrase"),
        "part": float(" of " in span.text if asked.kind == "person" else span.kind == "part"),
        "opening": float(span.kind == "name" and span.start == 0 < span.end and " " not in span.text),
        "cue": float(_has_cue(asked, line.text, span)),
        "last": (int(year.group()) - 2000) / 50 if year else 0.0,
    }


def _has_cue(asked: Asked, sentence: str, span: Span) -> bool:
    """Whether the words beside the span say that it is the kind of thing that is asked for."""
    before, after = sentence[: span.start] if span.end else "", sentence[span.end :] if span.end else ""
    focus = set(content(asked.focus))
    if asked.kind == "number":
        return bool(_UNIT.match(after)) if _MEASURE.search(asked.text) else bool(focus & set(content(after)[:2]))
    apposition = re.match(r",? (?:a|an|the) ([^,.;]{3,40})", after)
    if focus & {*content(before)[-1:], *(content(apposition.group(1)) if apposition else ())}:
        return True
    cue = {"person": _PERSON_CUE, "place": _PLACE_CUE}.get(asked.kind)
    return bool(cue and cue.search(before))


_FIT: dict[Kind, dict[SpanKind, float]] = {
    "person": {"name": 1.0, "part": 1.0},
    "place": {"name": 0.8, "part": 0.8, "places": 0.7, "phrase": 0.0},
    "date": {"date": 1.0, "year": 0.8},
    "year": {"year": 1.0, "date": 0.2},
    "number": {"number": 1.0, "year": -0.2},
    "name": {"name": 0.8, "part": 0.8, "quoted": 0.9, "phrase": 0.0},
    "thing": {"name": 0.3, "part": 0.3, "quoted": 0.3, "phrase": 0.3, "places": 0.1, "date": -0.1, "number": -0.1},
}
"""How well the form of a span fits the kind of answer, -1 to 1; what is not listed fits badly."""
_MISFIT = -0.6


def _type_match(asked: Asked, span: Span) -> float:
    fit = _FIT[asked.kind].get(span.kind, _MISFIT)
    if asked.kind == "person" and fit > 0:
        fit *= 0.1 if _NOT_PERSON & set(re.findall(r"\w+", span.text)) else 1.0
        fit *= 1.0 if " " in span.text else 0.6
    return fit


def _nearness(sentence: str, span: Span, weights: dict[str, float]) -> float:
    """How close the question's words stand to the span, 0 to 1."""
    if not span.end:
        return 0.15
    total = 0.0
    seen: set[str] = set()
    left = list(reversed(content(sentence[: span.start])))
    right = content(sentence[span.end :])
    for distance in range(max(len(left), len(right))):
        for side in (left, right):
            if distance < len(side) and side[distance] in weights and side[distance] not in seen:
                seen.add(side[distance])
                total += weights[side[distance]] / (1 + distance / 6)
    return total
