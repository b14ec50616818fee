"""A verdict: a marker such as ``[SAME]``, or a record with the judge's side, reason and answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from madke.engine.parse.content import Reader, is_placeholder
from madke.engine.parse.context import SAYING, SOMEBODY, is_denied, is_imagined, stands_alone
from madke.engine.parse.pick import named, settled, sole_name
from madke.engine.parse.places import MOST, NEAR, last_sentence, lead
from madke.engine.parse.record import ANSWER_KEY, REASON_KEY, Record, listed, records
from madke.engine.parse.result import Parsed, abstained, found, windowed

_NAME = r"(?:answer|verdict|grade|judge?ment|decision|response|result|conclusion)"
_QUOTED = re.compile(
    rf"(?:{SOMEBODY}|\b(?:both|all|each|gold(?:en)?|reference|ground.truth|predicted|candidate|expected|student|given)\b)"
    rf"(?:['’]s)?(?:\W*\Z|\b[^.\n]*\b(?:answers?|stance|position|{SAYING})\W*(?:is\b|was\b|that\b|with\b)?\W*\Z)",  # noqa: RUF001
    re.IGNORECASE,
)
_COMPARED = re.compile(r"\b(?:same|agrees?|identical|consistent|differ|differs|different|match\w{0,2})\b", re.I)


class Binary:
    """A grammar of two values in brackets, each written as one of some words."""

    def __init__(self, yes: str, no: str, *, may_be_quoted: bool = True) -> None:
        """``yes`` and ``no`` are patterns of words; ``may_be_quoted`` if a debater's answer can be such a word."""
        self._may_be_quoted = may_be_quoted
        word = rf"(?:(?P<yes>{yes})|{no})"
        label = rf"(?:(?:final|my|the|overall)\s+){{0,3}}{_NAME}"
        self._marker = re.compile(rf"\[\W{{0,9}}{word}\W{{0,9}}\]", re.IGNORECASE)
        self._labelled = re.compile(
            rf"^[^\w\n]{{0,9}}{label}[^\w\n]{{0,9}}[:=][^\w\n]{{0,9}}{word}[^\w\n]*$", re.IGNORECASE | re.MULTILINE
        )
        self._bare = re.compile(rf"\W*{word}\W*", re.IGNORECASE)

    def parse(self, text: str) -> Parsed[bool | None]:
        """The value that a reply settles on.

        Returns:
            True, False, or None. A marker that quotes somebody ("Debater 1 answers [No]"), denies ("not [Yes]") or
            imagines ("it would be [Yes] if") does not count. Where both values are left, the last one counts if it
            stands alone, on its line or as the whole conclusion. Rules: ``marker``, ``alone``, ``labelled`` (a line
            "Verdict: yes"), ``bare`` (a reply that is only the word), ``contradictory``, ``none``.
        """
        markers = list(self._marker.finditer(text))[-MOST:]
        if own := [(bool(marker["yes"]), marker.span()) for marker in markers if self._counts(text, marker)]:
            return settled(text, own, "marker")
        labelled = [] if markers else [(bool(line["yes"]), line.span()) for line in self._labelled.finditer(text)]
        if labelled:
            return settled(text, labelled, "labelled")
        bare = self._bare.fullmatch(text)
        return found(bool(bare["yes"]), "bare", bare.span()) if bare else abstained(None)

    def _counts(self, text: str, marker: re.Match[str]) -> bool:
        said = lead(text, marker.start())
        if self._may_be_quoted and _QUOTED.search(said) and not _COMPARED.search(said):
            return False
        after = text[marker.end() : marker.end() + NEAR]
        return not (is_denied(said, after) or is_imagined(said, after))


_MARKER = Binary("same|keep", "different|revise", may_be_quoted=False)
_YES_NO = Binary("yes", "no")
_GRADE = Binary("true", "false")
_ASKS_WHETHER = re.compile(r"^(?:whether|is|are|has|have|do|does|did)\b")
_SETTLED_KEY = re.compile(
    r"\b(?:preference|settled|consensus|agree(?:d|ment)?|verdict|decision|resolved|conclusive|consistent|same)\b"
)
_SIDE_KEY = re.compile(r"\b(?:side|supported|winner|preferred|debater)\b")
_SIDE_LINE = re.compile(r"^[^\w\n]{0,9}side[*_]{0,3}:([^\n]{1,200})", re.IGNORECASE | re.MULTILINE)
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


