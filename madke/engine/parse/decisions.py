"""Read what a reply decides: passages, searches, quotes, verdicts, sides, picks, grades, confidences.

Names match whole words: ``AGENT_1`` does not match ``AGENT_10``. "Negative" means "Negative side". A reply that a JSON
schema binds is read strictly, since a server may have ignored the schema; all other text goes to the parsers of free
text. Stances without quotes, summaries of a debate so far and notes always stay free text.
"""

import json
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import eq
from typing import Any, NamedTuple

from madke.core.chat import Schema, SchemaField, writable
from madke.core.question import Question
from madke.core.transcript import Selection, Verdict
from madke.engine.parse.answer import IDS, AnswerReader, ids_of, numbers_in
from madke.engine.parse.grammar import (
    CONTEXT_WIDTH,
    MAX_MARKS,
    Mark,
    Parsed,
    Reader,
    has_word,
    is_placeholder,
    lead,
    line_before,
    nothing,
    outermost,
    parsed_at,
    sentences,
    settle,
    unwrap,
)
from madke.engine.parse.reply import (
    ANSWER_KEY,
    MAX_READ,
    NO_CONTEXT,
    QUOTED_LINE,
    REASON_KEY,
    FormRecord,
    ParseContext,
    Reply,
    gives_back,
    is_example,
    reading,
)
from madke.tasks.base import BaseTask, declines, with_letters

# Selections.

_MARKER = re.compile(rf"\[[^\[\]\n]{{1,80}}\]|\b(?=[kpeids]){IDS}", re.IGNORECASE)
_ASKED_LINE = re.compile(
    r"^[^\w\n]{0,9}(?:(?:my|the|final)\s+){0,2}select(?:ed|ions?)\b[^:\n]{0,40}:[*_]*\s{0,9}([^\n]*)", re.I | re.M
)
_NO_FOUND = re.compile(
    r"\[\W{0,9}no(?:t|ne)?\s{0,9}found\W{0,9}\]|^[^\w\n]{0,9}(?:no(?:t|ne)?\s+found|none)[^\w\n]{0,9}$"
    r"|\bi\s+do(?:\s+not|n['’]t)\s+need\s+(?:any\s+)?(?:of\s+the\s+)?(?:knowledge|passages?)\b"  # noqa: RUF001
    r"|\bno\s+(?:knowledge|passages?)\s+(?:(?:is|are)\s+)?(?:needed|helpful|relevant)\b",
    re.IGNORECASE | re.MULTILINE,
)
_NONE_WANTED = re.compile(r"\W*(?:none|no(?:t|ne)?\s+found)\b", re.IGNORECASE)
_CLAUSE_END = re.compile(r";\s|,\s+(?!(?:(?:and|or)\s+)?(?:\w+\s+)?[\[\d])|\b(?:but|while|whereas|although)\b", re.I)
_USELESS = re.compile(
    r"(?:\b(?:does|did|do|would)\s+not|n['’]t|\bneither|\bnor)(?!.{0,100}\bwithout)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:help|mention|contain|provide|answer|address|say|state|give|cover|relate|support|need|pick|choose|select|\[)"
    r"|\b(?:not|n['’]t)\s+(?:\w+\s+){0,2}?(?:relevant|helpful|useful|related|needed|about)\b"  # noqa: RUF001
    r"|\b(?:irrelevant|unrelated|unhelpful|useless|ignor(?:e|ed|ing))\b|\babout\s+(?:something|someone|an?other)\b",
    re.IGNORECASE,
)


@reading(sources=False)
def parse_selection(
    reply: Reply,
    *,
    size: int,
    limit: int,
    shown: Container[int] | None = None,
    context: ParseContext = NO_CONTEXT,
) -> Parsed[Selection]:
    """The pool numbers that a reply selects, among those ``shown`` (None: all) of a pool of ``size`` passages.

    Up to ``limit`` distinct numbers: those of the line "Selected: ..." or of a last line with only numbers (rule
    ``selected``), or none if the line declines (``no_found``). Without such a line, those of all sentences (``ids``),
    except in clauses that reject passages, unless the text declines all knowledge after them. If there are too many,
    those of the concluding sentence (``concluding``), else the first ones (``first``); the others are ``dropped``.
    """
    parsed = _selection(reply.text, [n for n in range(size) if shown is None or n in shown], limit)
    is_requested = parsed.rule in ("selected", "no_found")
    return nothing(Selection(), "copy") if not is_requested and gives_back(reply.whole, context) else parsed


