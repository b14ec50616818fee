r"""Marked forms of a final answer: ``[X]``, ``(X)``, ``\boxed{X}``, ``<answer>X</answer>``, ``#### X``, a record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from madke.engine.parse.brackets import outermost, pairs
from madke.engine.parse.content import LONGEST, is_formula
from madke.engine.parse.cues import NOUN, Standing, standing
from madke.engine.parse.record import ANSWER_KEY, REASON_KEY, records
from madke.engine.parse.sentences import before, last_sentence
from madke.engine.parse.statement import undecided

_MOST = 200
"""Marks looked at, from the end of the reply: that is where its answer stands."""

_FORM = "X"
"""What stands for the answer where prompts show the form ``(X)``."""

_BOXED = re.compile(r"\\(?:boxed|fbox)\s{0,9}(?=\{)")
_TAG = re.compile(r"<(/?)(?:final_?)?answer>", re.IGNORECASE)
_HASHES = re.compile(r"^####\s{0,9}([-+$€£]?\d[^\n]{0,60})$", re.MULTILINE)
_NAMED = re.compile(rf"{NOUN}[^\w.!?]*\Z", re.IGNORECASE)
_LETTER = re.compile(r"[A-Z]")
_SO = re.compile(r"\W*(?:so|thus|therefore|hence)\W+", re.IGNORECASE)
_NOTHING = re.compile(r"\W*")
_TUPLE = re.compile(r"(?![(\[]|\d{1,3}(?:,\d{3})+\Z)[^,]+(?:,[^,]+)+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """Something in a text that may be its final answer."""

    content: str
    span: tuple[int, int]
    rule: str
    """The name of the form."""
    standing: Standing = "stated"
    loose: bool = False
    """Whether prose has this form too, so that any words could stand in it."""


_IT_IS = re.compile(
    r"\W*(?:(?:so|thus|therefore|hence|then|and)\W+)?(?:it|this|that|[Tt]he(?:\s+\w+){1,4})\s+(?:is|was|are|were)[\s:*_$]*",
    re.IGNORECASE,
)


def marked(text: str, kind: str) -> list[Mark]:
    """The last bracketed marks of a text, in order, and what the words around each make of it.

    Args:
        text: The reply, without citations.
        kind: ``"[]"`` or ``"()"``.
    """
    closing = last_sentence(text) if kind == "()" else 0
    found = []
    for start, end in list(outermost(text, kind))[-_MOST:]:
        content = text[start + 1 : end - 1].removesuffix("\\right")
        if kind == "()" and content == _FORM:
            continue
        stands = standing(text, start, end)
        if kind == "()":
            stands = _round(text, start, end, stands, closing)
            content = f"({content})" if _TUPLE.fullmatch(content) else content
        loose = kind == "()" or stands == "introduced"
        found.append(Mark(content=content, span=(start, end), rule="cue", standing=stands, loose=loose))
    return found


def _round(text: str, start: int, end: int, stands: Standing, closing: int) -> Standing:
    """The standing of parentheses, which count as a marker only right behind a cue, or alone at the end."""
    if stands == "introduced" and _NAMED.search(before(text, start)) and _LETTER.fullmatch(text, start + 1, end - 1):
        return "introduced"
    if stands not in ("plain", "introduced"):
        return stands
    ends_reply = len(text) < end + _MOST and not re.search(r"\w", text[end:])
    content = text[start + 1 : end - 1]
    terse = " " not in content or is_formula(content)
    concluded = _SO.fullmatch(text, closing, start) or (terse and _IT_IS.fullmatch(text, closing, start))
    on_its_own = terse and _NOTHING.fullmatch(text, closing, start)
    return "plain" if ends_reply and (concluded or on_its_own) else "none"


def stated_forms(text: str) -> Iterator[Mark]:
    """The marks that state an answer whatever words surround them, and the statements that there is none."""
    braces = pairs(text, "{}")
    for box in _BOXED.finditer(text) if braces else ():
        end = braces.get(box.end())
        # Boxes may stand in boxes, so that their contents could be many times the text.
        if end is not None and end - box.end() <= LONGEST and text[box.end() + 1 : end - 1] != _FORM:
            yield Mark(content=text[box.end() + 1 : end - 1], span=(box.start(), end), rule="boxed")
    opened = None
    for tag in _TAG.finditer(text) if "<" in text else ():
        if not tag.group(1):
            opened = tag
        elif opened:
            yield Mark(content=text[opened.end() : tag.start()], span=(opened.start(), tag.end()), rule="tag")
            opened = None
    for line in _HASHES.finditer(text) if "####" in text else ():
        yield Mark(content=line.group(1), span=line.span(), rule="hashes")
    for record in records(text):
        for field in record.fields:
            if field.whole and field.value and ANSWER_KEY.search(field.key) and not REASON_KEY.search(field.key):
                yield Mark(content=field.value, span=field.span, rule="record")
    for span in undecided(text):
        yield Mark(content="", span=span, rule="undecided")
