"""Every marker grammar, one typed result.

Model text is untrusted: nothing here raises on any input, evaluates anything, or invents a value. The markers:

* final answer ``[answer]``
* selection ``[0] [3]`` or ``[No Found]``
* verdict ``[Yes]`` / ``[No]``
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from madke.core.transcript import ParseStatus

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed(Generic[T]):
    """What a grammar read from a text."""

    value: T
    status: ParseStatus
    """``ok``, or ``abstained`` where the text holds no value of this grammar."""
    rule: str
    """Which rule fired, for the parse-rate tables."""
    span: tuple[int, int] | None = None
    """Where in the text the value stands (of a selection: its last marker)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedIds:
    """Pool numbers, in order of mention."""

    ids: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()


# --- reasoning ---------------------------------------------------------------------------------------------------

_THINK = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_THINK_OPEN = re.compile(r"<think(?:ing)?>.*\Z", re.DOTALL | re.IGNORECASE)
_THINK_CLOSE = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


def without_reasoning(text: str) -> str:
    """The text that counts as said: reasoning blocks, closed, cut off or opened by the server, are left out."""
    text = _THINK.sub("", text)
    text = _THINK_CLOSE.sub("", text)
    return _THINK_OPEN.sub("", text).strip()


# --- brackets ----------------------------------------------------------------------------------------------------


def _brackets(text: str) -> Iterator[tuple[int, int]]:
    r"""Spans of the outermost balanced ``[...]``, LaTeX's ``\[`` left out. An unclosed bracket hides nothing."""
    opened: list[int] = []
    closed: list[tuple[int, int]] = []
    for found in re.finditer(r"\\[\[\]]|[\[\]]", text):
        if found.group() == "[":
            opened.append(found.start())
        elif found.group() == "]" and opened:
            closed.append((opened.pop(), found.end()))
    end = 0
    for start, stop in sorted(closed, key=lambda span: (span[0], -span[1])):
        if start >= end:
            # "[[0, 1)]" is the half-open interval "[0, 1)" inside a marker: the bracket left open belongs to it.
            yield (start - 1 if start and text[start - 1] == "[" else start), stop
            end = stop


# --- final answer ------------------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(
    r"(?:(?:the|your|my|final|correct|short|one|option)\s+)*(?:answer|label|letter)s?(?:\s+here)?"
    r"|(?:yes\s*(?:or|/|\|)\s*no)|(?:true\s*(?:or|/|\|)\s*false)|no found|\.{2,}|…|n",
    re.IGNORECASE,
)
_CITED = re.compile(r"(?:knowledge|passage|document|doc|source|snippet|reference|ref|item|entry|no\.?)s?\W*\Z", re.I)
_ID_LIST = re.compile(r"\s*#?\d{1,3}(?:\s*(?:,|;|&|and|-|–|to)\s*#?\d{1,3})*\s*", re.IGNORECASE)  # noqa: RUF001
_CUE = re.compile(r"\b(?:answer|conclusion|verdict|label|option|result)\b[^.\[\]\n]{0,80}\Z", re.IGNORECASE)
_DECORATION = " \t\n*_`\"'“”‘’"  # noqa: RUF001


def parse_answer(text: str, read: Callable[[str], str | None]) -> Parsed[str | None]:
    """The final answer of a reply.

    Args:
        text: The reply, reasoning left out.
        read: The task's reader of a marker's content; None for content that is no answer.

    Returns:
        The last bracketed answer that a cue such as "the answer is" introduces, else the last bracket that is
        neither a placeholder nor a citation. Rules: ``cue``, ``last``, ``none``.
    """
    plain: Parsed[str | None] | None = None
    cued: Parsed[str | None] | None = None
    for start, end in _brackets(text):
        content = _unwrap(text[start + 1 : end - 1])
        before = text[max(0, start - 120) : start]
        introduced = bool(_CUE.search(before.rstrip(_DECORATION)))
        if _PLACEHOLDER.fullmatch(content) or text.startswith("(http", end):
            continue
        if _ID_LIST.fullmatch(content) and (not introduced or _CITED.search(before)):
            continue
        value = read(content)
        if value is None:
            continue
        found: Parsed[str | None] = Parsed(
            value=value, status="ok", rule="cue" if introduced else "last", span=(start, end)
        )
        if introduced:
            cued = found
        else:
            plain = found
    return cued or plain or Parsed(value=None, status="abstained", rule="none")


def _unwrap(content: str) -> str:
    """The content without decoration, a closing full stop or a second pair of brackets around all of it."""
    content = content.strip(_DECORATION)
    while len(content) > 1 and content[0] == "[" and next(_brackets(content), None) == (0, len(content)):
        content = content[1:-1].strip(_DECORATION)
    stripped = content.removesuffix(".")
    return stripped.rstrip(_DECORATION) if "." not in stripped else content


# --- selection ---------------------------------------------------------------------------------------------------

