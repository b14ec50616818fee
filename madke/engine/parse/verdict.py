"""Parse verdicts: a marker such as ``[SAME]``, a record with side, reason and answer, or a debater's name.

Names match whole words: ``AGENT_1`` does not match ``AGENT_10``. "Negative" means "Negative side".
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from madke.core.transcript import Verdict
from madke.engine.parse import context
from madke.engine.parse.context import Parsed, Reader, T, nothing, parsed_at, windowed
from madke.engine.parse.echo import NOTHING_ASKED, Asked
from madke.engine.parse.forms import ANSWER_KEY, REASON_KEY, FormRecord, closing_records, key_value_lines
from madke.engine.parse.quotation import unquoted

_ADDED = re.compile(r"\b(?:the|side|team|debater|agent|speaker|number)\b", re.IGNORECASE)
_STATED = (
    r"\b(?:winner|winning\s+\w+|(?:my|final|the)\s+(?:pick|choice|verdict|decision|vote))\b[^.\n]{0,60}?"
    r"(?:\b(?:is|goes\s+to)\b|:)\W{0,9}(?:the\s+)?%s",
    r"\bi\s+(?:(?:would|will|therefore)\s+)?(?:pick|choose|select|prefer|vote\s+for)\W+(?:the\s+)?%s",
    r"%s\W{0,3}(?:side\s+)?(?:wins|won|is\s+the\s+winner|(?:has|gave|makes)\s+the\s+(?:best|better|strongest))\b",
)


@windowed
def parse_pick(text: str, names: Sequence[str], *, asked: Asked = NOTHING_ASKED) -> Parsed[str | None]:
    """The debater that a judge picks: one of ``names``, or None.

    A name in brackets counts if it is the only one (rule ``marker``) or the last is alone on its line (``alone``); else
    the name called the winner (``stated``), or a reply that is only a name (``bare``). Several names without a
    conclusion are ``contradictory``.
    """
    text = unquoted(text)
    if picks := _bracketed(text, names) or _stated(text, names):
        return _settled(text, picks, "marker" if text[picks[0][1][0]] == "[" else "stated")
    only = _sole_name(text, names)
    return parsed_at(only, "bare", (0, len(text))) if only else nothing(None)


def _bracketed(text: str, names: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    picks = []
    for start, end in context.outermost(text):
        content = context.unwrap(text[start + 1 : end - 1])
        name = None if content.isdigit() else _sole_name(content, names)  # A number is a citation.
        if name and context.standing(text, start, end) in ("stated", "plain"):
            picks.append((name, (start, end)))
    return picks


def _stated(text: str, names: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    picks = []
    for pattern in _STATED if names else ():
        for match in list(re.finditer(pattern % _mention(names), text, re.IGNORECASE))[-context.MOST :]:
            picked = _sole_name(match.group(1), names)
            picks += [(picked, match.span(1))] if picked else []
    return sorted(picks, key=lambda pick: pick[1])


def _mention(names: Sequence[str]) -> str:
    forms = {*names, *(core for name in names if len(core := _core(name)) > 2 and not any(map(str.isdigit, core)))}
    return rf"(?<!\w)({'|'.join(map(re.escape, sorted(forms, key=lambda name: (-len(name), name))))})(?!\w)"


def _sole_name(text: str, names: Sequence[str]) -> str | None:
    """The name that a short text consists of, with or without "the", "side" or "debater"; None for other text."""
    core = _core(text)
    same = [name for name in names if core and core == _core(name)]
    return same[0] if len(same) == 1 else None


def _core(text: str) -> str:
    if len(text) > 200:
        return ""
    words = text.replace("_", " ").lower()
    core = " ".join(re.findall(r"[\w.-]+", _ADDED.sub(" ", words))).strip(".- ")
    return core or " ".join(words.split())


def _settled(text: str, marks: Sequence[tuple[T, tuple[int, int]]], rule: str) -> Parsed[T | None]:
    """The value of all marks if they agree; else the last one's if it is alone on its line and a marker or a name."""
    value, span = marks[-1]
    if len({one for one, _ in marks}) == 1:
        return parsed_at(value, rule, span)
    is_alone = rule != "labelled" and context.stands_alone(text, *span)
    return parsed_at(value, "alone", span) if is_alone else nothing(None, "contradictory")


