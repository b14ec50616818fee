r"""Marked forms of a final answer: ``[X]``, ``(X)``, ``\boxed{X}``, ``<answer>X</answer>``, ``#### X``, and records.

A record is JSON or a Python dict, even if fenced, badly quoted or cut off, or a list of ``key: value`` lines.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from madke.engine.parse import context
from madke.engine.parse.context import Standing
from madke.engine.parse.quotation import OTHER_SPEAKER

_PASSAGE = r"(?:(?:knowledge|passage|entry|entrie|item|document|doc|source|snippet|no)s?\.?\s{0,9})"
JOIN = r"\s*(?:,|;|&|and|-|–|to)\s*(?:and\s+)?"  # noqa: RUF001
IDS = rf"{_PASSAGE}?[#(]?\d{{1,4}}\)?(?:{JOIN}{_PASSAGE}?[#(]?\d{{1,4}}\)?)*"
ID_LIST = re.compile(rf"\s*{IDS}[\s,;]*", re.IGNORECASE)
NUMBERS = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")  # noqa: RUF001

_FOLLOWS_SENTENCE = re.compile(r"[.!?](?:\s*\[[\d, -]{1,20}\])*\s*\Z")
_SOURCE = re.compile(r"\b(?:knowledge|passages?|documents?|sources?|evidence|relevant|know)\b", re.IGNORECASE)
_RESULT = re.compile(
    r"(?:\b(?:is|are|was|were|equals)|=|\b(?:so|thus|hence|therefore|total|result)\W{0,3}:)[\s*_]*\Z", re.IGNORECASE
)
_FORM = "X"  # what prompts write for the answer in the forms (X) and boxed
_BOXED = re.compile(r"\\(?:boxed|fbox)\s{0,9}(?=\{)")
_TAG = re.compile(
    r"<((?:final_?)?answer)>(?P<content>[^<]{0,1000}(?:<(?!/?(?:final_?)?answer>)[^<]{0,1000}){0,9})</\1>", re.I
)
_HASHES = re.compile(r"^####\s{0,9}([-+$€£]?\d[^\n]{0,60})$", re.MULTILINE)
_TUPLE = re.compile(r"(?![(\[]|\d{1,3}(?:,\d{3})+\Z)[^,]+(?:,[^,]+)+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A part of a text that may be its final answer."""

    content: str
    span: tuple[int, int]
    rule: str
    """The name of the form."""
    standing: Standing = "stated"


def bracketed(text: str, kind: str) -> Iterator[Mark]:
    """The last brackets of a text, in order, each with its standing."""
    for start, end in context.outermost(text, kind):
        content = text[start + 1 : end - 1].removesuffix("\\right")
        if kind == "()" and content == _FORM:
            continue
        if kind == "()" and _TUPLE.fullmatch(content):
            content = f"({content})"
        yield Mark(content=content, span=(start, end), rule="cue", standing=context.standing(text, start, end))


def stated_forms(text: str, as_written: str) -> Iterator[Mark]:
    """The marks that state an answer without regard to the words around them.

    Records are read from the text ``as_written``, with its quotation marks.
    """
    braces = context.pairs(text, "{}")
    for box in _BOXED.finditer(text) if braces else ():
        end = braces.get(box.end())
        # The length limit keeps nested boxes from taking quadratic time.
        if end is not None and end - box.end() <= context.LONGEST_ANSWER and text[box.end() + 1 : end - 1] != _FORM:
            yield Mark(content=text[box.end() + 1 : end - 1], span=(box.start(), end), rule="boxed")
    for tag in _TAG.finditer(text):
        yield Mark(content=tag["content"], span=tag.span(), rule="tag")
    for line in _HASHES.finditer(text):
        yield Mark(content=line.group(1), span=line.span(), rule="hashes")
    for record in closing_records(as_written):
        answers = [f for f in record.fields if f.value and ANSWER_KEY.search(f.key) and not REASON_KEY.search(f.key)]
        # The record's own answer, not that of a nested record.
        outer = min((field.depth for field in answers), default=0)
        for field in answers:
            if field.whole and field.depth == outer:
                yield Mark(content=field.value, span=field.span, rule="record")


