"""The schemas of a debate's stages. Stances without quotes, summaries of a debate so far and notes stay free text."""

from collections.abc import Sequence

from madke.core.question import Question
from madke.core.schema import Schema, SchemaField
from madke.engine.parse.bound import KEEP, NONE, OPEN, REVISE, SETTLED
from madke.engine.settings import Settings
from madke.tasks.base import Task
from madke.tasks.choice import lettered

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


def stance_schema(task: Task, question: Question, shown: Sequence[int]) -> Schema | None:
    """Quotes of the passages shown, then the answer."""
    if not shown:
        return None
    quotes = SchemaField(name="quotes", numbers=tuple(shown), with_texts=True, max_length=_MOST_QUOTES)
    return _schema("stance", quotes, _answer(task, question))


def review_schema() -> Schema:
    """Whether to keep or to revise a stance."""
    return _schema("verdict", SchemaField(name="verdict", words=(KEEP, REVISE)))


def verdict_schema(task: Task, question: Question, sides: Sequence[str]) -> Schema:
    """Whether the debate is settled, the side that the judge supports, and the answer."""
    verdict = SchemaField(name="verdict", words=(SETTLED, OPEN))
    return _schema("verdict", verdict, _side(sides), _answer(task, question, NONE))


def answer_schema(task: Task, question: Question, sides: Sequence[str] = ()) -> Schema:
    """The answer, after the side that the judge supports if there are ``sides``."""
    return _schema("answer", *([_side(sides)] if sides else []), _answer(task, question))


def asks_for_quotes(settings: Settings, task: Task) -> bool:
    """Whether debaters with passages are asked to quote them."""
    return settings.cite or task.cites


def _schema(name: str, *fields: SchemaField) -> Schema:
    return Schema(name=name, fields=(_REASONING, *fields))


def _side(sides: Sequence[str]) -> SchemaField:
    return SchemaField(name="side", words=(*sides, NONE))


def _answer(task: Task, question: Question, *more: str) -> SchemaField:
    """The answer: a letter or a label if there are few answers, else a text."""
    letters = tuple(letter for letter, _ in lettered(question.choices))
    words = letters or tuple(task.choices)
    if words and all(task.read(word, question) == word for word in words):
        return SchemaField(name="answer", words=(*words, *more))
    is_long = task.reads_whole_line
    return SchemaField(name="answer", max_length=None if is_long else _LONGEST_ANSWER)
