"""What a task is."""

from __future__ import annotations

from typing import Protocol

from madke.core.errors import unknown
from madke.core.question import Question


class Task(Protocol):
    """An answer format. ``prompts/tasks/<name>.yaml`` holds how it is asked for."""

    name: str
    metrics: tuple[str, ...]
    """Names of the metrics that score it (:mod:`madke.scoring.metrics`); the first is "correct or not"."""

    def read(self, raw: str, question: Question) -> str | None:
        """The answer in its canonical form, from the text inside a marker; None if that is no answer."""
        ...

    def same(self, left: str, right: str) -> bool:
        """Whether two canonical answers agree: the matcher behind agreement and votes."""
        ...

    def check(self, question: Question) -> str | None:
        """What is wrong with a question of this task as the dataset states it; None if nothing."""
        ...


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
