"""Read what judges and debaters decide: verdicts, sides, picks, grades, confidences.

Names match whole words: ``AGENT_1`` does not match ``AGENT_10``. "Negative" means "Negative side".
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import eq

from madke.core.transcript import Verdict
from madke.engine.parse.grammar import (
    MOST,
    Mark,
    Parsed,
    Reader,
    concluded,
    has_word,
    is_placeholder,
    line_before,
    marks,
    mentioned,
    nothing,
    parsed_at,
    settle,
    unwrap,
)
from madke.engine.parse.reply import ANSWER_KEY, NO_CONTEXT, REASON_KEY, FormRecord, ParseContext, Reply, reading

_YES_OR_NO = re.compile(r"\W*(?:(yes|true|1(?=\W*\Z))|no|false|0(?=\W*\Z))\b(?!\s*(?:or\b|/|\|))", re.IGNORECASE)
_ASKS_WHETHER = re.compile(r"^(?:whether|is|are|has|have|do|does|did)\b")
_SETTLED_KEY = re.compile(
    r"\b(?:preference|settled|consensus|agree(?:d|ment)?|verdict|decision|resolved|conclusive|consistent|same)\b"
)
_SIDE_KEY = re.compile(r"\b(?:side|supported|winner|preferred|debater)\b")


class _Words(Reader[bool]):
    """The reader of two words, one of which stands for yes."""

    nouns = r"(?:(?:final|overall)\s+){0,2}(?:answer|verdict|grade|judge?ment|decision|conclusion)"

    def __init__(self, yes: str, no: str, *, at_end: bool = False) -> None:
        self._word = re.compile(rf"\W*(?:(?P<yes>{yes})|{no})(?:\W*\Z|(?P<more>[.,;:!]\s))", re.IGNORECASE)
        self._at_end = at_end

    def value(self, content: str) -> bool | None:
        found = self._word.match(content)
        return None if found is None or found["more"] else bool(found["yes"])

    def stated(self, said: str, *, is_label: bool) -> tuple[bool | None, str]:
        found = self._word.match(said)
        return (bool(found["yes"]), "line") if found else (None, "none")

    def offers(self, text: str, span: tuple[int, int], closing: int) -> bool:
        return span[0] >= closing or not self._at_end


_SAME = _Words("same|keep", "different|revise")
_YES = _Words("yes", "no", at_end=True)
"""Answers can be yes or no, too; a verdict ends the reply."""
_TRUE = _Words("true", "false")


@reading()
def parse_verdict(
    reply: Reply,
    *,
    sides: Sequence[str] = (),
    read: Callable[[str], str | None] | None = None,
    context: ParseContext = NO_CONTEXT,
) -> Parsed[Verdict]:
    """The verdict of a judge, or of a debater on its own stance.

    ``sides`` are the debaters' names. ``read`` reads a record's answer; None keeps the text.

    Lines such as "Verdict: SAME", ``[DIFFERENT]`` or ``KEEP`` decide first. Next is a record (JSON or a Python dict,
    fenced or cut off; keys are matched loosely) that begins a line: it gives the decision, the side, the
    answer and the reason (rules ``record``, ``cut_record``). Then come markers inside sentences, and last ``[Yes]`` and
    ``[No]``.
    """
    text = reply.outside(reply.text)
    found, others = marks(text, _SAME), marks(text, _YES)
    lines = concluded(text, found, _SAME)
    judged = [(record, verdict) for record in reply.records if (verdict := _judged(record, sides, read))]
    judged = [one for one in judged if one[0].whole] or judged
    decisive = [one for one in judged if one[1].consensus is not None]
    if lines is None and len({verdict.consensus for _, verdict in decisive}) > 1:
        return nothing(Verdict(consensus=None), "contradictory")
    record, verdict = (decisive or judged)[-1] if judged else (None, Verdict(consensus=None))
    if lines is None and record is not None and decisive:
        return parsed_at(verdict, "record" if record.whole else "cut_record", record.span)
    decided = (
        lines
        or mentioned(text, found, _SAME)
        or concluded(text, others, _YES)
        or mentioned(text, others, _YES)
        or nothing(None)
    )
    if record is not None and decided.value is None:
        return parsed_at(verdict, "record" if record.whole else "cut_record", record.span)
    closes = record is not None and not has_word(text[record.span[1] :])
    value = replace(verdict if closes else Verdict(consensus=None), consensus=decided.value)
    return Parsed(value=value, status=decided.status, rule=decided.rule, span=decided.span)


def _judged(record: FormRecord, sides: Sequence[str], read: Callable[[str], str | None] | None) -> Verdict | None:
    """The verdict in a record; None if it holds none. Values that are cut off are ignored, except reasons."""
    consensus: bool | None = None
    side = answer = None
    reason = ""
    names = _Names(sides)
    # The record's own fields come last, so that they override those of nested records.
    for field in sorted(record.fields, key=lambda field: -field.depth):
        key, value = field.key, field.value
        if REASON_KEY.search(key):
            reason = value
        elif not field.whole or is_placeholder(value):
            continue
        elif _ASKS_WHETHER.search(key) or (_SETTLED_KEY.search(key) and not ANSWER_KEY.search(key)):
            decision = _YES_OR_NO.match(value)
            consensus = bool(decision.group(1)) if decision else consensus
        elif _SIDE_KEY.search(key):
            side = names.stated(value, is_label=True)[0]
        elif ANSWER_KEY.search(key):
            answer = value.strip() if read is None else read(unwrap(value))
    if consensus is None and side is None and answer is None:
        return None
    return Verdict(consensus=consensus, side=side, answer=answer, reason=reason)


@reading()
def parse_grade(reply: Reply, *, context: ParseContext = NO_CONTEXT) -> Parsed[bool | None]:
    """Whether a grader found an answer right: a line or a marker ``[True]`` or ``[False]``."""
    found = marks(reply.text, _TRUE)
    return concluded(reply.text, found, _TRUE) or mentioned(reply.text, found, _TRUE) or nothing(None)


_ADDED = re.compile(r"\b(?:the|side|team|debater|agent|speaker|number)\b", re.IGNORECASE)


class _Names(Reader[str]):
    """The reader of one of several names."""

    def __init__(self, names: Sequence[str], nouns: str = "side") -> None:
        self._names, self.nouns = names, nouns
        forms = {*names, *(core for name in names if len(core := _core(name)) > 2 and not re.search(r"\d", core))}
        anyone = "|".join(map(re.escape, sorted(forms, key=lambda name: (-len(name), name)))) or r"(?!)"
        self.mention = rf"(?<!\w)(?P<name>{anyone})(?!\w)"
        self._begins = re.compile(rf"\W*(?:the\s+)?{self.mention}(?!\W*(?:side\s+)?(?:or|and)\b)", re.IGNORECASE)

    def value(self, content: str) -> str | None:
        """The name that a short text consists of, with or without "the", "side" or "debater"."""
        core = _core(unwrap(content))
        same = [name for name in self._names if core and core == _core(name)]
        return same[0] if len(same) == 1 else None

    def stated(self, said: str, *, is_label: bool) -> tuple[str | None, str]:
        found = self._begins.match(said)
        name = self.value(found["name"] if found else said)
        return name, "stated" if name else "none"

    def offers(self, text: str, span: tuple[int, int], closing: int) -> bool:
        return not text[slice(*span)].strip("[]").isdigit()  # A number is a citation.


def _core(text: str) -> str:
    if len(text) > 200:
        return ""
    words = text.replace("_", " ").lower()
    core = " ".join(re.findall(r"[\w.-]+", _ADDED.sub(" ", words))).strip(".- ")
    return core or " ".join(words.split())


@reading()
def parse_side(reply: Reply, sides: Sequence[str], *, context: ParseContext = NO_CONTEXT) -> Parsed[str | None]:
    """The debater that the line ``Side: NAME`` of an extraction names (rule ``stated``)."""
    names = _Names(sides)
    found = [mark for mark in marks(reply.text, names) if mark.rule == "stated"]
    return concluded(reply.text, found, names) or nothing(None)


@reading()
def parse_pick(reply: Reply, names: Sequence[str], *, context: ParseContext = NO_CONTEXT) -> Parsed[str | None]:
    """The debater that a judge picks: one of ``names``, or None.

    A name in brackets or alone on a line of its own decides, or one that is called the winner at its beginning; else
    the last one that is called so inside a sentence, or the one in brackets.
    """
    text = reply.text
    reader = _Names(names, r"(?:final\s+)?(?:winner|winning\s+\w+|pick|choice|verdict|decision|vote)")
    wins = rf"{reader.mention}\W{{0,3}}(?:side\s+)?(?:wins|won|(?:is|has|gave|makes)\s+the\s+(?:winner|best|better))\b"
    found = marks(text, reader)
    for win in list(re.finditer(wins, text, re.IGNORECASE))[-MOST:]:
        if name := reader.value(win["name"]):
            found.append(Mark(value=name, span=win.span("name"), rule="stated", rank="cue"))
    found.sort(key=lambda mark: mark.span[1])
    return concluded(text, found, reader) or mentioned(text, found, reader) or nothing(None)


_CONFIDENCE = re.compile(
    r"\bconfidence(?:\s+(?:level|score|rating|value))?(?:\s+(?:in|that|for)\s+[^.:\n]{0,60}?)?"
    r"(?:\s?\([^()\n]{0,60}\))?[\s*_`\"']{0,9}(?:is|of|at|=|:)?[\s*_`\"'\[(:~]{0,9}"
    r"(?P<number>-?(?:\d{1,9}(?:[.,]\d{1,20})?|\.\d{1,20}))"
    r"\s?(?P<share>%|percent\b|(?:/|out\s+of)\s?(?P<total>\d{1,4}))?(?!\s?[-\u2013]\s?\d|[\w/]|[.,]\d)"
    r"|(?<![\w.,/-])(?P<sure>\d{1,3}(?:\.\d{1,6})?)\s?(?:%|percent)\s+(?:confident|sure|certain)\b",
    re.IGNORECASE,
)


@reading()
def parse_confidence(reply: Reply, *, context: ParseContext = NO_CONTEXT) -> Parsed[float | None]:
    """The confidence that a reply states, 0 .. 1: "Confidence: 0.8", "80%", "8/10" and "80% sure" are 0.8.

    Lines that begin with it decide first. None if it is not stated or out of range (rule ``out_of_range``).
    """
    text = reply.text
    stated = list(_CONFIDENCE.finditer(text))[-MOST:]
    lines = [one for one in stated if not has_word(line_before(text, one.start()))]
    found = [Mark(value=_share(one), span=one.span(), rule="stated") for one in stated]
    parsed = settle(text, found, eq) or nothing(None)
    if parsed.status == "contradictory" and lines:
        parsed = settle(text, [one for one in found if one.span in [line.span() for line in lines]], eq) or parsed
    return nothing(None, "out_of_range") if parsed.value is None and parsed.status == "ok" else parsed


def _share(stated: re.Match[str]) -> float | None:
    number = float((stated["number"] or stated["sure"]).replace(",", "."))
    total = float(stated["total"] or (100 if stated["share"] or stated["sure"] else 1))
    return number / total if total and 0 <= number <= total else None