def _selection(text: str, valid: Sequence[int], limit: int) -> Parsed[Selection]:
    named = list(_in_sentences(text, valid))
    on_lines = settle(text, list(_on_asked_lines(text, valid)), lambda one, other: set(one or ()) == set(other or ()))
    if on_lines is not None and on_lines.span is None:
        return nothing(Selection(), "contradictory")
    counted, rule = named, "ids"
    if on_lines is not None and on_lines.span:
        if not on_lines.value:
            return parsed_at(Selection(), "no_found", on_lines.span)
        counted, rule = [(on_lines.value, on_lines.span)], "selected"
    else:
        declined = [one.span() for one in _NO_FOUND.finditer(text)]
        if declined and not (named and named[-1][1] > declined[-1]):
            return parsed_at(Selection(), "no_found", declined[-1])
    if not counted:
        return nothing(Selection())
    mentioned = list(dict.fromkeys(n for ids, _ in counted for n in ids))
    chosen, (concluding, last) = mentioned[:limit], counted[-1]
    if len(mentioned) > limit:
        chosen, rule = (concluding[:limit], "concluding") if len(counted) > 1 else (chosen, "first")
    dropped = tuple(dict.fromkeys(n for ids, _ in [*counted, *named] for n in ids if n not in chosen))
    return parsed_at(Selection(ids=tuple(chosen), dropped=dropped), rule, last)


def _on_asked_lines(text: str, valid: Container[int]) -> Iterator[Mark[list[int]]]:
    """The numbers of each line in the requested form, or of a last line with only numbers; none if it declines."""
    lines = [line.span(1) for line in _ASKED_LINE.finditer(text)]
    end = len(text.rstrip())
    start = text.rfind("\n", 0, end) + 1
    if not lines and ids_of(text[start:end]):
        lines = [(start, end)]
    for start, end in lines:
        declines = _NONE_WANTED.match(text, start, end)
        ids = [] if declines else [n for n in numbers_in(text[start : min(end, start + CONTEXT_WIDTH)]) if n in valid]
        if ids or declines:
            yield Mark(value=ids, span=(start, end), rule="selected")


def _in_sentences(text: str, valid: Container[int]) -> Iterator[tuple[list[int], tuple[int, int]]]:
    for start, end in sentences(text):
        cuts = [start, *(cut.end() for cut in _CLAUSE_END.finditer(text, start, end)), end]
        clauses = [clause for clause in pairwise(cuts) if not _USELESS.search(text, *clause)]
        markers = [marker for clause in clauses for marker in _MARKER.finditer(text, *clause)]
        named = [(marker, n) for marker in markers for n in ids_of(marker[0]) if n in valid]
        if named:
            yield list(dict.fromkeys(n for _, n in named)), named[-1][0].span()


# Searches.

_SEARCH = re.compile(r"\s*search\s*:\s*", re.IGNORECASE)
_MAX_QUERY = 300


@reading()
def parse_searches(reply: Reply, *, limit: int, context: ParseContext = NO_CONTEXT) -> Parsed[tuple[str, ...]]:
    """The last ``limit`` distinct queries ``[Search: query]`` of a reply, in its order, each cut to 300 characters."""
    by_kind: dict[bool, list[str]] = {True: [], False: []}
    for start, end in reversed(outermost(reply.text)):
        marker = _SEARCH.match(reply.text, start + 1, end - 1)
        query = " ".join(reply.text[marker.end() : end - 1].split()).strip("\"'") if marker else ""
        if not is_placeholder(query):
            before = re.sub(r"\[[^\[\]]*\]", "", line_before(reply.text, start))
            by_kind[not has_word(before)].append(query[:_MAX_QUERY].rstrip())
    # The requested form is a line of its own.
    queries = list(dict.fromkeys(by_kind[True] or by_kind[False]))[:limit]
    return parsed_at(tuple(reversed(queries)), "marker", (0, len(reply.text))) if queries else nothing(())


# Quotes.

_SPAN = re.compile(
    '["\u201c\u201d](?P<double>[^"\u201c\u201d\n]{1,2000})["\u201d\u201c]|\u201e(?P<low>[^\u201e\u201c\u201d\n]{1,2000})[\u201c\u201d]'
    "|\u00ab(?P<angle>[^\u00ab\u00bb\n]{1,2000})\u00bb|\u300c(?P<corner>[^\u300c\u300d\n]{1,2000})\u300d"
)
_AFTER = re.compile(
    rf"[\s.,;:)]{{0,4}}(?:[(\[]\s*(?:[a-z]{{1,9}}\s+){{0,2}})?(?P<ids>\[[^\[\]\n]{{1,40}}\]|{IDS})", re.I
)
_NUMBERED = re.compile(r"\[[^\[\]\n]{1,40}\]|\b(?:passage|knowledge|document|source)s?\s+\[?\d{1,4}\b", re.I)
_MAX_QUOTES = 20


