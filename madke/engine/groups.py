"""Who holds the same answer, under the task's matcher."""

from __future__ import annotations

from collections.abc import Sequence

from madke.core.transcript import Turn
from madke.tasks.base import Task


def answer_groups(turns: Sequence[Turn], task: Task) -> list[list[Turn]]:
    """The turns with a parsed answer, grouped by the task's matcher; groups and members in the order of the turns."""
    groups: list[list[Turn]] = []
    for turn in turns:
        if turn.stance.answer is None:
            continue
        for group in groups:
            if task.same(group[0].stance.answer or "", turn.stance.answer):
                group.append(turn)
                break
        else:
            groups.append([turn])
    return groups


def agreed(turns: Sequence[Turn], task: Task) -> bool:
    """Whether at least two debaters spoke, every stance was parsed, and all answers are the same."""
    answers = [turn.stance.answer for turn in turns if turn.stance.status != "failed"]
    return len(answers) > 1 and None not in answers and len(answer_groups(turns, task)) == 1


def by_cast(turns: Sequence[Turn], names: Sequence[str]) -> list[Turn]:
    """The turns in the order of the cast, so that "the earliest debater" does not depend on who spoke first."""
    place = {name: n for n, name in enumerate(names)}
    return sorted(turns, key=lambda turn: place.get(turn.agent, len(place)))
