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

_NEAR = 200
"""Characters around a marker that can bear on it. It keeps the work linear on texts of any shape."""


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

_THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


def without_reasoning(text: str) -> str:
    """The text that counts as said: reasoning blocks, closed, cut off or opened by the server, are left out."""
    said: list[str] = []
    inside, at = False, 0
    for tag in _THINK_TAG.finditer(text):
        closes = bool(tag.group(1))
        if closes and not inside:
            said = []
        elif not closes and not inside:
            said.append(text[at : tag.start()])
        inside, at = not closes, tag.end()
    return "".join(said if inside else [*said, text[at:]]).strip()


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
    r"(?:(?:the|your|my|final|correct|short)\s+)*answers?(?:\s+here)?|yes\s*(?:or|/|\|)\s*no|true\s*(?:or|/|\|)\s*false"
    r"|no found|\.{2,}|…",
    re.IGNORECASE,
)
_ID_LIST = re.compile(r"\s*#?\d{1,3}(?:\s*(?:,|;|&|and|-|–|to)\s*#?\d{1,3})*\s*", re.IGNORECASE)  # noqa: RUF001
_NOUN = r"\b(?:answer|conclusion|verdict|label|option|result)\b"
_CUE = re.compile(rf"{_NOUN}[^.\[\]\n]{{0,80}}\Z", re.IGNORECASE)
_STATING_CUE = re.compile(rf"{_NOUN}(?:[^.\n]{{0,80}}\b(?:is|are|was|be))?\W*\Z", re.IGNORECASE)
_SOMEBODY = r"\b(?:debater|agent)[ _]?\w*\d\w*"
_SAYING = (
    r"(?:sa(?:id|ys)|answer(?:s|ed)|claim(?:s|ed)|argue[sd]|stat(?:es|ed)|g(?:ave|ives)|thinks|thought|believe[sd])"
)
_ATTRIBUTED = re.compile(rf"{_SOMEBODY}[^.\n]{{0,40}}\b{_SAYING}\b[^.\n]*\Z", re.IGNORECASE)
_LEAD_IN = re.compile(r"(?:the\s+)?(?:final\s+|correct\s+)?answer\s*(?:is\b|:|=)\s*(?=\S)", re.IGNORECASE)
_DECORATION = " \t\n*_`\"'“”‘’"  # noqa: RUF001


def parse_answer(text: str, read: Callable[[str], str | None]) -> Parsed[str | None]:
    """The final answer of a reply.

    A number in brackets may be a citation, so it counts as an answer only where the text states it as one ("the
    answer is [7]"). What another debater is said to have answered does not count as a statement of the speaker's.

    Args:
        text: The reply, reasoning left out.
        read: The task's reader of a marker's content; None for content that is no answer.

    Returns:
        The last bracketed answer that a cue such as "the answer is" introduces; without any, the last bracket that
        is neither a placeholder nor a citation, if all those say the same or it stands in the last sentence. Rules:
        ``cue``, ``last``, ``none``.
    """
    plain: list[Parsed[str | None]] = []
    cued: Parsed[str | None] | None = None
    for start, end in _brackets(text):
        content = _unwrap(text[start + 1 : end - 1])
        before = text[max(0, start - _NEAR) : start].rstrip(_DECORATION)
        states = bool(_STATING_CUE.search(before))
        if _PLACEHOLDER.fullmatch(content) or text.startswith("(http", end):
            continue
        if _ID_LIST.fullmatch(content) and not states:
            continue
        value = read(content)
        if value is None:
            continue
        introduced = (states or _CUE.search(before)) and not _ATTRIBUTED.search(before)
        rule = "cue" if introduced else "last"
        found: Parsed[str | None] = Parsed(value=value, status="ok", rule=rule, span=(start, end))
        if introduced:
            cued = found
        else:
            plain.append(found)
    if cued:
        return cued
    if plain and (len({found.value for found in plain}) == 1 or _in_last_sentence(text, plain[-1].span)):
        return plain[-1]
    return Parsed(value=None, status="abstained", rule="none")


def _in_last_sentence(text: str, span: tuple[int, int] | None) -> bool:
    sentences = [(start, end) for start, end in _sentences(text) if re.search(r"\w", text[start:end])]
    return span is not None and bool(sentences) and span[0] >= sentences[-1][0]


