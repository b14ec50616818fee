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


class WorkedExample(BaseModel):
    """One solved example of a task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    choices: tuple[str, ...] = ()
    reasoning: str
    """The steps that lead to the answer, without the answer itself."""
    answer: str

    @property
    def options(self) -> list[tuple[str, str]]:
        """The choices with their letters."""
        return lettered(self.choices)


class TaskPrompt(BaseModel):
    r"""The wording of one answer format. Templates reach it as ``task``.

    ``<<X>>`` in a text is the answer X, put into the variant's marker: ``[X]``, ``(X)`` or ``\\boxed{X}``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    noun: str
    """What the thing to answer is called at the end of a prompt: ``Question`` or ``Claim``."""
    format: str
    """The sentence that says how the final answer must be written."""
    examples: tuple[WorkedExample, ...] = Field(min_length=4)
    """Solved examples; most prompts show the first, few-shot ones the first four."""
    summary_example: str
    """A worked example of summarising, for the summary prompt."""

    def in_marker(self, marker: Marker) -> TaskPrompt:
        """The same wording with every ``<<X>>`` in a marker."""
        changed = {name: _marked_inside(getattr(self, name), marker) for name in ("format", "summary_example")}
        return self.model_copy(update=changed)


def task_prompt(name: str, marker: Marker) -> TaskPrompt:
    """The wording of the task called ``name``, from the shipped prompts, with answers in a marker."""
    return read_yaml(Path(asset("prompts", "tasks", f"{name}.yaml")), TaskPrompt).in_marker(marker)


def _marked_inside(text: str, marker: Marker) -> str:
    return re.sub(r"<<(.+?)>>", lambda found: marked(found.group(1), marker), text)
