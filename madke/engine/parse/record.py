"""Records in a reply: JSON, a Python dict, fenced, sloppily quoted or cut off; or a list of ``key: value`` lines.

One pass from left to right, no recursion, nothing evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from madke.engine.parse.places import MOST

REASON_KEY = re.compile(r"\b(?:reason|explan|rational|thought|think|justif|analy|evidence|comment|why|because|step)")
"""Finds keys of reasons in :attr:`Field.key`."""
ANSWER_KEY = re.compile(
    r"^(?!.*\b(?:base|question|confidence|previous|wrong|incorrect|other|alternative|gold)\b)"
    r".*\b(?:answer|choice|translation|solution|label|option|conclusion|prediction)\b"
)
"""Finds keys of answers in :attr:`Field.key`; those of a reason may match too."""

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
    """A key and its value."""

    key: str
    """Lower case, words separated by single spaces."""
    value: str
    """Empty for ``null`` and ``None``."""
    span: tuple[int, int]
    whole: bool = True
    """False where the text breaks off inside the value."""
    depth: int = 1
    """How many braces are open around it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The fields of one record, those of records inside it included."""

    fields: tuple[Field, ...]
    span: tuple[int, int]
    whole: bool = True
    """Whether it is closed."""


def records(text: str) -> Iterator[Record]:
    """The records of a text, in order. Braces around no ``key: value`` are not records."""
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
                yield Record(fields=tuple(fields), span=(start, at))
                fields = []
        elif depth:
            at, whole = _value_end(text, token.end())
            if at > token.end():
                name, value = _key(token[1]), _decoded(text[token.end() : at])
                fields.append(Field(key=name, value=value, span=(token.end(), at), whole=whole, depth=depth))
    if fields:
        yield Record(fields=tuple(fields), span=(start, at), whole=False)


def listed(text: str) -> Record:
    """The lines ``key: value`` of a text, bulleted or bold, as one record."""
    lines = list(_LINE.finditer(text))[-MOST:]
    fields = tuple(Field(key=_key(line[1]), value=line[2].strip(" *_`\t"), span=line.span(2)) for line in lines)
    return Record(fields=fields, span=(lines[0].start(), lines[-1].end()) if lines else (0, 0))


def _key(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))


def _value_end(text: str, start: int) -> tuple[int, bool]:
    """Where the value that begins at ``start`` ends, and whether it is whole. A nested record is no value."""
    first = text[start : start + 1]
    if first == "{":
        return start, True
    if first in _MARKS:
        return _string_end(text, start)
    value = _BARE_VALUE.match(text, start)
    end = value.end() if value else start
    return end, end < len(text)


def _string_end(text: str, start: int) -> tuple[int, bool]:
    """The end of a string: a quotation mark after which the record goes on or ends.

    Models forget to escape quotation marks and apostrophes, so one in the middle of a sentence ends nothing. Where
    no mark closes the string, the first one at the end of a line does, and the record with it.
    """
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
    # Half a surrogate pair is no character.
    character = chr(int(escape[1], 16)) if escape[1] else escape[2] or {"n": "\n", "t": "\t"}[escape[3]]
    return "?" if "\ud800" <= character <= "\udfff" else character
