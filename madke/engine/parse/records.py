"""Records in a reply: JSON or a Python dict, even if fenced, badly quoted or cut off."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from madke.engine.parse.grammar import NEAR, OTHER_SPEAKER

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
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"'\\/])|([nt])(?![a-z]))")
_LEADS = re.compile(
    rf"(?:[^\n]*[.!?]\s)?(?:[^\w\n]*|(?![^\n]*(?:{OTHER_SPEAKER}|\b(?:wrote|sa(?:id|ys)|not|if|example|form|passage|document"
    r"|knowledge|source|snippet)\b|\[\d))[^.!?\n]*:\s*)",
    re.IGNORECASE,
)
"""What may stand before a record on its line: nothing, or words that announce it, not those of another."""


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


def own_records(text: str) -> list[FormRecord]:
    """The records that begin a line, or follow on one. A record inside a sentence is quoted."""
    own: list[FormRecord] = []
    for record in records(text):
        line = text[text.rfind("\n", 0, record.span[0]) + 1 : record.span[0]]
        if (own and own[-1].span[1] > record.span[0] - len(line)) or _LEADS.fullmatch(line[-NEAR:]):
            own.append(record)
    return own


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