class Quoted(NamedTuple):
    """A text in quotation marks."""

    text: str
    passage: int | None
    """The number that stands next to it, shown or not; None if there is none."""


def parse_quotes(text: str) -> list[Quoted]:
    """The first 20 texts in quotation marks, each with the number of the passage that stands after it or before it."""
    text = QUOTED_LINE.sub(lambda line: " " * len(line[0]), text[-MAX_READ:])
    spans = list(_SPAN.finditer(text))[:_MAX_QUOTES]
    return [Quoted(span[span.lastgroup or 0].strip(), _passage(text, span)) for span in spans]


def _passage(text: str, span: re.Match[str]) -> int | None:
    if after := _AFTER.match(text, span.end()):
        return next(iter(ids_of(after["ids"])), None)
    rest = text[span.end() : span.end() + CONTEXT_WIDTH].split("\n", 1)[0].split(". ", 1)[0]
    near = [*reversed(_NUMBERED.findall(lead(text, span.start()))), *_NUMBERED.findall(rest)[:1]]
    return next((ids[0] for marker in near if (ids := ids_of(marker))), None)


# Verdicts.

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
        match = self._word.match(content)
        return None if match is None or match["more"] else bool(match["yes"])

    def read_statement(self, statement: str, *, is_label: bool) -> tuple[bool | None, str]:
        match = self._word.match(statement)
        return (bool(match["yes"]), "line") if match else (None, "none")

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
    marks, others = _SAME.marks(text), _YES.marks(text)
    lines = _SAME.conclusion(text, marks)
    judged = [(record, verdict) for record in reply.records if (verdict := _verdict_in(record, sides, read))]
    judged = [one for one in judged if one[0].whole] or judged
    decisive = [one for one in judged if one[1].consensus is not None]
    if lines is None and len({verdict.consensus for _, verdict in decisive}) > 1:
        return nothing(Verdict(consensus=None), "contradictory")
    record, verdict = (decisive or judged)[-1] if judged else (None, Verdict(consensus=None))
    if lines is None and record is not None and decisive:
        return parsed_at(verdict, "record" if record.whole else "cut_record", record.span)
    decided = lines or _SAME.last_mention(text, marks) or _YES.read(text, others) or nothing(None)
    if record is not None and decided.value is None:
        return parsed_at(verdict, "record" if record.whole else "cut_record", record.span)
    closes = record is not None and not has_word(text[record.span[1] :])
    value = replace(verdict if closes else Verdict(consensus=None), consensus=decided.value)
    return Parsed(value=value, status=decided.status, rule=decided.rule, span=decided.span)


def _verdict_in(record: FormRecord, sides: Sequence[str], read: Callable[[str], str | None] | None) -> Verdict | None:
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
            side = names.read_statement(value, is_label=True)[0]
        elif ANSWER_KEY.search(key):
            answer = value.strip() if read is None else read(unwrap(value))
    if consensus is None and side is None and answer is None:
        return None
    return Verdict(consensus=consensus, side=side, answer=answer, reason=reason)


@reading()
def parse_grade(reply: Reply, *, context: ParseContext = NO_CONTEXT) -> Parsed[bool | None]:
    """Whether a grader found an answer right: a line or a marker ``[True]`` or ``[False]``."""
    return _TRUE.read(reply.text, _TRUE.marks(reply.text)) or nothing(None)


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

    def read_statement(self, statement: str, *, is_label: bool) -> tuple[str | None, str]:
        match = self._begins.match(statement)
        name = self.value(match["name"] if match else statement)
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
    marks = [mark for mark in names.marks(reply.text) if mark.rule == "stated"]
    return names.conclusion(reply.text, marks) or nothing(None)


