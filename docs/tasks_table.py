"""The table of answer formats in questions.md, from the tasks themselves."""

from __future__ import annotations

from docs.metrics_table import with_table
from madke.tasks import TASKS


def page() -> str:
    """The page with its table; the rest of it is written by hand."""
    rows = [f"| `{name}` | {task.answers_are} | {task.right_when} |" for name, task in TASKS.items()]
    return with_table("questions.md", "tasks", ["| task | the answer is | right when |", "|---|---|---|", *rows])
