"""Which span answers: what could be an answer, by surface form, and its features under fixed weights.

The weights were set by hand; nothing here was fitted to a dataset.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from madke.llm.offline.evidence import Line, read_lines, stated, word_weights
from madke.llm.offline.language import NUMBER_WORDS, STOPWORDS, Asked, Kind, content, normal
from madke.llm.offline.prompt_reader import Knowledge

if TYPE_CHECKING:
    from madke.llm.offline.evidence import Embed

SpanKind = Literal["name", "part", "places", "date", "year", "number", "quoted", "phrase"]
"""``part`` is a name cut at "of" or "and"; ``places`` is two names with a comma between: "Lawrence, Kansas"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A stretch of a sentence that could be an answer."""

    text: str
    kind: SpanKind
    start: int
    end: int


_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_WORD_NUMBER = "|".join(sorted((word for word in NUMBER_WORDS if word != "zero"), key=len, reverse=True))
_NUMBER = (
    r"(?:[$£€]?(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?: (?:million|billion|trillion|thousand|hundred))?"
    rf"(?:%| percent)?(?![\w-])|\b(?:{_WORD_NUMBER})(?:[- ](?:{_WORD_NUMBER}|hundred|thousand|million|billion))*\b)"
)
_FORMS: tuple[tuple[SpanKind, re.Pattern[str]], ...] = (
    (
        "date",
        re.compile(
            rf"\b{_MONTH} {_DAY}(?:, \d{{4}})?\b|\b{_DAY} {_MONTH}(?:,? \d{{4}})?\b|\b{_MONTH},? \d{{4}}\b|\b(?:early |"
            r"late |mid-)?\d{3,4}s\b|\b\d{1,2}(?:st|nd|rd|th)[ -]century(?: BC)?\b|\b\d{1,4} (?:BC|AD|BCE|CE)\b"
        ),
    ),
    ("year", re.compile(r"\b(?:1[0-9]|20)\d{2}\b(?!,\d)|(?<=\b[Ii]n )[1-9]\d{2}\b(?![ ,][a-z\d])")),
    ("quoted", re.compile(r"[\"“]([^\"“”]{2,60}?)[,.]?[\"”]")),
    ("number", re.compile(_NUMBER, re.IGNORECASE)),
    ("number", re.compile(rf"{_NUMBER} (?:square |cubic )?[^\W\d_]+", re.IGNORECASE)),
)
_TOKEN = re.compile(r"[^\W_]+(?:[.'’&/-]+[^\W_]+)*\.?|\S")  # noqa: RUF001
_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][^\W_]*(?:[.'’&/-]+[^\W_]+)*\.?"  # noqa: RUF001
_CONNECTED = r" (?:(?:of|the|de|la|le|del|da|di|du|van|von|der|den|and|&|al|el|bin) ){0,2}"
_NAME = re.compile(rf"\b{_CAPITAL}(?:{_CONNECTED}{_CAPITAL}| \d{{1,3}}\b)*")
_JOINT = re.compile(r" (?:of|and|&) (?:the )?")
_NO_NAME = re.compile(rf"(?!April|May|June){_MONTH}|(?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day")


def candidates(sentence: str) -> list[Span]:
    """Every span of the sentence that could be an answer, in order; the same stretch is given once."""
    found: dict[tuple[int, int], Span] = {}
    for span in (*_shaped(sentence), *_names(sentence), *_phrases(sentence)):
        found.setdefault((span.start, span.end), span)
    return sorted(found.values(), key=lambda span: (span.start, -span.end))


def _shaped(sentence: str) -> Iterator[Span]:
    for kind, form in _FORMS:
        for match in form.finditer(sentence):
            group = match.lastindex or 0
            if kind != "number" or match.group().lower().split()[-1] not in STOPWORDS:
                yield Span(text=match.group(group), kind=kind, start=match.start(group), end=match.end(group))


def _names(sentence: str) -> Iterator[Span]:
    found = [
        match
        for match in _NAME.finditer(sentence)
        if match.group().lower() not in STOPWORDS and not _NO_NAME.fullmatch(match.group().rstrip("."))
    ]
    for match in found:
        start, end = match.span()
        yield _cut(sentence, start, end, "name")
        first, space, _ = match.group().partition(" ")
        if space and first.lower() in STOPWORDS:
            start += len(first) + 1
            yield _cut(sentence, start, end, "name")
        for joint in _JOINT.finditer(sentence, start, end):
            yield _cut(sentence, start, joint.start(), "part")
            yield _cut(sentence, joint.end(), end, "part")
    for left, right in pairwise(found):
        if sentence[left.end() : right.start()] == ", ":
            yield _cut(sentence, left.start(), right.end(), "places")


def _cut(sentence: str, start: int, end: int, kind: SpanKind) -> Span:
    text = sentence[start:end]
    initial = re.search(r"\b[^\W\d_]\.$|\b(?:Jr|Sr|Inc|Co|Ltd)\.$", text)
    trimmed = re.sub(r"['’]s$", "", text if initial else text.rstrip("."))  # noqa: RUF001
    return Span(text=trimmed, kind=kind, start=start, end=start + len(trimmed))


def _phrases(sentence: str) -> Iterator[Span]:
    """Runs of one to five content words, and their tails: "gas giant", "giant"."""
    run: list[re.Match[str]] = []
    for token in [*_TOKEN.finditer(sentence), None]:
        word = token.group().lower().rstrip(".") if token else ""
        if token and word[:1].isalnum() and word not in STOPWORDS:
            run.append(token)
            if not token.group().endswith("."):
                continue
        if len(run) <= 5:
            for first in {0, *range(max(0, len(run) - 3), len(run))} if run else ():
                yield _cut(sentence, run[first].start(), run[-1].end(), "phrase")
        run = []


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A possible answer with the sentence that speaks for it."""

    answer: str
    score: float
    line: Line | None = None
    """None where nothing was read that speaks for it."""


