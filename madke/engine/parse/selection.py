"""The pool numbers that a reply chooses."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from madke.engine.parse.brackets import outermost
from madke.engine.parse.citations import ID_LIST
from madke.engine.parse.content import unwrap
from madke.engine.parse.result import Parsed, abstained, found
from madke.engine.parse.sentences import NEAR, sentences


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedIds:
    """Pool numbers, in order of mention."""

    ids: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    """Numbers named as helpful, but not chosen, or beyond the allowed count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sentence:
    """What a sentence names."""

    ids: tuple[int, ...]
    last: tuple[int, int]
    """Its last marker."""
    chooses: bool


_ID_OR_RANGE = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")  # noqa: RUF001
_NO_FOUND = re.compile(r"\[\W{0,9}no(?:t|ne)?\s{0,9}found\W{0,9}\]", re.IGNORECASE)
_JOINED = re.compile(r"[\s,;&*]*(?:(?:and|or|nor)\b)?[\s,*]*(?:(?:knowledge|passage|document)\b\s*)?", re.IGNORECASE)
_CHOOSES = re.compile(
    r"\bi\s+(?:(?:will|would|shall|therefore|thus|hence|now)\s+){0,2}(?:pick|choose|chose|select|selected|settle\s+on)\b"
    r"|\b(?:my|final|the)\s+(?:choices?|selections?|picks?)\b",
    re.IGNORECASE,
)
_USELESS = re.compile(
    r"(?:\b(?:do|does|did|would|will)\s+not|n['’]t|\bnor\s+do(?:es)?|\bneither|\bfails?\s+to|\bcannot)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:help|mention|contain|provide|answer|address|discuss|say|state|give|include|cover|specify|relate|support|name"
    r"|tell|offer|concern|refer|appear|seem|need|pick|choose|select)"
    r"|\b(?:not|never|nor|isn['’]t|aren['’]t)\s+(?:\w+\s+){0,2}?(?:relevant|helpful|useful|related|needed|about)\b"  # noqa: RUF001
    r"|\b(?:irrelevant|unrelated|unhelpful|useless|off-topic|beside the point)\b|\bof no (?:help|use)\b"
    r"|\b(?:about|on|with|concerns?)\s+(?:something|someone|somebody|other|another|an?\s+(?:different|other))\b"
    r"|\b(?:no|lacks?|without)\s+(?:any\s+)?(?:\w+\s+)?(?:information|mention|details?|help)\b"
    r"|\bnothing (?:about|on)\b|\bneither\W*\Z",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;]\s|\b(?:but|while|whereas|although|however|and)\b|\[", re.IGNORECASE)
_CLAUSE_START = re.compile(r"[,;]\s|\b(?:but|while|whereas|although|however|and|so)\b|\]", re.IGNORECASE)
_INDISPENSABLE = re.compile(r"\bwithout\W*\Z", re.IGNORECASE)


def parse_selection(text: str, *, size: int, limit: int, shown: Container[int] | None = None) -> Parsed[SelectedIds]:
    """The pool numbers of a selection reply.

    Args:
        text: The reply, reasoning left out.
        size: Passages in the pool; numbers outside ``0 .. size - 1`` are ignored.
        limit: How many numbers may be chosen.
        shown: The numbers that the reader was shown, if not all; others are ignored.

    Returns:
        Up to ``limit`` distinct numbers: those of sentences that choose ("I pick [0] and [5]"), if there are such, else
        all. Where they are too many, those of the concluding sentence count, else the first in order of mention; the
        others are ``dropped``. Numbers that are only named to say that they do not help are left out, a whole list of
        them ("[1], [2] and [5] are irrelevant") at once. Of numbers and ``[No Found]`` the last marker wins. Rules:
        ``chosen``, ``ids``, ``concluding``, ``first``, ``no_found``, ``none``.
    """
    said = list(_naming(text, size, range(size) if shown is None else shown))
    choosing = [sentence for sentence in said if sentence.chooses]
    counted = choosing or said
    declined = [marker.span() for marker in _NO_FOUND.finditer(text)]
    if declined and not (counted and counted[-1].last > declined[-1]):
        return found(SelectedIds(), "no_found", declined[-1])
    if not counted:
        return abstained(SelectedIds())
    mentioned = _ids(counted)
    if len(mentioned) <= limit:
        chosen, rule = mentioned, "chosen" if choosing else "ids"
    elif len(counted) > 1:
        chosen, rule = list(counted[-1].ids[:limit]), "concluding"
    else:
        chosen, rule = mentioned[:limit], "first"
    dropped = tuple(n for n in _ids(said) if n not in chosen)
    return found(SelectedIds(ids=tuple(chosen), dropped=dropped), rule, counted[-1].last)


def _ids(said: Sequence[_Sentence]) -> list[int]:
    return list(dict.fromkeys(n for sentence in said for n in sentence.ids))


def _naming(text: str, size: int, shown: Container[int]) -> Iterator[_Sentence]:
    """The sentences that name pool numbers, without those named to turn them down."""
    for start, end in sentences(text):
        useful = [group for group in _groups(text, start, end) if not _is_useless(text, group, start, end)]
        markers = [
            (span, [n for n in _numbers(text[slice(*span)], size) if n in shown]) for group in useful for span in group
        ]
        named = [(span, numbers) for span, numbers in markers if numbers]
        if named:
            ids = dict.fromkeys(n for _, numbers in named for n in numbers)
            chooses = bool(_CHOOSES.search(text, start, named[0][0][0]))
            yield _Sentence(ids=tuple(ids), last=named[-1][0], chooses=chooses)


def _groups(text: str, start: int, end: int) -> Iterator[list[tuple[int, int]]]:
    """Brackets of numbers in a sentence, those of one list (``[1], [2] and [5]``) together."""
    group: list[tuple[int, int]] = []
    for left, right in outermost(text[start:end]):
        span = (start + left, start + right)
        if not ID_LIST.fullmatch(re.sub(r"[\[\]\"']", "", unwrap(text[span[0] + 1 : span[1] - 1]))):
            continue
        if group and not _JOINED.fullmatch(text, group[-1][1], span[0]):
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _numbers(content: str, size: int) -> Iterator[int]:
    for number in _ID_OR_RANGE.finditer(content):
        first = int(number.group(1))
        last = min(int(number.group(2) or first), size - 1)
        yield from range(first, last + 1)


def _is_useless(text: str, group: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether the clause around a list of numbers says that they do not help ("Document [3] does not mention it")."""
    after = text[group[-1][1] : min(end, group[-1][1] + NEAR)].lstrip(" :,;-")
    stop = _CLAUSE_END.search(after)
    near = text[max(start, group[0][0] - NEAR) : group[0][0]]
    lead = near[max((begin.end() for begin in _CLAUSE_START.finditer(near)), default=0) :]
    if _INDISPENSABLE.search(lead):
        return False
    return bool(_USELESS.search(after[: stop.start()] if stop else after) or _USELESS.search(lead))
