"""Answer formats: how an answer is read from a reply, when two are the same, and which metrics score it."""

from madke.tasks.base import Task, get_task
from madke.tasks.choice import Choice
from madke.tasks.claim import Claim
from madke.tasks.math import Math
from madke.tasks.short_answer import ShortAnswer
from madke.tasks.translation import Translation

_SHIPPED: tuple[Task, ...] = (ShortAnswer(), Claim(), Choice(), Math(), Translation())

TASKS: dict[str, Task] = {task.name: task for task in _SHIPPED}
"""Every task by its name; ``--task`` and a question's ``task`` take these names."""

__all__ = ["TASKS", "Choice", "Claim", "Math", "ShortAnswer", "Task", "Translation", "get_task"]
