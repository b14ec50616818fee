"""The wording of a task."""

from functools import cache

from pydantic import BaseModel, Field

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml


class _Example(BaseModel, extra="forbid", frozen=True):
    question: str
    choices: tuple[str, ...] = ()
    reasoning: str
    """The steps to the answer, without the answer itself."""
    answer: str


class TaskPrompt(BaseModel, extra="forbid", frozen=True):
    """The wording of one task, from ``prompts/tasks/<task>.yaml`` or the task itself; ``task`` in templates."""

    noun: str
    """The label of the question in a prompt: ``Question`` or ``Claim``."""
    goal: str = ""
    """What to do, in one sentence, if the question does not say it."""
    form: str = ""
    """How to write the answer, in one sentence; part of every prompt that asks for an answer."""
    reasoning: str
    """How to reason, in sentences of which the last one states the answer."""
    answer: str
    """What the last sentence gives: ``the letter of the correct option``."""
    is_prose: bool = False
    """Whether the whole reply is the answer, a text whose sentences cite; then ``reasoning`` and ``answer`` are not
    shown."""
    examples: tuple[_Example, ...] = Field(min_length=2)
    """Shown by protocols with ``examples``, as earlier turns of the chat."""


@cache
def task_prompt(name: str) -> TaskPrompt:
    """The wording of a task that madke has."""
    return read_yaml(asset("prompts", "tasks", f"{name}.yaml"), TaskPrompt)
