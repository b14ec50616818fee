"""The schemas of a debate's stages. Stances without quotes, summaries of a debate so far and notes stay free text."""

from collections.abc import Sequence

from madke.core.question import Question
from madke.core.schema import Schema, SchemaField
from madke.engine.parse.bound import KEEP, NONE, OPEN, REVISE, SETTLED
from madke.engine.protocol import Protocol
from madke.tasks.base import Task
from madke.tasks.choice import lettered

_REASONING = SchemaField(name="reasoning", max_length=300)
"""Bounded: a small model never finishes a reasoning without an end."""
_MOST_QUOTES = 3
_LONGEST_ANSWER = 200
"""Characters, except for whole texts such as translations."""


def schema_of(
    stage: str, protocol: Protocol, task: Task, question: Question, shown: Sequence[int] = ()
) -> Schema | None:
    """The schema of a stage's reply, with ``shown`` the numbers of the passages in its prompt; None for free text.

    A selection that may also ask for a search stays free text, and so does an answer that is a whole reply.
    """
    match stage:
        case "select" if shown and not protocol.needs_search and protocol.knowledge is not None:
            most = protocol.knowledge.max_selected
            return _schema("selection", SchemaField(name="selected", numbers=tuple(shown), max_length=most))
        case "speak" | "reply" if shown and asks_for_quotes(protocol, task) and _answers_last(protocol):
            quotes = SchemaField(name="quotes", numbers=tuple(shown), with_texts=True, max_length=_MOST_QUOTES)
            return _schema("stance", quotes, _answer(task, question))
        case "reflect":
            return _schema("verdict", SchemaField(name="verdict", words=(KEEP, REVISE)))
        case "judge" if protocol.finish == "judge_extract":
            verdict = SchemaField(name="verdict", words=(SETTLED, OPEN))
            return _schema("verdict", verdict, _side(protocol), _answer(task, question, NONE))
        case "extract" if protocol.marker != "text":
            return _schema("answer", _side(protocol), _answer(task, question))
        case "summarize" if protocol.marker != "text":
            return _schema("answer", _answer(task, question))
    return None


def asks_for_quotes(protocol: Protocol, task: Task) -> bool:
    """Whether debaters with passages are asked to quote them."""
    return protocol.cite or task.cites


def _answers_last(protocol: Protocol) -> bool:
    """Whether a stance is reasons and then an answer: no text, no lone answer, and no confidence with it."""
    return protocol.marker not in ("text", "alone") and protocol.finish != "weighted"


def bound_roles(protocol: Protocol) -> tuple[str, ...]:
    """The roles with a stage that can have a schema."""
    stages = set(protocol.stages)
    is_bound = stages & {"select", "reflect"} or (protocol.cite and _answers_last(protocol))
    debaters = [debater.name for debater in protocol.cast] if is_bound else []
    judge = ["judge"] if stages & {"judge", "extract"} else []
    return (*debaters, *judge, *(["summarizer"] if "summarize" in stages else []))


def _schema(name: str, *fields: SchemaField) -> Schema:
    return Schema(name=name, fields=(_REASONING, *fields))


def _side(protocol: Protocol) -> SchemaField:
    return SchemaField(name="side", words=(*(debater.name for debater in protocol.cast), NONE))


def _answer(task: Task, question: Question, *more: str) -> SchemaField:
    """The answer: a letter or a label if there are few answers, else a text."""
    letters = tuple(letter for letter, _ in lettered(question.choices))
    words = letters or tuple(task.choices)
    if words and all(task.read(word, question) == word for word in words):
        return SchemaField(name="answer", words=(*words, *more))
    is_long = task.reads_whole_line
    return SchemaField(name="answer", max_length=None if is_long else _LONGEST_ANSWER)