_LINES = 8
"""Sentences that candidates are taken from."""
_CLOZED = 10
"""Candidates, best first by form, that are put into the question and compared with their sentence."""


def answer_spans(asked: Asked, knowledge: Sequence[Knowledge], embed: Embed) -> list[Candidate]:
    """Candidate answers from the passages; one entry per answer in normal form."""
    lines = sorted(read_lines(asked.text, knowledge, embed), key=lambda line: -line.score)[:_LINES]
    weights = word_weights(asked.text, knowledge)
    pairs = [(line, span) for line in lines for span in _spans(line) if normal(span.text)]
    counts = Counter(form for form, _ in {(normal(span.text), line.number) for line, span in pairs})
    found = [
        Candidate(answer=span.text, score=_form_score(asked, line, span, weights, counts), line=line)
        for line, span in pairs
    ]
    best: dict[str, Candidate] = {}
    for candidate in sorted(found, key=lambda found: -found.score):
        best.setdefault(normal(candidate.answer), candidate)
    ranked = list(best.values())
    first = ranked[:_CLOZED]
    vectors = embed([text for each in first for text in (asked.hypothesis(each.answer), stated(each.line))] or [""])
    near = (vectors[: 2 * len(first) : 2] * vectors[1::2]).sum(axis=1).tolist()
    raised = [replace(each, score=each.score + 1.2 * gain) for each, gain in zip(first, near, strict=True)]
    return [*raised, *ranked[_CLOZED:]]


def _spans(line: Line) -> list[Span]:
    title = re.sub(r"\s*\(.*?\)", "", line.title)
    return [*candidates(line.text), *([Span(text=title, kind="name", start=0, end=0)] if title else [])]


_PERSON_CUE = re.compile(
    r"\b(?:by|actor|actress|singer|author|writer|president|king|queen|director|starring|was|son|daughter)\s+$", re.I
)
_PLACE_CUE = re.compile(r"\b(?:in|at|near|from|of|to|into|on)\s+(?:the\s+)?$", re.I)


def _form_score(asked: Asked, line: Line, span: Span, weights: dict[str, float], counts: Counter[str]) -> float:
    """How well a span of a sentence answers, by the sentence, its form, its place, and how many passages hold it."""
    own = set(content(span.text))
    of_question = len(own & (weights.keys() - set(content(asked.focus)))) / max(1, len(own))
    score = line.score + _type_match(asked, span) - 1.2 * of_question
    score += 0.15 * math.log(counts[normal(span.text)]) + 0.4 * _has_cue(asked, line.text, span)
    if span.kind == "phrase":
        score -= 0.35
    elif (" of " in span.text) if asked.kind == "person" else span.kind == "part":
        score -= 0.25
    elif span.kind == "name" and span.start == 0 < span.end and " " not in span.text:
        score -= 0.3  # its capital may be that of the sentence
    return score


def _has_cue(asked: Asked, sentence: str, span: Span) -> bool:
    """Whether the words beside the span say that it is the kind of thing that is asked for."""
    before, after = (sentence[: span.start], sentence[span.end :]) if span.end else ("", "")
    focus = set(content(asked.focus))
    if asked.kind == "number":
        return bool(focus & set(content(after)[:2]))
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
        fit *= 1.0 if " " in span.text else 0.6
    return fit