_ID_CONTENT = re.compile(
    r"\s*(?:(?:knowledge|passage|document|no\.?)\s*)?#?\d{1,4}"
    r"(?:\s*(?:,|;|&|and|-|–|to)\s*(?:and\s+)?(?:knowledge\s*)?#?\d{1,4})*\s*",  # noqa: RUF001
    re.IGNORECASE,
)
_ID_OR_RANGE = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")  # noqa: RUF001
_NO_FOUND = re.compile(r"\[\W*no(?:t|ne)?\s*found\W*\]", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“*(]*[A-Z\[])|\n+")
_NEGATED = re.compile(
    r"\b(?:not|n't|never|nor|neither|no (?:information|mention|details?|help)|irrelevant|unrelated|unhelpful"
    r"|lacks?|fails? to|without)\b|n't\b|n’t\b",  # noqa: RUF001
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;:]\s|\b(?:but|while|whereas|although|however|and)\b", re.IGNORECASE)


def parse_selection(text: str, *, size: int, limit: int) -> Parsed[SelectedIds]:
    """The pool numbers of a selection reply.

    Args:
        text: The reply, reasoning left out.
        size: Passages in the pool; numbers outside ``0 .. size - 1`` are ignored.
        limit: How many numbers may be chosen.

    Returns:
        Up to ``limit`` distinct numbers. Where more are named, those of the concluding sentence count, else the
        first in order of mention; the rest is ``dropped``. A number that is only named to say that it does not
        help is left out. Rules: ``ids``, ``concluding``, ``first``, ``no_found``, ``none``.
    """
    declined = [found.span() for found in _NO_FOUND.finditer(text)]
    sentences: list[list[int]] = []
    last: tuple[int, int] | None = None
    for start, end in _sentences(text):
        ids: list[int] = []
        for span in _id_brackets(text, start, end):
            named = [n for n in _numbers(text[span[0] + 1 : span[1] - 1], size) if n not in ids]
            if named and not _is_negated(text, span, start, end):
                ids += named
                last = span
        if ids:
            sentences.append(ids)
    if declined and (last is None or declined[-1][0] > last[0]):
        return Parsed(value=SelectedIds(), status="ok", rule="no_found", span=declined[-1])
    mentioned = list(dict.fromkeys(n for ids in sentences for n in ids))
    if not mentioned:
        return Parsed(value=SelectedIds(), status="abstained", rule="none")
    if len(mentioned) <= limit:
        chosen, rule = mentioned, "ids"
    elif len(sentences) > 1 and len(sentences[-1]) <= limit:
        chosen, rule = sentences[-1], "concluding"
    else:
        chosen, rule = mentioned[:limit], "first"
    dropped = tuple(n for n in mentioned if n not in chosen)
    return Parsed(value=SelectedIds(ids=tuple(chosen), dropped=dropped), status="ok", rule=rule, span=last)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in _SENTENCE_END.finditer(text):
        yield start, found.start()
        start = found.end()
    yield start, len(text)


def _id_brackets(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for left, right in _brackets(text[start:end]):
        if _ID_CONTENT.fullmatch(_unwrap(text[start + left + 1 : start + right - 1])):
            yield start + left, start + right


def _numbers(content: str, size: int) -> Iterator[int]:
    for found in _ID_OR_RANGE.finditer(content):
        first = int(found.group(1))
        last = min(int(found.group(2) or first), size - 1)
        yield from range(first, last + 1)


def _is_negated(text: str, span: tuple[int, int], start: int, end: int) -> bool:
    """Whether the clause that names the number says that it does not help ("Document [3] does not mention")."""
    after = text[span[1] : end]
    clause_end = _CLAUSE_END.search(after)
    clause = after[: clause_end.start()] if clause_end else after
    if next(_brackets(clause), None):
        clause = clause[: next(_brackets(clause))[0]]
    before = text[start : span[0]]
    clause_starts = [found.end() for found in _CLAUSE_END.finditer(before)]
    lead = before[clause_starts[-1] if clause_starts else 0 :]
    return bool(_NEGATED.search(clause) or _NEGATED.search(lead))


# --- verdict -----------------------------------------------------------------------------------------------------

_VERDICT = re.compile(r"\[\W*(yes|no)\W*\]", re.IGNORECASE)
_ALONE = re.compile(r"\W*(?:(?:final\s+)?(?:answer|verdict|judge?ment|response|result|conclusion)\W*(?:is\W*)?)?", re.I)
_BARE = re.compile(r"\W*(yes|no)\W*", re.IGNORECASE)


def parse_verdict(text: str) -> Parsed[bool | None]:
    """Whether a judge found the answers the same.

    Returns:
        True for ``[Yes]``, False for ``[No]``. Where both stand in the text, the last one counts if it stands
        alone (on its own line, or as the whole conclusion at the end); else there is no verdict. Rules:
        ``marker``, ``alone``, ``bare`` (a reply that is nothing but the word), ``contradictory``, ``none``.
    """
    found = list(_VERDICT.finditer(text))
    if not found:
        bare = _BARE.fullmatch(text)
        if bare:
            return Parsed(value=bare.group(1).lower() == "yes", status="ok", rule="bare", span=bare.span())
        return Parsed(value=None, status="abstained", rule="none")
    last = found[-1]
    value = last.group(1).lower() == "yes"
    if len({marker.group(1).lower() for marker in found}) == 1:
        return Parsed(value=value, status="ok", rule="marker", span=last.span())
    sentence = next(span for span in _sentences(text) if span[0] <= last.start() <= span[1])
    lead, tail = text[sentence[0] : last.start()], text[last.end() :].split("\n", 1)[0]
    if _ALONE.fullmatch(lead) and not re.search(r"\w", tail):
        return Parsed(value=value, status="ok", rule="alone", span=last.span())
    return Parsed(value=None, status="abstained", rule="contradictory")
