"""How a task is asked for: ``prompts/tasks/<task>.yaml``."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from madke.assets import asset
from madke.engine.marker import marked
from madke.engine.parse import Marker
from madke.tasks.choice import lettered
from madke.yaml_file import read_yaml


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
    examples: tuple[WorkedExample, ...] = Field(min_length=4)
    """Solved examples; most prompts show the first, few-shot ones the first four."""
    agreeing: ExampleDebate
    """For judge and summarizer: debaters who give the same answer."""
    disagreeing: ExampleDebate
    """For judge and summarizer: debaters who give different answers."""

    def in_marker(self, marker: Marker) -> TaskPrompt:
        """The same wording with every ``<<X>>`` in a marker."""
        return self.model_copy(update={"answering": _marked_inside(self.answering, marker)})


def task_prompt(name: str, marker: Marker) -> TaskPrompt:
    """The wording of the task called ``name``, from the shipped prompts, with answers in a marker."""
    return read_yaml(Path(asset("prompts", "tasks", f"{name}.yaml")), TaskPrompt).in_marker(marker)


def _marked_inside(text: str, marker: Marker) -> str:
    return re.sub(r"<<(.+?)>>", lambda found: marked(found.group(1), marker), text)
