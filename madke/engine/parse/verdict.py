"""Read what judges and debaters decide: verdicts, sides, picks, grades, confidences.

Names match whole words: ``AGENT_1`` does not match ``AGENT_10``. "Negative" means "Negative side".
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import eq

from madke.core.transcript import Verdict
from madke.engine.parse.context import (
    MOST,
    NO_CONTEXT,
    Conclusion,
    ParseContext,
    Parsed,
    T,
    last_sentence,
    line_end,
    nothing,
    outermost,
    parsed_at,
    settle,
)
from madke.engine.parse.markers import is_placeholder, standing, stands_alone, unwrap
from madke.engine.parse.own_words import unquoted, windowed, without
from madke.engine.parse.records import ANSWER_KEY, REASON_KEY, FormRecord, key_value_lines, own_records, records

_DECIDES = r"(?:answer|verdict|grade|judge?ment|decision|conclusion)"
_LABEL = rf"(?:(?:so|thus|therefore|hence),?\s+)?(?:(?:final|my|the|our|overall)\s+){{0,3}}{_DECIDES}"
_YES_OR_NO = re.compile(r"\W*(?:(yes|true|1(?=\W*\Z))|no|false|0(?=\W*\Z))\b(?!\s*(?:or\b|/|\|))", re.IGNORECASE)
_ASKS_WHETHER = re.compile(r"^(?:whether|is|are|has|have|do|does|did)\b")
_SETTLED_KEY = re.compile(
    r"\b(?:preference|settled|consensus|agree(?:d|ment)?|verdict|decision|resolved|conclusive|consistent|same)\b"
)
_SIDE_KEY = re.compile(r"\b(?:side|supported|winner|preferred|debater)\b")
_SIDE_LINE = re.compile(r"^[^\w\n]{0,9}side[*_]{0,3}:([^\n]{1,200})", re.IGNORECASE | re.MULTILINE)
_REPORTED = re.compile(
    r"\b(?:both|all|each|gold|reference)\b(?:(?!\b(?:same|agree|so)\b)[^.,\n]){0,40}\b(?:answers?|say)\W*(?:is\W*)?\Z",
    re.IGNORECASE,
)


@windowed
def parse_verdict(
    text: str,
    *,
    sides: Sequence[str] = (),
    read: Callable[[str], str | None] | None = None,
    context: ParseContext = NO_CONTEXT,
) -> Parsed[Verdict]:
    """The verdict of a judge, or of a debater on its own stance.

    ``sides`` are the debaters' names. ``read`` reads a record's answer; None keeps the text.

    Lines such as "Verdict: SAME", ``[DIFFERENT]`` or ``KEEP`` decide first. Next is a record (JSON or a Python dict,
    fenced or cut off; keys are matched loosely) that begins a line: it gives the decision, the side, the answer and
    the reason (rules ``record``, ``cut_record``). Then come lines such as ``settled: true`` (``list``), markers inside
    sentences (``marker``), and last ``[Yes]`` and ``[No]``.
    """
    own = unquoted(text)
    judged = [(record, found) for record in own_records(text) if (found := _judged(record, sides, read))]
    own = without(own, (record.span for record in records(text)))
    lines = _lines(own, "same|keep", "different|revise")
    whole = [one for one in judged if one[0].whole] or judged
    decisive = [one for one in whole if one[1].consensus is not None]
    record, verdict = (decisive or whole)[-1] if judged else (None, Verdict(consensus=None))
    if lines is None and record is not None and verdict.consensus is not None:
        if len({found.consensus for _, found in decisive}) > 1:
            return nothing(Verdict(consensus=None), "contradictory")
        return parsed_at(verdict, "record" if record.whole else "cut_record", record.span)
    listed = key_value_lines(own)
    in_lines = _judged(listed, sides, read)
    keys = {field.key for field in listed.fields}
    if lines is None and in_lines and in_lines.consensus is not None and (len(keys) > 1 or "settled" in keys):
        return parsed_at(in_lines, "list", listed.span)
    decided = lines or _marked(own, "same|keep", "different|revise") or _yes_or_no(own) or nothing(None)
    if record is not None and decided.value is None:
        return parsed_at(verdict, "record" if record.whole else "cut_record", record.span)
    closes = record is not None and not re.search(r"\w", text[record.span[1] :])
    value = replace(verdict if closes else Verdict(consensus=None), consensus=decided.value)
    return Parsed(value=value, status=decided.status, rule=decided.rule, span=decided.span)


@windowed
def parse_grade(text: str, *, context: ParseContext = NO_CONTEXT) -> Parsed[bool | None]:
    """Whether a grader found an answer right: a line or a marker ``[True]`` or ``[False]``."""
    text = unquoted(text)
    return _lines(text, "true", "false") or _marked(text, "true", "false") or nothing(None)


def _lines(text: str, yes: str, no: str) -> Parsed[bool | None] | None:
    """The value of the lines that hold nothing else, "Verdict: [SAME]" or ``DIFFERENT``, if they agree."""
    line = re.compile(
        rf"^[^\w\n\[]{{0,9}}(?:{_LABEL}[^\w\n\[]{{0,9}}(?:[:=]|\bis\b:?)?)?[^\w\n]{{0,9}}(?:(?P<yes>{yes})|{no})[^\w\n]*$"
        rf"|(?<=[.!?])[ \t]{{1,9}}{_LABEL}[^\w\n]{{0,9}}(?:[:=]|\bis\b:?)[^\w\n]{{0,9}}"
        rf"(?:(?P<also>{yes})|{no})\b(?!\s*(?:or|/))",
        re.IGNORECASE | re.MULTILINE,
    )
    found: list[Conclusion[bool | None]] = [
        Conclusion(
            value=bool(one["yes"] or one["also"]), span=one.span(), rule="line", is_final="final" in one[0].lower()
        )
        for one in list(line.finditer(text))[-MOST:]
    ]
    return settle(text, found, eq, None)


def _marked(text: str, yes: str, no: str) -> Parsed[bool | None] | None:
    """One of two values in brackets inside sentences; if both occur, the last one if it is alone or a conclusion."""
    word = rf"(?:(?P<yes>{yes})|{no})"
    marks = list(re.finditer(rf"\[\W{{0,9}}{word}\W{{0,9}}\]", text, re.IGNORECASE))[-MOST:]
    own = [one for one in marks if standing(text, *one.span()) != "none"]
    if yes in ("true", "yes"):
        own = [one for one in own if not _REPORTED.search(text[max(0, one.start() - 200) : one.start()])]
    return _settled(text, [(bool(one["yes"]), one.span()) for one in own], "marker") if own else None


def _yes_or_no(text: str) -> Parsed[bool | None] | None:
    found = _lines(text, "yes", "no") or _marked(text, "yes", "no")
    if found is None or found.span is None or found.rule == "line":
        return found
    return found if found.span[0] >= last_sentence(text) or stands_alone(text, *found.span) else None


def _settled(text: str, marks: Sequence[tuple[T, tuple[int, int]]], rule: str) -> Parsed[T | None]:
    """The value of all marks if they agree; else the last one's if it is alone on its line or a conclusion."""
    value, span = marks[-1]
    if len({one for one, _ in marks}) == 1:
        return parsed_at(value, rule, span)
    return parsed_at(value, "alone", span) if stands_alone(text, *span) else nothing(None, "contradictory")


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
        elif not field.whole or is_placeholder(value):
            continue
        elif _ASKS_WHETHER.search(key) or (_SETTLED_KEY.search(key) and not ANSWER_KEY.search(key)):
            decision = _YES_OR_NO.match(value)
            consensus = bool(decision.group(1)) if decision else consensus
        elif _SIDE_KEY.search(key):
            side = _side(value, sides)
        elif ANSWER_KEY.search(key):
            answer = value.strip() if read is None else read(unwrap(value))
    if consensus is None and side is None and answer is None:
        return None
    return Verdict(consensus=consensus, side=side, answer=answer, reason=reasons[-1])