_LABEL = r"(?:(?:final|my|the|overall)\s+){0,3}(?:answer|verdict|grade|judge?ment|decision|conclusion)"
_QUOTED = re.compile(
    r"\b(?:both|all|each|gold|reference)\b(?:(?!\b(?:same|agree|so)\b)[^.,\n]){0,40}\b(?:answers?|say)\W*(?:is\W*)?\Z",
    re.IGNORECASE,
)
_ASKS_WHETHER = re.compile(r"^(?:whether|is|are|has|have|do|does|did)\b")
_SETTLED_KEY = re.compile(
    r"\b(?:preference|settled|consensus|agree(?:d|ment)?|verdict|decision|resolved|conclusive|consistent|same)\b"
)
_SIDE_KEY = re.compile(r"\b(?:side|supported|winner|preferred|debater)\b")
_SIDE_LINE = re.compile(r"^[^\w\n]{0,9}side[*_]{0,3}:([^\n]{1,200})", re.IGNORECASE | re.MULTILINE)
_YES_OR_NO = re.compile(r"\W*(?:(yes|true|1(?=\W*\Z))|no|false|0(?=\W*\Z))\b(?!\s*(?:or\b|/|\|))", re.IGNORECASE)


@windowed
def parse_verdict(
    text: str,
    *,
    sides: Sequence[str] = (),
    read: Callable[[str], str | None] | None = None,
    asked: Asked = NOTHING_ASKED,
) -> Parsed[Verdict]:
    """The verdict of a judge, or of a debater on its own stance, from a record or a marker.

    ``sides`` are the debaters' names. ``read`` is the task's reader for a record's answer; None keeps the text.

    The last line decides if it is only a verdict: "Verdict: [SAME]" or ``DIFFERENT`` (with the rules of
    :func:`_binary`). Next is a record (JSON or a Python dict, fenced or cut off; keys are matched loosely) that is the
    reply or its last block. It gives the decision, the side, the answer and the reason. The last complete record
    counts, or a cut one if none is complete (rules ``record``, ``cut_record``, ``contradictory``). Then come lines such
    as ``settled: true`` (``list``), and markers: ``[SAME]`` and ``[KEEP]`` are True, ``[DIFFERENT]`` and ``[REVISE]``
    False; last come ``[Yes]`` and ``[No]`` in the last sentence or alone on their line.
    """
    as_written, text = text, unquoted(text)
    read_from = [(record, judged) for record in closing_records(as_written) if (judged := _judged(record, sides, read))]
    whole = [(record, judged) for record, judged in read_from if record.whole]
    if len({judged.consensus for _, judged in whole} - {None}) > 1:
        return nothing(Verdict(consensus=None), "contradictory")
    record, judged = (whole or read_from)[-1] if read_from else (None, Verdict(consensus=None))
    # A record without the decision, such as one of answers, may come with a marker.
    before = _last_line(text[: read_from[0][0].span[0]]) if read_from else None
    marked = before or _last_line(text) or _marked(text)
    if record is not None and before is None and (judged.consensus is not None or marked.value is None):
        return parsed_at(judged, "record" if record.whole else "cut_record", record.span)
    lines = key_value_lines(text)
    in_lines = _judged(lines, sides, read) if marked.rule == "none" else None
    keys = {field.key for field in lines.fields}
    if in_lines and in_lines.consensus is not None and (len(keys) > 1 or "settled" in keys):
        return parsed_at(in_lines, "list", lines.span)
    value = replace(judged, consensus=marked.value)
    return Parsed(value=value, status=marked.status, rule=marked.rule, span=marked.span)


@windowed
def parse_side(text: str, sides: Sequence[str], *, asked: Asked = NOTHING_ASKED) -> Parsed[str | None]:
    """The debater that the last line ``Side: NAME`` of an extraction names (rule ``side``)."""
    lines = list(_SIDE_LINE.finditer(unquoted(text)))
    side = _side(lines[-1][1], sides) if lines else None
    return parsed_at(side, "side", lines[-1].span(1)) if side else nothing(None)