@reading()
def parse_pick(reply: Reply, names: Sequence[str], *, context: ParseContext = NO_CONTEXT) -> Parsed[str | None]:
    """The debater that a judge picks: one of ``names``, or None."""
    text = reply.text
    reader = _Names(names, r"(?:final\s+)?(?:winner|winning\s+\w+|pick|choice|verdict|decision|vote)")
    wins = rf"{reader.mention}\W{{0,3}}(?:side\s+)?(?:wins|won|(?:is|has|gave|makes)\s+the\s+(?:winner|best|better))\b"
    marks = reader.marks(text)
    for win in list(re.finditer(wins, text, re.IGNORECASE))[-MAX_MARKS:]:
        if name := reader.value(win["name"]):
            marks.append(Mark(value=name, span=win.span("name"), rule="stated", rank="cue"))
    return reader.read(text, sorted(marks, key=lambda mark: mark.span[1])) or nothing(None)


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
    """The confidence that a reply states, 0 .. 1: "Confidence: 0.8", "80%", "8/10" and "80% sure" are 0.8."""
    text = reply.text
    stated = list(_CONFIDENCE.finditer(text))[-MAX_MARKS:]
    lines = [one for one in stated if not has_word(line_before(text, one.start()))]
    marks: list[Mark[float]] = []
    for one in stated:
        number = float((one["number"] or one["sure"]).replace(",", "."))
        total = float(one["total"] or (100 if one["share"] or one["sure"] else 1))
        value = number / total if total and 0 <= number <= total else None
        marks.append(Mark(value=value, span=one.span(), rule="stated"))
    parsed = settle(text, marks, eq) or nothing(None)
    if parsed.status == "contradictory" and lines:
        parsed = settle(text, [one for one in marks if one.span in [line.span() for line in lines]], eq) or parsed
    return nothing(None, "out_of_range") if parsed.value is None and parsed.status == "ok" else parsed


# Replies that are bound by a JSON schema.

