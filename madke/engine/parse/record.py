"""Records in a reply: JSON, a Python dict, fenced, sloppily quoted or cut off; or a list of ``key: value`` lines.

One pass from left to right, no recursion, nothing evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

REASON_KEY = re.compile(r"\b(?:reason|explan|rational|thought|think|justif|analy|evidence|comment|why|because|step)")
"""Finds keys of reasons in :attr:`Field.key`."""
ANSWER_KEY = re.compile(
    r"^(?!.*\b(?:base|question|confidence|previous|wrong|incorrect|other|alternative|gold)\b)"
    r".*\b(?:answer|choice|translation|solution|label|option|conclusion|prediction)\b"
)
"""Finds keys of answers in :attr:`Field.key`; those of a reason may match too."""

_CLOSING = {'"': '"', "'": "'", "“": "”"}
_MARKS = {quote: re.compile(rf"\\.|{closing}", re.DOTALL) for quote, closing in _CLOSING.items()}
_NAME = r"(?:[\"'“](?P<quoted>[^\"'“”{}\n:]{1,80})[\"'”]|(?P<bare>[A-Za-z_][\w -]{0,60}))\s{0,9}:"
_KEY = re.compile(rf"{_NAME}\s{{0,99}}")
_AFTER_VALUE = re.compile(rf"\s{{0,99}}(?:\}}|\Z|```|(?:,\s{{0,99}})?{_NAME})")
_WORD_END = re.compile(r"[\w\\}^]\Z")
_BARE_VALUE = re.compile(r"\[[^\[\]{}]{0,300}\]|[^,{}\n]{0,300}")
_LINE = re.compile(r"^[ \t*_#>-]{0,9}([A-Za-z][A-Za-z ]{0,30})[*_]{0,3}:[*_ \t]{0,9}([^\n]{0,1000})$", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"'\\/])|([nt])(?![a-z]))")
_SPACES = {"n": "\n", "t": "\t"}
_MOST_FIELDS = 100


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
    at = text.find("{")
    while at >= 0:
        record, resume = _record(text, at)
        if record.fields:
            yield record
        at = text.find("{", resume)


def listed(text: str) -> Record:
    """The lines ``key: value`` of a text, bulleted or bold, as one record."""
    lines = list(_LINE.finditer(text))[-_MOST_FIELDS:]
    fields = tuple(Field(key=_key(line[1]), value=line[2].strip(" *_`\t"), span=line.span(2)) for line in lines)
    return Record(fields=fields, span=(lines[0].start(), lines[-1].end()) if lines else (0, 0))


def _record(text: str, start: int) -> tuple[Record, int]:
    """The record that opens at ``start``, and where to look for the next."""
    fields: list[Field] = []
    at, depth, ends = start, 0, False
    # A bare word before a colon is a key where the brace is no part of a word or a formula, as in \\text{area: 5}.
    bare_keys = not _WORD_END.search(text[max(0, start - 1) : start])
    while not ends:
        at, depth = _braces(text, at, depth)
        key = _KEY.match(text, at) if depth else None
        if key is None or (key["bare"] and not bare_keys) or len(fields) == _MOST_FIELDS:
            return Record(fields=tuple(fields), span=(start, at), whole=not depth), max(at, start + 1)
        at, whole = _value_end(text, key.end())
        if at > key.end():
            name, value = _key(key["quoted"] or key["bare"]), _decoded(text[key.end() : at])
            fields.append(Field(key=name, value=value, span=(key.end(), at), whole=whole, depth=depth))
            ends = not _AFTER_VALUE.match(text, at)
    return Record(fields=tuple(fields), span=(start, at), whole=False), len(text)


def _key(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))


def _braces(text: str, at: int, depth: int) -> tuple[int, int]:
    """The place behind braces, commas and white space, and how many braces are open there."""
    while at < len(text) and (text[at] in "{}," or text[at].isspace()):
        depth += (text[at] == "{") - (text[at] == "}")
        at += 1
        if not depth:
            break
    return at, depth


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
    code, literal, space = escape.groups()
    if code:
        # Half a surrogate pair is no character.
        return chr(int(code, 16)) if not 0xD800 <= int(code, 16) <= 0xDFFF else "?"
    return str(literal or _SPACES[space])
