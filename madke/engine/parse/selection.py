"""The pool numbers that a reply chooses."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from madke.engine.parse.marks import ID_LIST, IDS, NUMBERS
from madke.engine.parse.places import NEAR, sentences
from madke.engine.parse.result import Parsed, abstained, found, windowed


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedIds:
    """Pool numbers, in order of mention."""

    ids: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    """Numbers named as helpful, but not chosen, or beyond the allowed count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Named:
    """Numbers that a sentence or line names."""

    ids: tuple[int, ...]
    last: tuple[int, int]
    """The last marker."""
    rule: str = "ids"
    """``selected`` and ``chosen`` come before ``ids``."""


_MARKER = re.compile(rf"\[([^\[\]\n]{{1,80}})\]|\b(?=[kpeids])({IDS})", re.IGNORECASE)
_ASKED_LINE = re.compile(
    r"^[^\w\n]{0,9}(?:(?:my|the|final)\s+){0,2}select(?:ed|ion|ions)\b[^:\n]{0,40}:[*_]*\s{0,9}(?P<said>[^\n]*)",
    re.I | re.M,
)
_IDS_ONLY = re.compile(rf"\W*{IDS}\W*", re.IGNORECASE)
_BRACKETS = str.maketrans("[]()\"'*", "       ")
_QUOTED = re.compile(r"(?<!\":)(?<!\": )\"[^\"\n]{0,1000}\"|“[^“”\n]{0,1000}”")
"""A quotation; a JSON string behind its key is none."""
_PROSE = re.compile(r"(?:[A-Za-z]{2,}\W+){3}")
_NEEDED = r"(?:knowledge|passages?|entr(?:y|ies)|documents?|sources?|information)"
_NO_FOUND = re.compile(
    r"\[\W{0,9}no(?:t|ne)?\s{0,9}found\W{0,9}\]|^[^\w\n]{0,9}(?:select\w{0,4}\W{1,9})?(?:no(?:t|ne)?\s+found|none)[^\w\n]{0,9}$"
    rf"|\bi\s+(?:do\s+not|don['’]t)\s+(?:need|require|want)\s+(?:\w+\s+){{0,3}}?{_NEEDED}\b"  # noqa: RUF001
    rf"|\b(?:no|none\s+of\s+the(?:se)?)\s+{_NEEDED}\s+(?:(?:is|are)\s+)?(?:needed|necessary|required|helpful|useful|relevant)\b",
    re.IGNORECASE | re.MULTILINE,
)
_CHOOSES = re.compile(
    r"\bi\s+(?:(?:will|would|shall|therefore|thus|hence|now)\s+){0,2}(?:pick|choose|chose|select|selected|settle\s+on)\b"
    r"|\b(?:my|final|the)\s+(?:choices?|selections?|picks?)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r";\s|,\s+(?!(?:and\s+|or\s+)?(?:\w+\s+)?[\[\d])|\b(?:but|while|whereas|although|however|because|since)\b"
    r"|\band\b(?!\s+(?:\w+\s+)?[\[\d])",
    re.IGNORECASE,
)
_USELESS = re.compile(
    r"(?:\b(?:do|does|did|would|will)\s+not|n['’]t|\bneither|\bnor|\bfails?\s+to|\bcannot)(?!.*\bwithout\s+(?:\w+\s+)?\[)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:help|mention|contain|provide|answer|address|discuss|say|state|give|include|cover|specify|relate|support|name|tell"
    r"|offer|concern|refer|appear|seem|need|pick|choose|select|\[)"
    r"|\b(?:not|never|isn['’]t|aren['’]t)\s+(?:\w+\s+){0,2}?(?:relevant|helpful|useful|related|needed|about)\b"  # noqa: RUF001
    r"|\b(?:irrelevant|unrelated|unhelpful|useless|off-topic)\b|\bof no (?:help|use)\b|\bnothing (?:about|on)\b"
    r"|\b(?:about|on|with|concerns?)\s+(?:something|someone|somebody|other|another|an?\s+(?:different|other))\b"
    r"|\b(?:no|lacks?|without)\s+(?:any\s+)?(?:\w+\s+)?(?:information|mention|details?|help)\b",
    re.IGNORECASE,
)


@windowed
def parse_selection(text: str, *, size: int, limit: int, shown: Container[int] | None = None) -> Parsed[SelectedIds]:
    """The pool numbers of a selection reply.

    Args:
        text: The reply, reasoning left out.
        size: Passages in the pool; numbers outside ``0 .. size - 1`` are ignored.
        limit: How many numbers may be chosen.
        shown: The numbers that the reader was shown, if not all; others are ignored.

    Returns:
        Up to ``limit`` distinct numbers: those of the line "Selected: ..." or of a last line with nothing but numbers
        (rule ``selected``); else those of sentences that choose ("I pick [0] and [5]"; ``chosen``); else all (``ids``).
        Where they are too many, those of the concluding sentence count (``concluding``), else the first in order of
        mention (``first``); the others are ``dropped``. Numbers that are only named to say that they do not help
        ("[1], [2] and [5] are irrelevant") are left out, and so are those inside a quoted passage. Where the text also
        declines all knowledge (``no_found``), the last of both counts.
    """
    said = _QUOTED.sub(lambda quote: " " * len(quote[0]) if _PROSE.search(quote[0]) else quote[0], text)
    valid = [n for n in range(size) if shown is None or n in shown]
    named = [*_on_asked_line(said, valid), *_in_sentences(said, valid)]
    ranked = {rule: [one for one in named if one.rule == rule] for rule in ("selected", "chosen", "ids")}
    counted = next((group for group in ranked.values() if group), [])
    declined = [marker.span() for marker in _NO_FOUND.finditer(said)]
    if declined and not (counted and counted[-1].ids and counted[-1].last > declined[-1]):
        return found(SelectedIds(), "no_found", declined[-1])
    if not counted:
        return abstained(SelectedIds())
    mentioned, rule = _ids(counted), counted[-1].rule
    chosen = mentioned[:limit]
    if len(mentioned) > limit:
        chosen, rule = (list(counted[-1].ids[:limit]), "concluding") if len(counted) > 1 else (chosen, "first")
    dropped = tuple(n for n in _ids(named) if n not in chosen)
    return found(SelectedIds(ids=tuple(chosen), dropped=dropped), rule, counted[-1].last)


def _ids(said: Sequence[_Named]) -> list[int]:
    return list(dict.fromkeys(n for one in said for n in one.ids))


def _on_asked_line(text: str, valid: Container[int]) -> Iterator[_Named]:
    """The last line of the form that was asked for, or a last line that holds only numbers, in brackets or not."""
    lines = [line.span("said") for line in _ASKED_LINE.finditer(text)][-1:]
    end = len(text.rstrip())
    start = text.rfind("\n", 0, end) + 1
    if not lines and end - start <= NEAR and _IDS_ONLY.fullmatch(text[start:end].translate(_BRACKETS)):
        lines = [(start, end)]
    for start, end in lines:
        ids = [] if _NO_FOUND.match(text, start, end) else _numbers(text[start : min(end, start + NEAR)], valid)
        if ids or _NO_FOUND.search(text, start, end):
            yield _Named(ids=tuple(dict.fromkeys(ids)), last=(start, end), rule="selected")


def _in_sentences(text: str, valid: Container[int]) -> Iterator[_Named]:
    """The sentences that name pool numbers, without the clauses that turn some down."""
    for start, end in sentences(text):
        cuts = [start, *(cut.end() for cut in _CLAUSE_END.finditer(text, start, end)), end]
        clauses = [clause for clause in pairwise(cuts) if not _USELESS.search(text, *clause)]
        markers = [marker for clause in clauses for marker in _MARKER.finditer(text, *clause)]
        named = [
            (marker, ids) for marker in markers if _is_list(marker[1] or "0") and (ids := _numbers(marker[0], valid))
        ]
        if named:
            chosen = dict.fromkeys(n for _, ids in named for n in ids)
            rule = "chosen" if _CHOOSES.search(text, start, named[0][0].start()) else "ids"
            yield _Named(ids=tuple(chosen), last=named[-1][0].span(), rule=rule)


def _is_list(content: str) -> bool:
    return bool(ID_LIST.fullmatch(content.translate(_BRACKETS).strip()))


def _numbers(content: str, valid: Container[int]) -> list[int]:
    ends = ((int(first), int(last or first)) for first, last in NUMBERS.findall(content))
    return [n for first, last in ends for n in range(first, min(last, first + NEAR) + 1) if n in valid]
