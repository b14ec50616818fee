"""Answer formats: how to read an answer, when two answers are the same, and which metrics score them."""

import json
import sys
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from madke.core.errors import UserError
from madke.core.registry import Registry
from madke.tasks.base import REQUIRED, BaseTask, as_task
from madke.tasks.choice import Choice, Claim
from madke.tasks.math import Math
from madke.tasks.short_answer import ShortAnswer
from madke.tasks.texts import AnswerList, Text, Translation

_OWN: tuple[BaseTask, ...] = (ShortAnswer(), Claim(), Choice(), Math(), Translation(), Text(), AnswerList())

TASKS: Registry[BaseTask] = Registry("task", {task.name: task for task in _OWN}, adapt=as_task)
"""Task name -> task. ``--task`` looks up names here; a name ``module:object`` is imported."""


def get_task(name: str) -> BaseTask:
    """The task that a question or a transcript names. Data files are not trusted, so this imports no new code.

    A task ``module:object`` must be an object of the run, have been named by the user before, or be in a module that
    is already imported.
    """
    module, _, path = name.partition(":")
    value: Any = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    if ":" in name and name not in TASKS and not all(hasattr(value, part) for part in REQUIRED):
        remedy = f"if you trust it, give --task {name} (in Python: import it, or use the Run that has it)"
        raise UserError(f"task {name!r} is code that only a file names; {remedy}")
    return TASKS[name]


def code_of(names: Iterable[str]) -> dict[str, str]:
    """Task name -> the name and a fingerprint of its wording, for tasks that are not built in."""
    return {
        name: f"{name}#{sha256(json.dumps(get_task(name).wording, default=str).encode()).hexdigest()[:12]}"
        for name in sorted(set(names))
        if ":" in name
    }


__all__ = ["TASKS", "BaseTask", "code_of", "get_task"]
