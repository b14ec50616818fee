r"""Marked forms of a final answer: ``[X]``, ``(X)``, ``\boxed{X}``, ``<answer>X</answer>``, ``#### X``, a record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from madke.engine.parse.content import LONGEST
from madke.engine.parse.context import Standing, standing
from madke.engine.parse.places import outermost, pairs
from madke.engine.parse.record import ANSWER_KEY, REASON_KEY, records

_FORM = "X"
"""What prompts write for the answer in the forms ``(X)`` and ``\\boxed{X}``."""
_BOXED = re.compile(r"\\(?:boxed|fbox)\s{0,9}(?=\{)")
_TAG = re.compile(r"<(/?)(?:final_?)?answer>", re.IGNORECASE)
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
    opened = None
    for tag in _TAG.finditer(text):
        if not tag.group(1):
            opened = tag
        elif opened:
            yield Mark(content=text[opened.end() : tag.start()], span=(opened.start(), tag.end()), rule="tag")
            opened = None
    for line in _HASHES.finditer(text):
        yield Mark(content=line.group(1), span=line.span(), rule="hashes")
    for record in records(text):
        told = [f for f in record.fields if f.value and ANSWER_KEY.search(f.key) and not REASON_KEY.search(f.key)]
        # The record's own answer, not that of a record inside it.
        outer = min((field.depth for field in told), default=0)
        for field in told:
            if field.whole and field.depth == outer:
                yield Mark(content=field.value, span=field.span, rule="record")