def _last_line(text: str) -> Parsed[bool | None] | None:
    """The verdict of a last line that is nothing else; None for other lines."""
    start = text.rfind("\n", 0, len(text.rstrip())) + 1
    line = re.match(
        rf"[^\w\n]{{0,9}}(?:{_LABEL}[^\w\n]{{0,9}}[:=])?[^\w\n]{{0,9}}(?:(?P<yes>same|keep)|different|revise)\W*\Z",
        text[start:],
        re.IGNORECASE,
    )
    return None if line is None else parsed_at(bool(line["yes"]), "last_line", (start, len(text.rstrip())))


def _marked(text: str) -> Parsed[bool | None]:
    marked = _binary(text, "same|keep", "different|revise", may_be_quoted=False)
    if marked.rule != "none":
        return marked
    yes_or_no = _binary(text, "yes", "no")
    closes = yes_or_no.span is None or yes_or_no.rule != "marker" or yes_or_no.span[0] >= context.last_sentence(text)
    return yes_or_no if closes or (yes_or_no.span and context.stands_alone(text, *yes_or_no.span)) else nothing(None)


def _binary(text: str, yes: str, no: str, *, may_be_quoted: bool = True) -> Parsed[bool | None]:
    """One of two values in brackets (rule ``marker``), in a line "Verdict: yes" (``labelled``), or alone (``bare``).

    If both values occur, the last counts if it is alone on its line or the whole conclusion (``alone``); else they are
    ``contradictory``.
    """
    word = rf"(?:(?P<yes>{yes})|{no})"
    for rule, pattern in (
        ("marker", rf"\[\W{{0,9}}{word}\W{{0,9}}\]"),
        ("labelled", rf"^[^\w\n]{{0,9}}{_LABEL}[^\w\n]{{0,9}}[:=][^\w\n]{{0,9}}{word}[^\w\n]*$"),
        ("bare", rf"\A\W*{word}\W*\Z"),
    ):
        matches = list(re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE))[-context.MOST :]
        own = [one for one in matches if rule != "marker" or _counts(text, *one.span(), may_be_quoted)]
        if own:
            return _settled(text, [(bool(one["yes"]), one.span()) for one in own], rule)
        if matches:
            break
    return nothing(None)


def _counts(text: str, start: int, end: int, may_be_quoted: bool) -> bool:
    what = context.standing(text, start, end)
    is_quoted = what == "quoted" or _QUOTED.search(context.text_before(text, start))
    return what != "none" and not (may_be_quoted and is_quoted)


def _judged(record: FormRecord, sides: Sequence[str], read: Callable[[str], str | None] | None) -> Verdict | None:
    """The verdict in a record; None if it holds none. Values that are cut off are ignored, except reasons."""
    consensus: bool | None = None
    side = answer = None
    reasons = [""]
    # The record's own fields come last, so that they override those of nested records.
    for field in sorted(record.fields, key=lambda field: -field.depth):
        key, value = field.key, field.value
        if REASON_KEY.search(key):
            reasons.append(value)
        elif not field.whole or context.is_placeholder(value):
            continue
        elif _ASKS_WHETHER.search(key) or (_SETTLED_KEY.search(key) and not ANSWER_KEY.search(key)):
            decision = _YES_OR_NO.match(value)
            consensus = bool(decision.group(1)) if decision else consensus
        elif _SIDE_KEY.search(key):
            side = _side(value, sides)
        elif ANSWER_KEY.search(key):
            answer = value.strip() if read is None else Reader(read)(value)
    if consensus is None and side is None and answer is None:
        return None
    return Verdict(consensus=consensus, side=side, answer=answer, reason=reasons[-1])


def _side(value: str, sides: Sequence[str]) -> str | None:
    mentions = re.findall(_mention(sides), value, re.IGNORECASE) if sides else []
    names = {name for one in mentions if (name := _sole_name(one, sides))}
    return _sole_name(value, sides) if not names else names.pop() if len(names) == 1 else None


@windowed
def parse_grade(text: str, *, asked: Asked = NOTHING_ASKED) -> Parsed[bool | None]:
    """Whether a grader found an answer right, ``[True]`` or ``[False]``, with the rules of :func:`_binary`."""
    return _binary(unquoted(text), "true", "false")
