"""What a task is."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Protocol

from madke.core.errors import UserError, unknown
from madke.core.question import Question


class Task(Protocol):
    """An answer format. ``prompts/tasks/<name>.yaml`` holds how it is asked for.

    ``same`` is reflexive and symmetric, so that answers can be put into groups; ``accepts`` need be neither.
    """

    name: str
    metrics: tuple[str, ...]
    """Names of the metrics that score it (:mod:`madke.scoring.metrics`); the first is "correct or not"."""

    def read(self, raw: str, question: Question) -> str | None:
        """The answer in its canonical form, from the text inside a marker; None if that is no answer."""
        ...

    def same(self, left: str, right: str) -> bool:
        """Whether two canonical answers agree: the matcher behind agreement and votes."""
        ...

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether a canonical answer is right: the same as any gold, unless a task knows more about its golds."""
        return any(self.same(answer, gold) for gold in question.answers)

    def check(self, question: Question) -> str | None:
        """What is wrong with a question of this task as the dataset states it; None if nothing.

        Raises:
            UserError: The task needs a package that is not installed.
        """
        ...


def require(package: str, task: str) -> None:
    """Say early, before anything is paid for, that a task cannot be scored here.

    Raises:
        UserError: The package is not installed.
    """
    if find_spec(package) is None:
        raise UserError(f"the task {task!r} needs {package}, which is not installed: pip install 'madke[tasks]'")


def get_task(name: str) -> Task:
    """The task of that name.

    Raises:
        UserError: There is none; the message suggests the nearest name.
    """
    from madke.tasks import TASKS

    try:
        return TASKS[name]
    except KeyError:
        raise unknown("task", name, TASKS) from None