def without_citations(text: str, shown: Container[int]) -> str:
    """The text with its citations replaced by spaces, so that all positions stay the same.

    A bracket of shown numbers is kept if it ends the reply, is stated as the answer ("the answer is [7]"), or is inside
    another bracket and not after a sentence.
    """
    characters, outer = list(text), 0
    spans = sorted(context.pairs(text, "[]").items())
    closing = context.last_sentence(text) if spans else 0
    for n, (start, end) in enumerate(spans):
        near, nested, outer = context.text_before(text, start), start < outer, max(outer, end)
        if not cites(text[start + 1 : end - 1], shown) or (nested and not _FOLLOWS_SENTENCE.search(near)):
            continue
        if len(spans) - n <= context.MOST and (context.states(near) or _closes(text, start, end, closing)):
            continue
        characters[start:end] = " " * (end - start)
        if text.startswith((".", "!", "?"), end):  # Move the full stop to the end of its sentence.
            characters[end] = " "
            while start and characters[start - 1] in " \t":
                start -= 1
            characters[start] = " " if _FOLLOWS_SENTENCE.search(near) else text[end]
    return "".join(characters)


def cites(content: str, shown: Container[int]) -> bool:
    """Whether a bracket's content cites passages: only numbers that were shown."""
    if len(content) > context.NEAR:
        return False
    ids = re.sub(r"[\[\]\"']", "", content)
    return bool(ID_LIST.fullmatch(ids)) and all(int(n) in shown for range_ in NUMBERS.findall(ids) for n in range_ if n)


def _closes(text: str, start: int, end: int, closing: int) -> bool:
    """Whether a number is the result that ends a reply: alone on its last line, or after "is", "=" or "so:"."""
    if not text[start + 1 : end - 1].isdecimal() or re.search(r"\w", text[end:]):
        return False
    line = text[text.rfind("\n", 0, start) + 1 : start]
    if not re.search(r"\w", line):
        return not text[: start - len(line)].rstrip().endswith(":")
    lead = context.lead(text, start).rpartition(",")[2]
    return start >= closing and bool(_RESULT.search(lead)) and not _SOURCE.search(lead)


REASON_KEY = re.compile(r"\b(?:reason|explan|rational|thought|think|justif|analy|evidence|comment|why|because|step)")
ANSWER_KEY = re.compile(
    r"^(?!.*\b(?:base|question|confidence|previous|wrong|incorrect|other|alternative|gold)\b)"
    r".*\b(?:answer|choice|translation|solution|label|option|conclusion|prediction)\b"
)

