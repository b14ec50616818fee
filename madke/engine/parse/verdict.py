"""A judge's verdict: ``[Yes]`` / ``[No]``, or a record with the side it supports, its reason and its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from madke.engine.parse.binary import Binary
from madke.engine.parse.content import Reader, is_placeholder
from madke.engine.parse.names import named, sole_name
from madke.engine.parse.record import ANSWER_KEY, REASON_KEY, Record, records
from madke.engine.parse.result import Parsed, abstained, found

_MARKER = Binary("yes|same|keep", "no|different|revise")
_ASKS_WHETHER = re.compile(r"^(?:whether|is|are|has|have|do|does|did)\b")
_SETTLED_KEY = re.compile(
    r"\b(?:preference|settled|consensus|agree(?:d|ment)?|verdict|decision|resolved|conclusive|consistent|same)\b"
)
_SIDE_KEY = re.compile(r"\b(?:side|supported|winner|preferred|debater)\b")
_YES_OR_NO = re.compile(r"\W*(?:(yes|true|1(?=\W*\Z))|no|false|0(?=\W*\Z))\b(?!\s*(?:or\b|/|\|))", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What a judge found."""

    consensus: bool | None = None
    """Whether it settled the debate; None where it does not say."""
    side: str | None = None
    """The debater it supports."""
    answer: str | None = None
    reason: str = ""


def parse_verdict(
    text: str, *, sides: Sequence[str] = (), read: Callable[[str], str | None] | None = None
) -> Parsed[Judged]:
    """What a judge found, from a marker or a record.

    Args:
        text: The reply, reasoning left out.
        sides: The debaters' names. A side counts only if it names exactly one of them.
        read: The task's reader of a record's answer; without one the answer is kept as it stands.

    Returns:
        From a record (JSON, a Python dict, fenced, cut off; its keys are matched loosely): whether there is a
        preference, the side, the answer and the reason. The last whole record counts, and a cut one only where none
        is whole (rules ``record``, ``cut_record``); records that contradict each other are ``contradictory``. Without
        a record, from ``[Yes]`` or ``[No]``, with the rules of :meth:`madke.engine.parse.binary.Binary.parse`.
    """
    read_from = [(record, judged) for record in records(text) if (judged := _judged(record, sides, read))]
    whole = [(record, judged) for record, judged in read_from if record.whole]
    if len({judged.consensus for _, judged in whole} - {None}) > 1:
        return abstained(Judged(), "contradictory")
    record, judged = (whole or read_from)[-1] if read_from else (None, Judged())
    # A record of answers, say, may have the decision beside it.
    marked = _MARKER.parse(text)
    if record is not None and (judged.consensus is not None or marked.value is None):
        return found(judged, "record" if record.whole else "cut_record", record.span)
    value = replace(judged, consensus=marked.value)
    return Parsed(value=value, status=marked.status, rule=marked.rule, span=marked.span)


def _judged(record: Record, sides: Sequence[str], read: Callable[[str], str | None] | None) -> Judged | None:
    """What a record finds; None if it is about something else. Of a value that is cut off, only a reason counts."""
    consensus: bool | None = None
    side = answer = None
    reason = ""
    for field in record.fields:
        key, value = field.key, field.value
        if REASON_KEY.search(key):
            reason = reason or value
        elif not field.whole or is_placeholder(value):
            continue
        elif _ASKS_WHETHER.search(key) or (_SETTLED_KEY.search(key) and not ANSWER_KEY.search(key)):
            said = _YES_OR_NO.match(value)
            consensus = bool(said.group(1)) if said else consensus
        elif _SIDE_KEY.search(key):
            side = _side(value, sides)
        elif ANSWER_KEY.search(key):
            answer = value.strip() if read is None else Reader(read)(value)
    if consensus is None and side is None and answer is None:
        return None
    return Judged(consensus=consensus, side=side, answer=answer, reason=reason)


def _side(value: str, sides: Sequence[str]) -> str | None:
    names = named(value, sides)
    return names[0] if len(names) == 1 else None if names else sole_name(value, sides)
