"""Answer formats: how an answer is read from a reply, when two are the same, and which metrics score it."""

import json
from collections.abc import Iterable
from hashlib import sha256

from madke.core.errors import UserError
from madke.core.registry import Registry
from madke.tasks.base import BaseTask, Example, Task, completed, is_task_here
from madke.tasks.choice import Choice, Claim
from madke.tasks.math import Math
from madke.tasks.short_answer import ShortAnswer
from madke.tasks.translation import Translation

_OWN: tuple[BaseTask, ...] = (ShortAnswer(), Claim(), Choice(), Math(), Translation())

TASKS: Registry[BaseTask] = Registry("task", {task.name: task for task in _OWN}, "madke.tasks", adapt=completed)
"""Every task by its name. ``--task`` looks names up here, and ``module:object``, which is imported."""


def get_task(name: str) -> BaseTask:
    """The task of a question or a transcript. These are not trusted: nothing is imported that only they name.

    A task that is ``module:object`` was named by the user before, or lies in a module that the program has imported.
    """
    if ":" in name and name not in TASKS and not is_task_here(name):
        raise UserError(f"task {name!r} is code, and only a file names it; if you trust it, give --task {name}")
    return TASKS[name]


def code_of(names: Iterable[str]) -> dict[str, str]:
    """Name -> which code each task is that is not ours, and a fingerprint of what prompts say of it; for the record."""
    return {
        name: f"{code}#{sha256(json.dumps(get_task(name).wording, default=str).encode()).hexdigest()[:12]}"
        for name in sorted(set(names))
        if (code := TASKS.code(name))
    }


__all__ = [
    "TASKS", "BaseTask", "Choice", "Claim", "Example", "Math", "ShortAnswer", "Task", "Translation", "code_of",
    "get_task",
]  # fmt: skip