_CLOSING = {'"': '"', "'": "'", "“": "”"}
_MARKS = {quote: re.compile(rf"\\.|{closing}", re.DOTALL) for quote, closing in _CLOSING.items()}
_NAME = r"[\"'“]([^\"'“”{}\n:]{1,80})[\"'”]\s{0,9}:"
_TOKEN = re.compile(rf"[{{}}]|{_NAME}\s{{0,99}}")
_AFTER_VALUE = re.compile(rf"\s{{0,99}}(?:\}}|\Z|```|(?:,\s{{0,99}})?{_NAME})")
_BARE_VALUE = re.compile(r"\[[^\[\]{}]{0,300}\]|[^,{}\n]{0,300}")
_LINE = re.compile(r"^[ \t*_#>-]{0,9}([A-Za-z][A-Za-z ]{0,30})[*_]{0,3}:[*_ \t]{0,9}([^\n]{0,1000})$", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"'\\/])|([nt])(?![a-z]))")


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A key (lower case, single spaces) and its value, empty for ``null`` and ``None``."""

    key: str
    value: str
    span: tuple[int, int]
    whole: bool = True
    """False if the text is cut off inside the value."""
    depth: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FormRecord:
    """The fields of one record, including those of nested records."""

    fields: tuple[Field, ...]
    span: tuple[int, int]
    whole: bool = True


def records(text: str) -> Iterator[FormRecord]:
    """The records of a text, in order. Braces without ``key: value`` are not records."""
    fields: list[Field] = []
    start = at = max(0, text.find("{"))
    depth = 0
    while token := _TOKEN.search(text, at) if "{" in text else None:
        at = token.end()
        if token[0] == "{":
            start, depth = start if depth else token.start(), depth + 1
        elif token[0] == "}":
            depth = max(0, depth - 1)
            if fields and not depth:
                yield FormRecord(fields=tuple(fields), span=(start, at))
                fields = []
        elif depth:
            at, whole = _value_end(text, token.end())
            if at > token.end():
                name, value = _key(token[1]), _decoded(text[token.end() : at])
                fields.append(Field(key=name, value=value, span=(token.end(), at), whole=whole, depth=depth))
    if fields:
        yield FormRecord(fields=tuple(fields), span=(start, at), whole=False)


_LEADS_TO_RECORD = re.compile(rf"(?:[^\n]*[.!?]\s)?(?:[^\w\n]*|(?!.*{OTHER_SPEAKER})[^.!?\n]*:\s*)", re.IGNORECASE)


def closing_records(text: str) -> list[FormRecord]:
    """The records of the last block of a text, if it ends with one. A record inside a sentence is quoted."""
    own: list[FormRecord] = []
    for record in records(text):
        line = text[text.rfind("\n", 0, record.span[0]) + 1 : record.span[0]]
        continues = own and own[-1].span[1] > record.span[0] - len(line)
        if continues or _LEADS_TO_RECORD.fullmatch(line[-context.NEAR :]):
            between = text[own[-1].span[1] : record.span[0]] if own else ""
            own = [*(own if not re.search(r"\n\s*\n", between) else ()), record]
    closes = own and (not own[-1].whole or not re.search(r"\w", text[own[-1].span[1] :]))
    return own if closes else []


def key_value_lines(text: str) -> FormRecord:
    """The lines ``key: value`` of a text, bulleted or bold, as one record."""
    lines = list(_LINE.finditer(text))[-context.MOST :]
    fields = tuple(Field(key=_key(line[1]), value=line[2].strip(" *_`\t"), span=line.span(2)) for line in lines)
    return FormRecord(fields=fields, span=(lines[0].start(), lines[-1].end()) if lines else (0, 0))


def _key(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))


def _value_end(text: str, start: int) -> tuple[int, bool]:
    """The end of the value at ``start``, and whether it is complete. A nested record has length 0."""
    first = text[start : start + 1]
    if first == "{":
        return start, True
    if first in _MARKS:
        return _string_end(text, start)
    value = _BARE_VALUE.match(text, start)
    end = value.end() if value else start
    return end, end < len(text)


def _string_end(text: str, start: int) -> tuple[int, bool]:
    """The end of a string: a quotation mark after which the record continues or ends (inner ones may be unescaped)."""
    line_end = None
    for mark in _MARKS[text[start]].finditer(text, start + 1):
        if mark.group().startswith("\\"):
            continue
        if _AFTER_VALUE.match(text, mark.end()):
            return mark.end(), True
        if line_end is None and text.startswith("\n", mark.end()):
            line_end = mark.end()
    return (len(text), False) if line_end is None else (line_end, True)


def _decoded(raw: str) -> str:
    if raw[:1] in _CLOSING:
        inner = raw[1:-1] if len(raw) > 1 and raw.endswith(_CLOSING[raw[0]]) else raw[1:]
        return _ESCAPE.sub(_unescaped, inner).strip()
    value = raw.strip()
    return "" if value.lower() in ("none", "null", "n/a") else value


def _unescaped(escape: re.Match[str]) -> str:
    # An unpaired surrogate is not a character.
    character = chr(int(escape[1], 16)) if escape[1] else escape[2] or {"n": "\n", "t": "\t"}[escape[3]]
    return "?" if "\ud800" <= character <= "\udfff" else character
