"""What a task is, and what an own one needs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any, NotRequired, Protocol, TypedDict

from madke.core.errors import UserError
from madke.core.question import Question
from madke.tasks.answer_text import bare, declines


class Example(TypedDict):
    """A solved example, as prompts show it."""

    question: str
    reasoning: str
    """The steps that lead to the answer, without the answer itself."""
    answer: str
    choices: NotRequired[Sequence[str]]


class Task(Protocol):
    """An answer format: what every task must have. :class:`BaseTask` adds what it may have.

    ``same`` is reflexive and symmetric, so that answers can be put into groups; ``accepts`` need be neither.
    """

    name: str
    instructions: str
    """What prompts say of the form of an answer. Empty for our own: ``prompts/tasks/<name>.yaml`` says it."""
    examples: Sequence[Example]
    """At least two solved examples with different answers; few-shot prompts show the first four."""

    def read(self, text: str, question: Question) -> str | None:
        """The answer in its canonical form, from the text inside a marker; None if that is no answer."""

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether two canonical answers to a question agree: the matcher behind agreement and votes."""

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether a canonical answer is right."""


class BaseTask:
    """A task to inherit from: it needs a name, instructions and examples; the rest has defaults.

    For example::

        class Colour(madke.BaseTask):
            name = "colour"
            instructions = "Answer with one of: red, green, blue."
            choices = ("red", "green", "blue")
            examples = (
                {"question": "Which colour has grass?", "reasoning": "Leaves hold chlorophyll.", "answer": "green"},
                {"question": "Which colour has blood?", "reasoning": "It carries iron.", "answer": "red"},
            )
    """

    name: str
    instructions: str = ""
    examples: Sequence[Example] = ()
    metrics: Sequence[Any] = ("match",)
    """Metrics: names (:data:`madke.scoring.metrics.METRICS`, or ``module:object``), those of :func:`madke.metric`, or
    functions of answer and question. The first is "correct or not"."""
    choices: Sequence[str] = ()
    """The only answers there are, where that does not depend on the question."""
    reads_last_number: bool = False
    """Whether answers are numbers or expressions: then a number in brackets cites nothing, and the last number of a
    reply counts where it marks no answer."""

    def read(self, text: str, question: Question) -> str | None:
        """The text without marks around it, or a choice in the task's own spelling; None if it is no answer."""
        answer = bare(text)
        if self.choices:
            return next((choice for choice in self.choices if choice.casefold() == answer.casefold()), None)
        return answer if answer and not declines(answer) else None

    def same(self, a: str, b: str, question: Question) -> bool:
        """Equal but for case."""
        return a.casefold() == b.casefold()

    def accepts(self, answer: str, question: Question) -> bool:
        """The same as any gold."""
        return any(self.same(answer, gold, question) for gold in question.answers)

    def check(self, question: Question) -> str | None:
        """What is wrong with a question of this task as the dataset states it; None if nothing."""
        wrong = [answer for answer in question.answers if self.choices and answer not in self.choices]
        return f"golden answer {wrong[0]!r} of a {self.name} is not one of {', '.join(self.choices)}" if wrong else None

    @cached_property
    def wording(self) -> Mapping[str, Any] | None:
        """What prompts say, with the keys of ``prompts/tasks/<name>.yaml``; None for our own, which has that file."""
        if not self.instructions:
            return None
        first = self.examples[0]
        other = next(example for example in self.examples if example["answer"] != first["answer"])
        asked = {"question": first["question"], "choices": tuple(first.get("choices", ())), "answer": first["answer"]}
        right = {"reasoning": first["reasoning"], "answer": first["answer"]}
        return {
            "noun": "Question",
            "goal": "Answer the question at the end.",
            "reasoning": "Reason step by step.",
            "citing": "Cite passages as Knowledge 0, without square brackets.",
            "answering": f"{self.instructions}\nFor example: The answer is <<{first['answer']}>>.\n"
            "Your last line: The answer is <<answer>>.",
            "examples": tuple(self.examples),
            "agreeing": {
                **asked,
                "replies": (right, {"reasoning": "I come to the same result.", "answer": first["answer"]}),
                "summary": "Both debaters give the same answer.",
            },
            "disagreeing": {
                **asked,
                "replies": ({"reasoning": "I am not sure, so this is a guess.", "answer": other["answer"]}, right),
                "summary": "The debaters disagree. Debater 1 guesses. Debater 2 gives reasons.",
            },
        }


class _Completed(BaseTask):
    """Somebody's task that inherits nothing of ours, with the defaults for what it leaves out."""

    def __init__(self, task: Task) -> None:
        for name in dir(task):
            if not name.startswith("_"):
                setattr(self, name, getattr(task, name))


_REQUIRED = ("name", "instructions", "examples", "read", "same", "accepts")


def completed(name: str, value: Any) -> BaseTask:
    """Somebody's task, or class of a task, with defaults for what it leaves out; UserError if it is none."""
    task = value() if isinstance(value, type) else value
    if missing := [part for part in _REQUIRED if not getattr(task, part, None)]:
        raise UserError(f"task {name!r} lacks {missing[0]!r}; a task needs {', '.join(_REQUIRED)}")
    for example in task.examples:
        if lacking := {"question", "reasoning", "answer"}.difference(example):
            raise UserError(f"task {name!r}: an example lacks {min(lacking)!r}; found {example!r}")
    if len({example["answer"] for example in task.examples}) < 2:
        raise UserError(f"task {name!r}: expected at least two examples with different answers")
    return task if isinstance(task, BaseTask) else _Completed(task)


def is_task_here(name: str) -> bool:
    """Whether ``module:object`` is a task, or the class of one, in a module that has been imported."""
    module, _, path = name.partition(":")
    value: Any = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    return all(hasattr(value, part) for part in _REQUIRED)


def require(package: str, task: str) -> None:
    """Say early, before anything is paid for, that a task cannot be scored here."""
    if find_spec(package) is None:
        raise UserError(f"the task {task!r} needs {package}, which is not installed: pip install 'madke[tasks]'")
