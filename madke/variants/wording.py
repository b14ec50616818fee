"""How a task is asked for: ``prompts/tasks/<task>.yaml``, or what the task brings itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from madke.assets import asset
from madke.engine.parse import Marker, marked
from madke.tasks.base import Task
from madke.tasks.choice import lettered
from madke.yaml_file import read_yaml, validated


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Asked(_Entry):
    question: str
    choices: tuple[str, ...] = ()

    @property
    def options(self) -> list[tuple[str, str]]:
        """The choices with their letters."""
        return lettered(self.choices)


class Reasoned(_Entry):
    """A reply in a worked example."""

    reasoning: str
    """The steps that lead to the answer, without the answer itself."""
    answer: str


class WorkedExample(_Asked, Reasoned):
    """One solved example of a task."""


class ExampleDebate(_Asked):
    """What debaters say about a question, and what a summarizer makes of it."""

    replies: tuple[Reasoned, ...] = Field(min_length=2)
    summary: str
    """The summarizer's reasoning."""
    answer: str
    """The summarizer's answer."""


class TaskPrompt(_Entry):
    r"""The wording of one task. Templates reach it as ``task``.

    ``<<X>>`` in ``answering`` is the answer X, put into the variant's marker: ``[X]``, ``(X)`` or ``\\boxed{X}``.
    """

    noun: str
    """What stands before the thing to answer at the end of a prompt: ``Question`` or ``Claim``."""
    goal: str
    """What is to be done with it."""
    reasoning: str
    """Closing rule: how to reason."""
    citing: str
    """Closing rule: how to cite a passage."""
    answering: str
    """Closing rule: the form of the last line."""
    examples: tuple[WorkedExample, ...] = Field(min_length=2)
    """Solved examples; most prompts show the first, few-shot ones the first four."""
    agreeing: ExampleDebate
    """For judge and summarizer: debaters who give the same answer."""
    disagreeing: ExampleDebate
    """For judge and summarizer: debaters who give different answers."""

    def in_marker(self, marker: Marker) -> TaskPrompt:
        """The same wording with every ``<<X>>`` in a marker."""
        return self.model_copy(update={"answering": _marked_inside(self.answering, marker)})


def wording_of(task: Task | str, marker: Marker) -> TaskPrompt:
    """The wording of a task, with answers in a marker.

    Args:
        task: A task, whose attribute ``wording`` is taken where it has one: a mapping of the same keys and texts as a
            file ``prompts/tasks/<task>.yaml``. Else, and for a name, that file of the shipped prompts.
        marker: Of the protocol.

    Raises:
        UserError: There is no such file, or the wording lacks something.
    """
    name = task if isinstance(task, str) else task.name
    own = own_wording(task)
    if own is None:
        return _shipped(asset("prompts", "tasks", f"{name}.yaml")).in_marker(marker)
    return validated(own, TaskPrompt, file=f"the wording of task {name!r}").in_marker(marker)


def own_wording(task: Task | str) -> Mapping[str, Any] | None:
    """The wording that a task brings; None where it has none."""
    own: Mapping[str, Any] | None = getattr(task, "wording", None)
    return own


@cache
def _shipped(path: Path) -> TaskPrompt:
    return read_yaml(path, TaskPrompt)


def _marked_inside(text: str, marker: Marker) -> str:
    return re.sub(r"<<(.+?)>>", lambda found: marked(found.group(1), marker), text)
