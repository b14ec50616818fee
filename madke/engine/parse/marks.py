r"""Marked forms of a final answer: ``[X]``, ``(X)``, ``\boxed{X}``, ``<answer>X</answer>``, ``#### X``, a record."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from madke.engine.parse.content import LONGEST
from madke.engine.parse.context import Standing, standing, states
from madke.engine.parse.places import MOST, NEAR, before, last_sentence, lead, outermost, pairs
from madke.engine.parse.record import ANSWER_KEY, REASON_KEY, records

_NOUN = r"(?:(?:knowledge|passage|entry|entrie|item|document|doc|source|snippet|no)s?\.?\s{0,9})"
JOIN = r"\s*(?:,|;|&|and|-|–|to)\s*(?:and\s+)?"  # noqa: RUF001
IDS = rf"{_NOUN}?[#(]?\d{{1,4}}\)?(?:{JOIN}{_NOUN}?[#(]?\d{{1,4}}\)?)*"
"""Pool numbers: one, several, or a range."""
ID_LIST = re.compile(rf"\s*{IDS}[\s,;]*", re.IGNORECASE)
NUMBERS = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")  # noqa: RUF001
"""A number, or the ends of a range."""

_FOLLOWS_SENTENCE = re.compile(r"[.!?](?:\s*\[[\d, -]{1,20}\])*\s*\Z")
_SOURCE = re.compile(r"\b(?:knowledge|passages?|documents?|sources?|evidence|relevant|know)\b", re.IGNORECASE)
_RESULT = re.compile(
    r"(?:\b(?:is|are|was|were|equals)|=|\b(?:so|thus|hence|therefore|total|result)\W{0,3}:)[\s*_]*\Z", re.IGNORECASE
)
_FORM = "X"
"""What prompts write for the answer in the forms ``(X)`` and ``\\boxed{X}``."""
_BOXED = re.compile(r"\\(?:boxed|fbox)\s{0,9}(?=\{)")
_TAG = re.compile(
    r"<((?:final_?)?answer)>(?P<said>[^<]{0,1000}(?:<(?!/?(?:final_?)?answer>)[^<]{0,1000}){0,9})</\1>", re.I
)
_HASHES = re.compile(r"^####\s{0,9}([-+$€£]?\d[^\n]{0,60})$", re.MULTILINE)
_TUPLE = re.compile(r"(?![(\[]|\d{1,3}(?:,\d{3})+\Z)[^,]+(?:,[^,]+)+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """Something in a text that may be its final answer."""

    content: str
    span: tuple[int, int]
    rule: str
    """The name of the form."""
    standing: Standing = "stated"


def bracketed(text: str, kind: str) -> Iterator[Mark]:
    """The last brackets of a text, in order, and what the words around each make of it."""
    for start, end in outermost(text, kind):
        content = text[start + 1 : end - 1].removesuffix("\\right")
        if kind == "()" and content == _FORM:
            continue
        if kind == "()" and _TUPLE.fullmatch(content):
            content = f"({content})"
        yield Mark(content=content, span=(start, end), rule="cue", standing=standing(text, start, end))


def stated_forms(text: str) -> Iterator[Mark]:
    """The marks that state an answer whatever words surround them."""
    braces = pairs(text, "{}")
    for box in _BOXED.finditer(text) if braces else ():
        end = braces.get(box.end())
        # Boxes may stand in boxes, so that their contents could be many times the text.
        if end is not None and end - box.end() <= LONGEST and text[box.end() + 1 : end - 1] != _FORM:
            yield Mark(content=text[box.end() + 1 : end - 1], span=(box.start(), end), rule="boxed")
    for tag in _TAG.finditer(text):
        yield Mark(content=tag["said"], span=tag.span(), rule="tag")
    for line in _HASHES.finditer(text):
        yield Mark(content=line.group(1), span=line.span(), rule="hashes")
    for record in records(text):
        told = [f for f in record.fields if f.value and ANSWER_KEY.search(f.key) and not REASON_KEY.search(f.key)]
        # The record's own answer, not that of a record inside it.
        outer = min((field.depth for field in told), default=0)
        for field in told:
            if field.whole and field.depth == outer:
                yield Mark(content=field.value, span=field.span, rule="record")


def without_citations(text: str, shown: Container[int]) -> str:
    """The text with its citations blanked, so that citing changes no answer and every other character keeps its place.

    A bracket of numbers cites only if all of them were shown. It is kept where it closes the reply or is stated as the
    answer ("the answer is [7]"), and inside another bracket, unless it follows a sentence there.
    """
    characters, outer = list(text), 0
    spans = sorted(pairs(text, "[]").items())
    closing = last_sentence(text) if spans else 0
    for n, (start, end) in enumerate(spans):
        near, nested, outer = before(text, start), start < outer, max(outer, end)
        if not cites(text[start + 1 : end - 1], shown) or (nested and not _FOLLOWS_SENTENCE.search(near)):
            continue
        if len(spans) - n <= MOST and (states(near) or _closes(text, start, end, closing)):
            continue
        characters[start:end] = " " * (end - start)
        if text.startswith(".", end):  # It moves to the sentence that it ends, if that has not ended yet.
            characters[end] = " "
            while start and characters[start - 1] in " \t":
                start -= 1
            characters[start] = " " if _FOLLOWS_SENTENCE.search(near) else "."
    return "".join(characters)


def cites(content: str, shown: Container[int]) -> bool:
    """Whether a bracket's content refers to sources: numbers that were all shown."""
    if len(content) > NEAR:
        return False
    ids = re.sub(r"[\[\]\"']", "", content)
    return bool(ID_LIST.fullmatch(ids)) and all(int(n) in shown for range_ in NUMBERS.findall(ids) for n in range_ if n)


def _closes(text: str, start: int, end: int, closing: int) -> bool:
    """Whether a number is the result that a reply ends with: alone on its last line, or behind "is", "=" or "so:"."""
    if not text[start + 1 : end - 1].isdecimal() or re.search(r"\w", text[end:]):
        return False
    line = text[text.rfind("\n", 0, start) + 1 : start]
    if not re.search(r"\w", line):
        return not text[: start - len(line)].rstrip().endswith(":")
    said = lead(text, start).rpartition(",")[2]
    return start >= closing and bool(_RESULT.search(said)) and not _SOURCE.search(said)
