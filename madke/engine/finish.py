"""How the answer is taken from the last round, where no model takes it. One small function a rule."""

from __future__ import annotations

from collections.abc import Sequence

from madke.core.transcript import Final, Turn
from madke.tasks.base import Task


def answer_groups(turns: Sequence[Turn], task: Task) -> list[list[Turn]]:
    """The turns with a parsed answer, grouped by the task's matcher; groups and members in speaking order."""
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


def majority(turns: Sequence[Turn], task: Task) -> Final:
    """The answer of the largest group; a tie goes to the group with the earliest debater and is marked."""
    groups = answer_groups(turns, task)
    if not groups:
        return Final(by="majority", status="abstained", rule="none")
    largest = max(groups, key=len)
    tie = sum(len(group) == len(largest) for group in groups) > 1
    return Final(by="majority", answer=largest[0].stance.answer, rule="tie" if tie else "votes", tie=tie)


def only(turns: Sequence[Turn], task: Task) -> Final:
    """The single debater's own answer."""
    stance = turns[0].stance
    return Final(by="only", answer=stance.answer, status=stance.status, rule=stance.rule, text=stance.text)
