"""Candidate answers: the names, dates, numbers, titles and noun phrases of a sentence, by surface form alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from madke.llm.offline.text import NUMBER_WORDS, STOPWORDS, word_set

SpanKind = Literal["name", "part", "places", "date", "year", "number", "quoted", "phrase"]
"""``part`` is a name cut at "of" or "and"; ``places`` is two names with a comma between: "Lawrence, Kansas"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A stretch of a sentence that could be an answer."""

    text: str
    kind: SpanKind
    start: int
    end: int


_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_MONTH = f"(?:{_MONTHS})"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"\b{_MONTH} {_DAY}(?:, \d{{4}})?\b|\b{_DAY} {_MONTH}(?:,? \d{{4}})?\b|\b{_MONTH},? \d{{4}}\b"
    r"|\b(?:early |late |mid-)?\d{3,4}s\b|\b\d{1,2}(?:st|nd|rd|th)[ -]century(?: BC)?\b|\b\d{1,4} (?:BC|AD|BCE|CE)\b",
)
_YEAR = re.compile(r"\b(?:1[0-9]|20)\d{2}\b(?!,\d)|(?<=\b[Ii]n )[1-9]\d{2}\b(?![ ,][a-z\d])")
_WORD_NUMBER = "|".join(sorted((word for word in NUMBER_WORDS if word != "zero"), key=len, reverse=True))
_NUMBER = re.compile(
    r"[$£€]?(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?: (?:million|billion|trillion|thousand|hundred))?"
    r"(?:%| percent)?(?![\w-])"
    rf"|\b(?:{_WORD_NUMBER})(?:[- ](?:{_WORD_NUMBER}|hundred|thousand|million|billion))*\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“]([^\"“”]{2,60})[\"”]")
_TOKEN = re.compile(r"[^\W_]+(?:[.'’&/-]+[^\W_]+)*\.?|\S")  # noqa: RUF001
_CONNECTORS = word_set("of the de la le del da di du van von der den and & al el bin")
_SPLITTING = word_set("of and &")
_AMBIGUOUS = word_set("April May June")
_NO_NAME = (
    word_set(_MONTHS.replace("|", " ") + " Monday Tuesday Wednesday Thursday Friday Saturday Sunday") - _AMBIGUOUS
)


def candidates(sentence: str) -> list[Span]:
    """Every span of the sentence that could be an answer, in order; the same stretch is given once."""
    found: dict[tuple[int, int], Span] = {}
    for span in (*_dates(sentence), *_quoted(sentence), *_numbers(sentence), *_names(sentence), *_phrases(sentence)):
        found.setdefault((span.start, span.end), span)
    return sorted(found.values(), key=lambda span: (span.start, -span.end))


def _dates(sentence: str) -> Iterator[Span]:
    for match in _DATE.finditer(sentence):
        yield Span(text=match.group(), kind="date", start=match.start(), end=match.end())
    for match in _YEAR.finditer(sentence):
        yield Span(text=match.group(), kind="year", start=match.start(), end=match.end())


def _quoted(sentence: str) -> Iterator[Span]:
    for match in _QUOTED.finditer(sentence):
        yield Span(text=match.group(1).strip(" ,."), kind="quoted", start=match.start(1), end=match.end(1))


def _numbers(sentence: str) -> Iterator[Span]:
    for match in _NUMBER.finditer(sentence):
        yield Span(text=match.group(), kind="number", start=match.start(), end=match.end())
        unit = re.match(r" (?:square |cubic )?[^\W\d_]{1,}", sentence[match.end() :])
        if unit and unit.group().strip().lower() not in STOPWORDS:
            end = match.end() + unit.end()
            yield Span(text=sentence[match.start() : end], kind="number", start=match.start(), end=end)


def _names(sentence: str) -> Iterator[Span]:
    tokens = list(_TOKEN.finditer(sentence))
    index = 0
    while index < len(tokens):
        if not _opens(tokens, index):
            index += 1
            continue
        end = _run_end(sentence, tokens, index)
        yield from _name_and_parts(sentence, tokens[index:end])
        if end + 1 < len(tokens) and tokens[end].group() == "," and _opens(tokens, end + 1):
            beyond = _run_end(sentence, tokens, end + 1)
            yield _cut(sentence, tokens[index].start(), tokens[beyond - 1].end(), "places")
        index = end


def _opens(tokens: list[re.Match[str]], index: int) -> bool:
    """Whether a name starts here: "The Beatles" is one, "The" alone is none."""
    if not _capital(tokens[index]) or tokens[index].group().rstrip(".") in _NO_NAME:
        return False
    return tokens[index].group().lower() not in STOPWORDS or (index + 1 < len(tokens) and _capital(tokens[index + 1]))


def _run_end(sentence: str, tokens: list[re.Match[str]], index: int) -> int:
    """Where the name that starts at ``index`` ends: capitals, short words between them, a number after them."""
    end = index + 1
    while True:
        step = end
        while step < len(tokens) and step - end < 2 and tokens[step].group() in _CONNECTORS:
            step += 1
        if step >= len(tokens) or _closes(tokens[end - 1].group()):
            return end
        adjacent = sentence[tokens[step - 1].end() : tokens[step].start()] in {" ", ""}
        numbered = step == end and re.fullmatch(r"\d{1,3}", tokens[step].group())
        if not adjacent or not (_capital(tokens[step]) or numbered):
            return end
        end = step + 1


def _capital(token: re.Match[str]) -> bool:
    return token.group()[0].isupper()


def _closes(word: str) -> bool:
    """Whether a word with its full stop ends a sentence, rather than being an initial or an abbreviation."""
    return len(word) > 4 and word.endswith(".") and "." not in word[:-1]


def _name_and_parts(sentence: str, run: list[re.Match[str]]) -> Iterator[Span]:
    yield _cut(sentence, run[0].start(), run[-1].end(), "name")
    first = run[0].group().lower() in STOPWORDS
    if first and len(run) > 1:
        yield _cut(sentence, run[1].start(), run[-1].end(), "name")
    part = 1 if first else 0
    for position, token in enumerate(run):
        if token.group().lower() in _SPLITTING and not _capital(token) and position > part:
            yield _cut(sentence, run[part].start(), run[position - 1].end(), "part")
            part = position + 1
            while part < len(run) - 1 and not _capital(run[part]):
                part += 1
            yield _cut(sentence, run[part].start(), run[-1].end(), "part")


def _cut(sentence: str, start: int, end: int, kind: SpanKind) -> Span:
    text = sentence[start:end]
    initial = re.search(r"\b[^\W\d_]\.$|\b(?:Jr|Sr|Inc|Co|Ltd)\.$", text)
    trimmed = text if initial else text.rstrip(".")
    trimmed = re.sub(r"['’]s$", "", trimmed)  # noqa: RUF001
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
        if 0 < len(run) <= 5:
            for first in range(max(0, len(run) - 3), len(run)):
                yield _cut(sentence, run[first].start(), run[-1].end(), "phrase")
            if len(run) > 3:
                yield _cut(sentence, run[0].start(), run[-1].end(), "phrase")
        run = []