RULE = "schema"
"""The rule of a reading from a bound reply."""
MAX_REPLY = 20_000
"""Characters of the longest reply that is read as one."""
NONE = "none"
"""The word for no debater, and for no answer yet."""
KEEP, REVISE = "KEEP", "REVISE"
SETTLED, OPEN = "SETTLED", "OPEN"
_POSITIVE = (KEEP, SETTLED)
_MARKS = {
    ('"', '"'): {*'"\u201c\u201d'},
    ("\u00ab", "\u00bb"): {*"\u00ab\u00bb"},
    ("\u300c", "\u300d"): {*"\u300c\u300d"},
}
"""Quotation marks, and the characters that a text inside them cannot have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundReply:
    """The values of a bound reply; those that its schema does not have are empty."""

    reasoning: str = ""
    quotes: tuple[Quoted, ...] | None = None
    """What a stance quotes."""
    selected: tuple[int, ...] | None = None
    verdict: str = ""
    side: str = ""
    answer: str | None = None

    @property
    def text(self) -> str:
        """The reply as people read it."""
        lines = []
        for quote in self.quotes or ():  # with its passage, in marks that it does not contain
            text = " ".join(quote.text.split())
            marks = next((pair for pair, barred in _MARKS.items() if barred.isdisjoint(text)), ('"', '"'))
            lines.append(f"{text.join(marks)} [{quote.passage}].")
        lines.append(self.reasoning.strip())
        if self.selected is not None:
            lines.append(f"Selected: {' '.join(f'[{n}]' for n in self.selected) or NONE}")
        lines += [f"Verdict: {self.verdict}"] if self.verdict else []
        lines += [f"Side: {self.side}"] if self.side else []
        if self.answer is not None:
            # A stance ends as in free text.
            lines.append(f"Answer: {self.answer}" if self.quotes is None else f"The answer is {self.answer}.")
        return "\n".join(filter(None, lines))


def read_bound(text: str, schema: Schema) -> BoundReply | None:
    """The values of a reply of this schema; None for any other text."""
    if len(text) > MAX_REPLY:
        return None
    try:
        # A repeated field is no value of its schema.
        value = json.loads(
            text, object_pairs_hook=lambda pairs: part if len(part := dict(pairs)) == len(pairs) else None
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.keys() != {each.name for each in schema.fields}:
        return None
    kept: dict[str, Any] = {}
    for field in schema.fields:
        part = value[field.name]
        if field.numbers is None:
            if not isinstance(part, str) or (field.words and part not in field.words):
                return None
            kept[field.name] = writable(part)
            continue
        if not isinstance(part, list) or not all(_is_item(each, field.with_texts, field.numbers) for each in part):
            return None
        if field.with_texts:
            part = [Quoted(writable(each["text"]), each["passage"]) for each in part if each["text"].strip()]
        kept[field.name] = tuple(dict.fromkeys(part))
    return BoundReply(**kept)


def _is_item(value: Any, with_text: bool, numbers: Sequence[int]) -> bool:
    if not with_text:
        return type(value) is int and value in numbers
    is_record = isinstance(value, dict) and value.keys() == {"passage", "text"} and isinstance(value["text"], str)
    return is_record and _is_item(value["passage"], False, numbers)


def bound_selection(reply: BoundReply, limit: int) -> Parsed[Selection]:
    """The selected numbers, up to ``limit``; the others are ``dropped``."""
    numbers = reply.selected or ()
    selection = Selection(ids=numbers[:limit], dropped=numbers[limit:])
    return Parsed(value=selection, status="ok", rule=RULE if numbers else "no_found")


def bound_verdict(reply: BoundReply, task: BaseTask, question: Question) -> Parsed[Verdict]:
    """The verdict; with side, answer and reason if the schema has a side."""
    consensus = reply.verdict in _POSITIVE
    verdict = Verdict(consensus=consensus)
    if reply.answer is not None:
        answer = _read(reply.answer, task, question) if consensus and reply.answer != NONE else None
        verdict = Verdict(consensus=consensus, side=bound_side(reply), answer=answer, reason=reply.reasoning)
    return Parsed(value=verdict, status="ok", rule=RULE)


def bound_side(reply: BoundReply) -> str | None:
    """The debater that it names."""
    return reply.side if reply.side not in ("", NONE) else None


def bound_answer(reply: BoundReply, task: BaseTask, question: Question, context: ParseContext) -> Parsed[str | None]:
    """The final answer. A declining text, a placeholder and an example of the request are none."""
    raw = reply.answer or ""
    answer = _read(raw, task, question)
    if answer is None:
        content = unwrap(raw)
        is_given_back = bool(content.strip()) and is_placeholder(content)
        return nothing(None, "declined" if declines(content) else "placeholder" if is_given_back else "none")
    return nothing(None, "example") if is_example(answer, context) else parsed_at(answer, RULE, (0, len(raw)))


def _read(raw: str, task: BaseTask, question: Question) -> str | None:
    raw = raw.strip()
    # A full stop after emphasis would hide it.
    return AnswerReader(task, question).value(raw[:-1] if raw.endswith(("*.", "_.", "`.")) else raw)


# The schemas of the stages.

_REASONING = SchemaField(name="reasoning", max_length=300)
"""Bounded: a small model never finishes a reasoning without an end."""
_QUOTES_OF_STANCE = 3
_MAX_ANSWER = 200
"""Characters, except for whole texts such as translations."""


def selection_schema(limit: int, shown: Sequence[int]) -> Schema | None:
    """The numbers of at most ``limit`` of the passages shown."""
    if not shown:
        return None
    return _schema("selection", SchemaField(name="selected", numbers=tuple(shown), max_length=limit))


def stance_schema(task: BaseTask, question: Question, shown: Sequence[int]) -> Schema | None:
    """Quotes of the passages shown, then the answer."""
    if not shown:
        return None
    quotes = SchemaField(name="quotes", numbers=tuple(shown), with_texts=True, max_length=_QUOTES_OF_STANCE)
    return _schema("stance", quotes, _answer(task, question))


def review_schema() -> Schema:
    """Whether to keep or to revise a stance."""
    return _schema("verdict", SchemaField(name="verdict", words=(KEEP, REVISE)))


def verdict_schema(task: BaseTask, question: Question, sides: Sequence[str]) -> Schema:
    """Whether the debate is settled, the side that the judge supports, and the answer."""
    verdict = SchemaField(name="verdict", words=(SETTLED, OPEN))
    return _schema("verdict", verdict, _side(sides), _answer(task, question, NONE))


def answer_schema(task: BaseTask, question: Question, sides: Sequence[str] = ()) -> Schema:
    """The answer, after the side that the judge supports if there are ``sides``."""
    return _schema("answer", *([_side(sides)] if sides else []), _answer(task, question))


def _schema(name: str, *fields: SchemaField) -> Schema:
    return Schema(name=name, fields=(_REASONING, *fields))


def _side(sides: Sequence[str]) -> SchemaField:
    return SchemaField(name="side", words=(*sides, NONE))


def _answer(task: BaseTask, question: Question, *more: str) -> SchemaField:
    """The answer: a letter or a label if there are few answers, else a text."""
    letters = tuple(letter for letter, _ in with_letters(question.choices))
    words = letters or tuple(task.choices)
    if words and all(task.read(word, question) == word for word in words):
        return SchemaField(name="answer", words=(*words, *more))
    is_long = task.reads_whole_line
    return SchemaField(name="answer", max_length=None if is_long else _MAX_ANSWER)