def _unwrap(content: str) -> str:
    """The content without decoration, a lead-in, a closing full stop or a second pair of brackets around it all."""
    content = content.strip(_DECORATION)
    if len(content) > 1 and content[0] == "[" and next(_brackets(content), None) == (0, len(content)):
        content = content[1:-1].strip(_DECORATION)
    content = _LEAD_IN.sub("", content, count=1) if _LEAD_IN.match(content) else content
    stripped = content.removesuffix(".")
    return stripped.rstrip(_DECORATION) if "." not in stripped else content


# --- selection ---------------------------------------------------------------------------------------------------

_ID_CONTENT = re.compile(
    r"\s*(?:(?:knowledge|passage|document|no\.?)\s*)?#?\d{1,4}"
    r"(?:\s*(?:,|;|&|and|-|–|to)\s*(?:and\s+)?(?:knowledge\s*)?#?\d{1,4})*[\s,;]*",  # noqa: RUF001
    re.IGNORECASE,
)
_ID_OR_RANGE = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")  # noqa: RUF001
_NO_FOUND = re.compile(r"\[\W{0,9}no(?:t|ne)?\s{0,9}found\W{0,9}\]", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“*(]*[A-Z\[])|\n+")
_JOINED = re.compile(r"[\s,;&*]*(?:(?:and|or|nor)\b)?[\s,*]*(?:(?:knowledge|passage|document)\b\s*)?", re.IGNORECASE)
_USELESS = re.compile(
    r"(?:\b(?:do|does|did)\s+not|n['’]t|\bnor\s+do(?:es)?|\bneither|\bfails?\s+to|\bcannot)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:help|mention|contain|provide|answer|address|discuss|say|state|give|include|cover|specify|relate|support|name"
    r"|tell|offer|concern|refer|appear|seem)"
    r"|\b(?:not|never|nor|isn['’]t|aren['’]t)\s+(?:\w+\s+){0,2}?(?:relevant|helpful|useful|related|needed|about)\b"  # noqa: RUF001
    r"|\b(?:irrelevant|unrelated|unhelpful|useless|off-topic|beside the point)\b|\bof no (?:help|use)\b"
    r"|\b(?:no|lacks?|without)\s+(?:any\s+)?(?:\w+\s+)?(?:information|mention|details?|help)\b"
    r"|\bnothing (?:about|on)\b|\bneither\W*\Z",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;]\s|\b(?:but|while|whereas|although|however|and)\b", re.IGNORECASE)
_CLAUSE_START = re.compile(r"[,;]\s|\b(?:but|while|whereas|although|however|and|so)\b", re.IGNORECASE)


def parse_selection(text: str, *, size: int, limit: int) -> Parsed[SelectedIds]:
    """The pool numbers of a selection reply.

    Args:
        text: The reply, reasoning left out.
        size: Passages in the pool; numbers outside ``0 .. size - 1`` are ignored.
        limit: How many numbers may be chosen.

    Returns:
        Up to ``limit`` distinct numbers. Where more are named, those of the concluding sentence count, else the
        first in order of mention; the rest is ``dropped``. Numbers that are only named to say that they do not help
        are left out, a whole list of them ("[1], [2] and [5] are irrelevant") at once. Rules: ``ids``,
        ``concluding``, ``first``, ``no_found``, ``none``.
    """
    declined = [found.span() for found in _NO_FOUND.finditer(text)]
    sentences: list[list[int]] = []
    last: tuple[int, int] | None = None
    for start, end in _sentences(text):
        ids: list[int] = []
        for group in _id_groups(text, start, end):
            if _is_useless(text, group, start, end):
                continue
            for left, right in group:
                named = [n for n in _numbers(text[left:right], size) if n not in ids]
                if named:
                    ids += named
                    last = (left, right)
        if ids:
            sentences.append(ids)
    if declined and (last is None or declined[-1][0] > last[0]):
        return Parsed(value=SelectedIds(), status="ok", rule="no_found", span=declined[-1])
    mentioned = list(dict.fromkeys(n for ids in sentences for n in ids))
    if not mentioned:
        return Parsed(value=SelectedIds(), status="abstained", rule="none")
    if len(mentioned) <= limit:
        chosen, rule = mentioned, "ids"
    elif len(sentences) > 1:
        chosen, rule = sentences[-1][:limit], "concluding"
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


def _id_groups(text: str, start: int, end: int) -> Iterator[list[tuple[int, int]]]:
    """Brackets of numbers in a sentence, those of one list (``[1], [2] and [5]``) together."""
    group: list[tuple[int, int]] = []
    for left, right in _brackets(text[start:end]):
        span = (start + left, start + right)
        if not _ID_CONTENT.fullmatch(re.sub(r"[\[\]\"']", "", _unwrap(text[span[0] + 1 : span[1] - 1]))):
            continue
        if group and not _JOINED.fullmatch(text, group[-1][1], span[0]):
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _numbers(content: str, size: int) -> Iterator[int]:
    for found in _ID_OR_RANGE.finditer(content):
        first = int(found.group(1))
        last = min(int(found.group(2) or first), size - 1)
        yield from range(first, last + 1)


def _is_useless(text: str, group: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether the clause around a list of numbers says that they do not help ("Document [3] does not mention it")."""
    after = text[group[-1][1] : min(end, group[-1][1] + _NEAR)].lstrip(" :,;-")
    stops = [found.start() for found in (_CLAUSE_END.search(after), re.search(r"\[", after)) if found]
    before = text[max(start, group[0][0] - _NEAR) : group[0][0]]
    begins = [found.end() for found in re.finditer(rf"{_CLAUSE_START.pattern}|\]", before, re.IGNORECASE)]
    clause, lead = after[: min(stops, default=len(after))], before[max(begins, default=0) :]
    if re.search(r"\bwithout\W*\Z", lead, re.IGNORECASE):
        return False
    return bool(_USELESS.search(clause) or _USELESS.search(lead))


# --- verdict -----------------------------------------------------------------------------------------------------

_VERDICT = re.compile(r"\[\W{0,9}(yes|no)\W{0,9}\]", re.IGNORECASE)
_ALONE = re.compile(
    r"\W*(?:(?:so|thus|therefore|hence|in conclusion)\W+)?(?:(?:my|the|final|overall)\W+)*"
    r"(?:(?:answer|verdict|judge?ment|decision|response|result|conclusion)\W*(?:is\W*)?)?",
    re.IGNORECASE,
)
_BARE = re.compile(r"\W*(yes|no)\W*", re.IGNORECASE)
_QUOTED = re.compile(
    rf"{_SOMEBODY}(?:['’]s)?(?:\W*\Z|\b[^.\n]*\b(?:answer|stance|position|{_SAYING})\W*(?:is\b|was\b|that\b|with\b)?\W*\Z)",  # noqa: RUF001
    re.IGNORECASE,
)
_COMPARED = re.compile(r"\b(?:same|agree|agrees|identical|consistent|differ|differs|different)\b", re.IGNORECASE)


def parse_verdict(text: str) -> Parsed[bool | None]:
    """Whether a judge found the answers the same.

    Returns:
        True for ``[Yes]``, False for ``[No]``. A marker that only quotes a debater ("Debater 1 answers [No]") does
        not count. Where both still stand in the text, the last one counts if it stands alone (on its own line, or as
        the whole conclusion); else there is no verdict. Rules: ``marker``, ``alone``, ``bare`` (a reply that is
        nothing but the word), ``contradictory``, ``none``.
    """
    found = [marker for marker in _VERDICT.finditer(text) if not _is_quoted(text, marker.start())]
    if not found:
        bare = _BARE.fullmatch(text)
        if bare and not _VERDICT.search(text):
            return Parsed(value=bare.group(1).lower() == "yes", status="ok", rule="bare", span=bare.span())
        return Parsed(value=None, status="abstained", rule="none")
    last = found[-1]
    value = last.group(1).lower() == "yes"
    if len({marker.group(1).lower() for marker in found}) == 1:
        return Parsed(value=value, status="ok", rule="marker", span=last.span())
    lead, tail = _lead(text, last.start()), text[last.end() :].split("\n", 1)[0]
    if _ALONE.fullmatch(lead) and not re.search(r"\w", tail):
        return Parsed(value=value, status="ok", rule="alone", span=last.span())
    return Parsed(value=None, status="abstained", rule="contradictory")


def _lead(text: str, at: int) -> str:
    """What stands before a position in its sentence."""
    near = text[max(0, at - _NEAR) : at]
    return near[max(start for start, _ in _sentences(near)) :]


def _is_quoted(text: str, at: int) -> bool:
    lead = _lead(text, at)
    return bool(_QUOTED.search(lead)) and not _COMPARED.search(lead)
