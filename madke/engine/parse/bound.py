"""Replies that are bound by a JSON schema: how they are read, and the schemas of the stages.

Stances without quotes, summaries of a debate so far and notes stay free text. A bound reply is read strictly, since a
server may have ignored the schema; all other text goes to the parsers of free text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from madke.core.chat import writable
from madke.core.question import Question
from madke.core.schema import Schema, SchemaField
from madke.core.transcript import Selection, Verdict
from madke.engine.parse.answer import AnswerReader
from madke.engine.parse.grammar import Parsed, is_placeholder, nothing, parsed_at, unwrap
from madke.engine.parse.passages import Quoted
from madke.engine.parse.reply import ParseContext, is_example
from madke.tasks.answer_text import declines
from madke.tasks.base import BaseTask
from madke.tasks.choice import lettered

RULE = "schema"
"""The rule of a reading from a bound reply."""
LONGEST_REPLY = 20_000
"""Characters of the longest reply that is read as one."""
NONE = "none"
"""The word for no debater, and for no answer yet."""
SAME, DIFFERENT = "SAME", "DIFFERENT"
KEEP, REVISE = "KEEP", "REVISE"
SETTLED, OPEN = "SETTLED", "OPEN"
_TRUE = (SAME, KEEP, SETTLED)
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
        lines = [*map(_in_marks, self.quotes or ()), self.reasoning.strip()]
        if self.selected is not None:
            lines.append(f"Selected: {' '.join(f'[{n}]' for n in self.selected) or NONE}")
        lines += [f"Verdict: {self.verdict}"] if self.verdict else []
        lines += [f"Side: {self.side}"] if self.side else []
        if self.answer is not None:
            # A stance ends as in free text.
            lines.append(f"Answer: {self.answer}" if self.quotes is None else f"The answer is {self.answer}.")
        return "\n".join(filter(None, lines))


def _in_marks(quote: Quoted) -> str:
    """A quote with its passage, as the parser of free text reads it: in marks that it does not contain."""
    text = " ".join(quote.text.split())
    first, last = next((pair for pair, barred in _MARKS.items() if barred.isdisjoint(text)), ('"', '"'))
    return f"{first}{text}{last} [{quote.passage}]."


def read_bound(text: str, schema: Schema) -> BoundReply | None:
    """The values of a reply of this schema; None for any other text."""
    if len(text) > LONGEST_REPLY:
        return None
    try:
        value = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.keys() != {each.name for each in schema.fields}:
        return None
    if not all(_fits(value[each.name], each) for each in schema.fields):
        return None
    return BoundReply(**{name: _kept(each) for name, each in value.items()})


def _without_repetition(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(fields)) < len(fields):
        raise ValueError("a field stands twice")
    return dict(fields)


def _fits(value: Any, field: SchemaField) -> bool:
    if field.numbers is not None:
        return isinstance(value, list) and all(_is_item(each, field.with_texts, field.numbers) for each in value)
    return isinstance(value, str) and (not field.words or value in field.words)


def _is_item(value: Any, with_text: bool, numbers: Sequence[int]) -> bool:
    if not with_text:
        return type(value) is int and value in numbers
    is_record = isinstance(value, dict) and value.keys() == {"passage", "text"} and isinstance(value["text"], str)
    return is_record and _is_item(value["passage"], False, numbers)


def _kept(value: Any) -> Any:
    if isinstance(value, str):
        return writable(value)
    if any(isinstance(each, dict) for each in value):
        value = [Quoted(writable(each["text"]), each["passage"]) for each in value if each["text"].strip()]
    return tuple(dict.fromkeys(value))


def bound_selection(reply: BoundReply, limit: int) -> Parsed[Selection]:
    """The selected numbers, up to ``limit``; the others are ``dropped``."""
    numbers = reply.selected or ()
    selection = Selection(ids=numbers[:limit], dropped=numbers[limit:])
    return Parsed(value=selection, status="ok", rule=RULE if numbers else "no_found")


def bound_verdict(reply: BoundReply, task: BaseTask, question: Question) -> Parsed[Verdict]:
    """The verdict; with side, answer and reason if the schema has a side."""
    consensus = reply.verdict in _TRUE
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
_MOST_QUOTES = 3
_LONGEST_ANSWER = 200
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
    quotes = SchemaField(name="quotes", numbers=tuple(shown), with_texts=True, max_length=_MOST_QUOTES)
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
    letters = tuple(letter for letter, _ in lettered(question.choices))
    words = letters or tuple(task.choices)
    if words and all(task.read(word, question) == word for word in words):
        return SchemaField(name="answer", words=(*words, *more))
    is_long = task.reads_whole_line
    return SchemaField(name="answer", max_length=None if is_long else _LONGEST_ANSWER)
