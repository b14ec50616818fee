"""The table of answer formats in questions.md, from the tasks themselves."""

from __future__ import annotations

from docs.metrics_table import with_table
from madke.tasks import TASKS


def page() -> str:
    """The page with its table; the rest of it is written by hand."""
    built_in = [(name, TASKS[name]) for name in TASKS if TASKS.code(name) is None]
    rows = [f"| `{name}` | {task.answers_are} | {task.right_when} |" for name, task in built_in]
    return with_table("questions.md", "tasks", ["| task | the answer is | right when |", "|---|---|---|", *rows])
