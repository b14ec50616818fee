"""How a task is asked for: ``prompts/tasks/<task>.yaml``."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from madke.assets import asset
from madke.variants.yaml_file import read_yaml


class TaskPrompt(BaseModel):
    """The wording of one answer format. Templates reach it as ``task``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    noun: str
    """What the thing to answer is called at the end of a prompt: ``Question`` or ``Claim``."""
    format: str
    """The sentence that says how the final answer must be written."""
    direct_example: str
    """The same example without reasoning, for prompts that ask for none."""
    answer_example: str
    """A worked example of answering, for the first speaking prompt."""
    summary_example: str
    """A worked example of summarising, for the summary prompt."""


def task_prompt(name: str) -> TaskPrompt:
    """The wording of the task called ``name``, from the shipped prompts."""
    return read_yaml(Path(asset("prompts", "tasks", f"{name}.yaml")), TaskPrompt)