@windowed
def parse_verdict(
    text: str, *, sides: Sequence[str] = (), read: Callable[[str], str | None] | None = None
) -> Parsed[Judged]:
    """The verdict of a judge, or of a debater on its own stance, from a marker or a record.

    Args:
        text: The reply, reasoning left out.
        sides: The debaters' names. A side counts only if it names exactly one of them.
        read: The task's reader of a record's answer; without one the answer is kept as it is.

    Returns:
        From a record (JSON, a Python dict, fenced, cut off; its keys are matched loosely): whether there is a
        preference, the side, the answer and the reason. The last whole record counts, and a cut one only where none
        is whole (rules ``record``, ``cut_record``); records that contradict each other are ``contradictory``. Lines
        ``reason: ...``, ``settled: true`` count as a record (``list``). Else from a marker, with the rules of
        :meth:`Binary.parse`: ``[SAME]`` and ``[KEEP]`` are True, ``[DIFFERENT]`` and
        ``[REVISE]`` False. Where there is none of them, ``[Yes]`` or ``[No]`` counts in the last sentence or alone on
        its line, since debaters' answers may be yes or no, too.
    """
    read_from = [(record, judged) for record in records(text) if (judged := _judged(record, sides, read))]
    whole = [(record, judged) for record, judged in read_from if record.whole]
    if len({judged.consensus for _, judged in whole} - {None}) > 1:
        return abstained(Judged(), "contradictory")
    record, judged = (whole or read_from)[-1] if read_from else (None, Judged())
    # A record of answers, say, may have the decision beside it.
    marked = _marked(text)
    if record is not None and (judged.consensus is not None or marked.value is None):
        return found(judged, "record" if record.whole else "cut_record", record.span)
    lines = listed(text)
    in_lines = _judged(lines, sides, read) if marked.rule == "none" else None
    keys = {field.key for field in lines.fields}
    if in_lines and in_lines.consensus is not None and (len(keys) > 1 or "settled" in keys):
        return found(in_lines, "list", lines.span)
    value = replace(judged, consensus=marked.value)
    return Parsed(value=value, status=marked.status, rule=marked.rule, span=marked.span)


@windowed
def parse_side(text: str, sides: Sequence[str]) -> Parsed[str | None]:
    """The debater on the last line ``Side: NAME`` of an extraction (rule ``side``); None where it names no single one.

    Args:
        text: The reply, reasoning left out.
        sides: The debaters' names.
    """
    for line in reversed(list(_SIDE_LINE.finditer(text))):
        side = _side(line[1], sides)
        return found(side, "side", line.span(1)) if side else abstained(None)
    return abstained(None)


def _marked(text: str) -> Parsed[bool | None]:
    marked = _MARKER.parse(text)
    if marked.rule != "none":
        return marked
    said = _YES_NO.parse(text)
    closes = said.rule != "marker" or not said.span or said.span[0] >= last_sentence(text)
    return said if closes or (said.span and stands_alone(text, *said.span)) else abstained(None)


def _judged(record: Record, sides: Sequence[str], read: Callable[[str], str | None] | None) -> Judged | None:
    """What a record finds; None if it is about something else. Of a value that is cut off, only a reason counts."""
    consensus: bool | None = None
    side = answer = None
    reasons = [""]
    # The record's own fields come last, so that those of records inside it give way.
    for field in sorted(record.fields, key=lambda field: -field.depth):
        key, value = field.key, field.value
        if REASON_KEY.search(key):
            reasons.append(value)
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
    return Judged(consensus=consensus, side=side, answer=answer, reason=reasons[-1])


def _side(value: str, sides: Sequence[str]) -> str | None:
    names = named(value, sides)
    return names[0] if len(names) == 1 else None if names else sole_name(value, sides)


@windowed
def parse_grade(text: str) -> Parsed[bool | None]:
    """Whether a grader found an answer right: ``[True]`` or ``[False]``.

    Args:
        text: The reply, reasoning left out.

    Returns:
        True, False, or None where the reply settles on neither. Rules: those of :meth:`Binary.parse`.
    """
    return _GRADE.parse(text)
