"""When a debate ends before its last round, where no model decides it."""

from __future__ import annotations

from collections.abc import Sequence

from madke.core.transcript import Turn
from madke.engine.finish import answer_groups
from madke.tasks.base import Task


def agreement(turns: Sequence[Turn], task: Task) -> bool:
    """Whether at least two debaters spoke, every stance was parsed, and all answers are the same."""
    answers = [turn.stance.answer for turn in turns if turn.stance.status != "failed"]
    return len(answers) > 1 and None not in answers and len(answer_groups(turns, task)) == 1
