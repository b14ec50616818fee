"""Candidate answers by kind of question: a span of a passage, a label, an option's letter, yes or no, one of two.

The weights were set by hand, not fitted to a dataset.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from madke.core.stage import ShownPassage, Stage
from madke.models.offline import language
from madke.models.offline.language import (
    NUMBER_WORDS,
    STOPWORDS,
    AnswerKind,
    Line,
    Query,
    content,
    normal,
    overlap,
    stated,
)
from madke.tasks.choice import lettered

if TYPE_CHECKING:
    from madke.models.offline.language import Embed

SpanKind = Literal["name", "part", "date", "year", "number", "quoted", "phrase"]
"""``part`` is a name cut at "of" or "and"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A span of a sentence that could be an answer."""

    text: str
    kind: SpanKind
    start: int
    end: int


_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = (
    rf"\b{_MONTH} {_DAY}(?:, \d{{4}})?\b|\b{_DAY} {_MONTH}(?:,? \d{{4}})?\b|\b{_MONTH},? \d{{4}}\b"
    r"|\b(?:early |late |mid-)?\d{3,4}s\b|\b\d{1,2}(?:st|nd|rd|th)[ -]century(?: BC)?\b|\b\d{1,4} (?:BC|AD|BCE|CE)\b"
)
_WORD_NUMBER = "|".join(sorted((word for word in NUMBER_WORDS if word != "zero"), key=len, reverse=True))
_NUMBER = (
    r"(?:[$£€]?(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?: (?:million|billion|trillion|thousand|hundred))?"
    rf"(?:%| percent)?(?![\w-])|\b(?:{_WORD_NUMBER})(?:[- ](?:{_WORD_NUMBER}|hundred|thousand|million|billion))*\b)"
)
_FORMS: tuple[tuple[SpanKind, re.Pattern[str]], ...] = (
    ("date", re.compile(_DATE)),
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
    """All spans of the sentence that could be an answer, in order, without duplicates."""
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
    found = [match for match in _NAME.finditer(sentence) if not _NO_NAME.fullmatch(match.group().rstrip("."))]
    found = [match for match in found if match.group().lower() not in STOPWORDS]
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


def _cut(sentence: str, start: int, end: int, kind: SpanKind) -> Span:
    text = sentence[start:end]
    initial = re.search(r"\b[^\W\d_]\.$|\b(?:Jr|Sr|Inc|Co|Ltd)\.$", text)
    trimmed = re.sub(r"['’]s$", "", text if initial else text.rstrip("."))  # noqa: RUF001
    return Span(text=trimmed, kind=kind, start=start, end=start + len(trimmed))


def _phrases(sentence: str) -> Iterator[Span]:
    """Runs of one to five content words, and their ends: "gas giant", "giant"."""
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
    """A possible answer with its supporting sentence."""

    answer: str
    score: float
    line: Line | None = None
    """None: no supporting sentence."""


_LINES, _CLOZED = 8, 5
"""Number of sentences that provide candidates; number of best candidates tested as a statement of the question."""


def answer_spans(
    query: Query, lines: Sequence[Line], knowledge: Sequence[ShownPassage], embed: Embed
) -> list[Candidate]:
    """Candidate answers from the best sentences of the passages; one entry per answer in normal form."""
    lines = sorted(lines, key=lambda line: -line.score)[:_LINES]
    weights = language.word_weights(query.text, knowledge)
    pairs = [(line, span) for line in lines for span in _spans(line) if normal(span.text)]
    counts = Counter(form for form, _ in {(normal(span.text), line.number) for line, span in pairs})
    best: dict[str, Candidate] = {}
    for line, span in pairs:
        score, form = _form_score(query, line, span, weights, counts), normal(span.text)
        if form not in best or score > best[form].score:
            best[form] = Candidate(answer=span.text, score=score, line=line)
    ranked = sorted(best.values(), key=lambda found: -found.score)
    if not ranked:
        return []
    first = ranked[:_CLOZED]
    vectors = embed([text for each in first for text in (query.hypothesis(each.answer), stated(each.line))])
    near = (vectors[::2] * vectors[1::2]).sum(axis=1).tolist()
    raised = [replace(each, score=each.score + 1.2 * gain) for each, gain in zip(first, near, strict=True)]
    return [*raised, *ranked[_CLOZED:]]


def _spans(line: Line) -> list[Span]:
    # A file name or a heading is the place of a sentence; the title of an article is a thing that it is about.
    title = "" if language.names_file(line.title) else re.sub(r"\s*\(.*?\)", "", line.title)
    return [*candidates(line.text), *([Span(text=title, kind="name", start=0, end=0)] if title else [])]


_PERSON_CUE = re.compile(
    r"\b(?:by|actor|actress|singer|author|writer|president|king|queen|director|starring|was|son|daughter)\s+$", re.I
)
_PLACE_CUE = re.compile(r"\b(?:in|at|near|from|of|to|into|on)\s+(?:the\s+)?$", re.I)


def _form_score(query: Query, line: Line, span: Span, weights: dict[str, float], counts: Counter[str]) -> float:
    """Score of a span as an answer: by its sentence, form and position, and the number of passages that contain it."""
    own = set(content(span.text))
    of_question = len(own & (weights.keys() - set(content(query.focus)))) / max(1, len(own))
    score = line.score + _type_match(query, span) - 1.2 * of_question
    score += 0.15 * math.log(counts[normal(span.text)]) + 0.4 * _has_cue(query, line.text, span)
    if span.kind == "phrase":
        score -= 0.35
    elif (" of " in span.text) if query.kind == "person" else span.kind == "part":
        score -= 0.25
    elif span.kind == "name" and span.start == 0 < span.end and " " not in span.text:
        score -= 0.3  # its capital may be that of the sentence
    return score


def _has_cue(query: Query, sentence: str, span: Span) -> bool:
    """Whether the words next to the span show that it is the requested kind of thing."""
    before, after = (sentence[: span.start], sentence[span.end :]) if span.end else ("", "")
    focus = set(content(query.focus))
    if query.kind == "number":
        return bool(focus & set(content(after)[:2]))
    apposition = re.match(r",? (?:a|an|the) ([^,.;]{3,40})", after)
    if focus & {*content(before)[-1:], *(content(apposition.group(1)) if apposition else ())}:
        return True
    cue = {"person": _PERSON_CUE, "place": _PLACE_CUE}.get(query.kind)
    return bool(cue and cue.search(before))


_FIT: dict[AnswerKind, dict[SpanKind, float]] = {
    "person": {"name": 1.0, "part": 1.0},
    "place": {"name": 0.8, "part": 0.8, "phrase": 0.0},
    "date": {"date": 1.0, "year": 0.8},
    "year": {"year": 1.0, "date": 0.2},
    "number": {"number": 1.0, "year": -0.2},
    "name": {"name": 0.8, "part": 0.8, "quoted": 0.9, "phrase": 0.0},
    "thing": {"name": 0.3, "part": 0.3, "quoted": 0.3, "phrase": 0.3, "date": -0.1, "number": -0.1},
}
"""How well the form of a span fits the kind of answer, -1 to 1; pairs that are not listed fit badly."""


def _type_match(query: Query, span: Span) -> float:
    fit = _FIT[query.kind].get(span.kind, -0.6)
    return fit * 0.6 if query.kind == "person" and fit > 0 and " " not in span.text else fit


def ranked_answers(prompt: Stage, embed: Embed) -> list[Candidate]:
    """Candidate answers from the passages, best first; empty if there are none."""
    text = " ".join(prompt.question.question.split())
    query = language.analyse(text)
    lines = language.read_lines(text, prompt.passages, embed)
    if prompt.form == "claim":
        found = _claim_labels(text, lines, prompt.passages, embed)
    elif prompt.form == "choice":
        found = _option_letters(query, lettered(prompt.question.choices), lines, embed)
    elif query.kind == "either":
        found = _one_of_two(query, lines)
    elif query.kind == "yes_no":
        found = _yes_or_no(query, lines)
    else:
        found = answer_spans(query, lines, prompt.passages, embed)
    return sorted(found, key=lambda candidate: -candidate.score)


_NEGATION = re.compile(
    r"\b(?:not|never|no|nor|without|neither|none|cannot|unlike|instead of|rather than|failed to)\b|n't\b", re.I
)
_SUPPORTED, _REFUTED = 0.6, 0.55
"""Minimum mean of coverage and similarity to support or refute a claim; lower for refuting, which swaps a word."""


def _claim_labels(
    claim: str, lines: Sequence[Line], knowledge: Sequence[ShownPassage], embed: Embed
) -> list[Candidate]:
    """The scored labels. The nearest sentence supports the claim, or refutes it: other name or number, or negation."""
    line = max(lines, key=lambda line: line.score, default=None)
    if line is None:
        return [Candidate(answer="NOT ENOUGH INFO", score=0.0)]
    vectors = embed([claim, stated(line)])
    known = 0.5 * (overlap(language.word_weights(claim, knowledge), stated(line)) + float(vectors[0] @ vectors[1]))
    passage = " ".join(stated(other) for other in lines if other.number == line.number)
    forms = (("date", "year", "number"), ("name",))
    swapped = any(_things(claim, form, without=passage) and _things(line.text, form, without=claim) for form in forms)
    mismatch = swapped or bool(_NEGATION.search(claim)) != bool(_NEGATION.search(line.text))
    return [
        Candidate(answer="SUPPORTS", score=-0.25 if mismatch else known - _SUPPORTED, line=line),
        Candidate(answer="REFUTES", score=known - _REFUTED if mismatch else -0.25, line=line),
        Candidate(answer="NOT ENOUGH INFO", score=0.0, line=line),
    ]


def _things(text: str, kinds: Sequence[str], *, without: str) -> list[str]:
    """Last words of the numbers or names in ``text`` that ``without`` lacks."""
    excluded = set(content(without))
    spans = (content(span.text) for span in candidates(text) if span.kind in kinds)
    return [own[-1] for own in spans if own and own[-1] not in excluded]


def _option_letters(
    query: Query, options: Sequence[tuple[str, str]], lines: Sequence[Line], embed: Embed
) -> list[Candidate]:
    """The scored letters of the options, by the best supporting sentence; without knowledge, by question similarity."""
    vectors = embed([query.text, *(query.hypothesis(text) for _, text in options), *map(stated, lines)])
    found = []
    for (letter, text), hypothesis in zip(options, vectors[1 : len(options) + 1], strict=True):
        nearness = (vectors[len(options) + 1 :] @ hypothesis).tolist()
        support = [near + _coverage(line, text, query) for line, near in zip(lines, nearness, strict=True)]
        best = max(zip(support, lines, strict=True), key=lambda each: each[0], default=None)
        score, line = best or (float(hypothesis @ vectors[0]), None)
        found.append(Candidate(answer=letter, score=score, line=line))
    return found


def _coverage(line: Line, option: str, query: Query) -> float:
    """Share of the option's words in a sentence, weighted by the sentence's score."""
    words = set(language.lower_words(option))
    own = words - set(language.lower_words(query.text)) or words
    return 0.9 * len(own & set(language.lower_words(stated(line)))) / max(1, len(own)) * line.score


_EARLY = re.compile(r"\b(?:first|earlier|earliest|older|oldest|elder|before|sooner)\b", re.I)
_LATE = re.compile(r"\b(?:later|latest|younger|youngest|newer|recent|recently|after|last)\b", re.I)


def _one_of_two(query: Query, lines: Sequence[Line]) -> list[Candidate]:
    """The two things of a comparison, scored by their years if it compares those, else by their sentences."""
    about = [_about(thing, lines) for thing in query.either]
    left, right = (_year(query.text, side) for side in about)
    early, late = bool(_EARLY.search(query.text)), bool(_LATE.search(query.text))
    ahead = 0.0 if not left or not right or early == late else float(right - left if early else left - right)
    return [
        Candidate(answer=thing, score=gain + (side[0].score if side else 0.0), line=side[0] if side else None)
        for thing, side, gain in zip(query.either, about, (ahead, -ahead), strict=True)
    ]


def _about(thing: str, lines: Sequence[Line]) -> list[Line]:
    """The sentences about a thing, best first: those under its title, then those with its name."""
    name = language.squeezed(thing)

    def titled(line: Line) -> bool:
        return name in language.squeezed(line.title) or language.squeezed(line.title) in name

    found = [line for line in lines if titled(line) or name in language.squeezed(line.text)]
    return sorted(found, key=lambda line: (not titled(line), -line.score))


def _year(question: str, lines: Sequence[Line]) -> int:
    """The year closest to words of the question or to "born"; 0 if there is none."""
    wanted = {*content(question), "born"}
    found = [
        (len(wanted & set(content(line.text[max(0, span.start - 40) : span.end + 30]))), int(span.text))
        for line in lines
        for span in candidates(line.text)
        if span.kind == "year"
    ]
    return max(found, key=lambda each: each[0], default=(0, 0))[1]


def _yes_or_no(query: Query, lines: Sequence[Line]) -> list[Candidate]:
    """Yes; or no, if the question asks about both of two things and one has lines with at most half of its words."""
    best = max(lines, key=lambda line: line.score, default=None)
    question = language.squeezed(query.text)
    things: dict[str, str] = {}
    for line in lines:
        if (title := language.plain_title(line.title)) and title in question:
            things[title] = f"{things.get(title, '')} {stated(line)}"
    predicate = set(content(query.text)) - set(content(" ".join(things)))
    held = [predicate & set(content(text)) for text in things.values()]
    both = len(things) > 1 and re.search(r"\bboth\b", query.text, re.I)
    doubt = 0.4 if both and any(2 * len(each) <= len(predicate) for each in held) else 0.0
    return [Candidate(answer="yes", score=0.4 - doubt, line=best), Candidate(answer="no", score=0.2, line=best)]