@windowed
def parse_side(text: str, sides: Sequence[str], *, context: ParseContext = NO_CONTEXT) -> Parsed[str | None]:
    """The debater that the line ``Side: NAME`` of an extraction names (rule ``side``)."""
    lines = list(_SIDE_LINE.finditer(unquoted(text)))
    named = [(side, line.span(1)) for line in lines if (side := _side(line[1], sides))]
    found: list[Conclusion[str | None]] = [Conclusion(value=side, span=span, rule="side") for side, span in named]
    return settle(text, found, eq, None) or nothing(None)


_ADDED = re.compile(r"\b(?:the|side|team|debater|agent|speaker|number)\b", re.IGNORECASE)
_STATED = (
    r"\b(?:winner|winning\s+\w+|(?:my|final|the)\s+(?:pick|choice|verdict|decision|vote))\b[^.\n]{0,60}?"
    r"(?:\b(?:is|goes\s+to)\b|:)\W{0,9}(?:the\s+)?%s",
    r"\bi\s+(?:(?:would|will|therefore)\s+)?(?:pick|choose|select|prefer|vote\s+for)\W+(?:the\s+)?%s",
    r"%s\W{0,3}(?:side\s+)?(?:wins|won|is\s+the\s+winner|(?:has|gave|makes)\s+the\s+(?:best|better|strongest))\b",
)


@windowed
def parse_pick(text: str, names: Sequence[str], *, context: ParseContext = NO_CONTEXT) -> Parsed[str | None]:
    """The debater that a judge picks: one of ``names``, or None.

    Names in brackets on lines of their own decide (rule ``alone``), else those in brackets (``marker``), else the name
    called the winner (``stated``), or a reply that is only a name (``bare``).
    """
    text = unquoted(text)
    bracketed, stated = list(_bracketed(text, names)), _stated(text, names)
    lines = [(pick, "alone") for pick in bracketed if _has_line(text, pick[1])]
    lines += [(pick, "stated") for pick in stated if _begins_line(text, pick[1])]
    lines.sort(key=lambda line: line[0][1])
    found: list[Conclusion[str | None]] = [Conclusion(value=name, span=span, rule=rule) for (name, span), rule in lines]
    if found:
        return settle(text, found, eq, None) or nothing(None)
    if picks := bracketed or stated:
        return _settled(text, picks, "marker" if bracketed else "stated")
    only = _sole_name(text, names)
    return parsed_at(only, "bare", (0, len(text))) if only else nothing(None)


def _has_line(text: str, span: tuple[int, int]) -> bool:
    start = text.rfind("\n", 0, span[0]) + 1
    return not re.search(r"\w", text[start : span[0]] + text[span[1] : line_end(text, span[1])])


def _begins_line(text: str, span: tuple[int, int]) -> bool:
    line = text[text.rfind("\n", 0, span[0]) + 1 : span[0]]
    return bool(
        re.fullmatch(
            r"[^\w\n]*(?:(?:the|my|final)\s+)*(?:winner|pick|choice|verdict|decision|vote)\W*(?:is\W*)?", line, re.I
        )
    )


def _bracketed(text: str, names: Sequence[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    for start, end in outermost(text):
        content = unwrap(text[start + 1 : end - 1])
        name = None if content.isdigit() else _sole_name(content, names)  # A number is a citation.
        if name and standing(text, start, end) != "none":
            yield name, (start, end)


def _stated(text: str, names: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    picks = []
    for pattern in _STATED if names else ():
        for match in list(re.finditer(pattern % _mention(names), text, re.IGNORECASE))[-MOST:]:
            picked = _sole_name(match.group(1), names)
            picks += [(picked, match.span(1))] if picked else []
    return sorted(picks, key=lambda pick: pick[1])


def _side(value: str, sides: Sequence[str]) -> str | None:
    mentions = re.findall(_mention(sides), value, re.IGNORECASE) if sides else []
    names = {name for one in mentions if (name := _sole_name(one, sides))}
    return _sole_name(value, sides) if not names else names.pop() if len(names) == 1 else None


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


_CONFIDENCE = re.compile(
    r"\bconfidence(?:\s+(?:level|score|rating|value))?(?:\s+(?:in|that|for)\s+[^.:\n]{0,60}?)?"
    r"(?:\s?\([^()\n]{0,60}\))?[\s*_`\"']{0,9}(?:is|of|at|=|:)?[\s*_`\"'\[(:~]{0,9}"
    r"(?P<number>-?(?:\d{1,9}(?:[.,]\d{1,20})?|\.\d{1,20}))"
    r"\s?(?P<share>%|percent\b|(?:/|out\s+of)\s?(?P<total>\d{1,4}))?(?!\s?[-\u2013]\s?\d|[\w/]|[.,]\d)"
    r"|(?<![\w.,/-])(?P<sure>\d{1,3}(?:\.\d{1,6})?)\s?(?:%|percent)\s+(?:confident|sure|certain)\b",
    re.IGNORECASE,
)


@windowed
def parse_confidence(text: str, *, context: ParseContext = NO_CONTEXT) -> Parsed[float | None]:
    """The confidence that a reply states, 0 .. 1: "Confidence: 0.8", "80%", "8/10" and "80% sure" are 0.8.

    Lines that begin with it decide first. None if it is not stated or out of range (rule ``out_of_range``).
    """
    text = unquoted(text)
    stated = list(_CONFIDENCE.finditer(text))[-MOST:]
    lines = [one for one in stated if not re.search(r"\w", text[text.rfind("\n", 0, one.start()) + 1 : one.start()])]
    found = [Conclusion(value=_share(one), span=one.span(), rule="stated") for one in stated]
    parsed = settle(text, found, eq, None) or nothing(None)
    if parsed.status == "contradictory" and lines:
        parsed = settle(text, [one for one in found if one.span in [line.span() for line in lines]], eq, None) or parsed
    return nothing(None, "out_of_range") if parsed.value is None and parsed.status == "ok" else parsed


def _share(stated: re.Match[str]) -> float | None:
    number = float((stated["number"] or stated["sure"]).replace(",", "."))
    total = float(stated["total"] or (100 if stated["share"] or stated["sure"] else 1))
    return number / total if total and 0 <= number <= total else None
