"""In which order debaters read each other (Zhang et al., "role allocation")."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import pairwise

from madke.core.question import Question
from madke.core.transcript import Round, Turn
from madke.engine.groups import Same, answer_groups, by_cast, matcher, same_answers
from madke.engine.protocol import Debater, Order
from madke.tasks.base import Task


def reading_order(
    order: Order, rounds: Sequence[Round], names: Sequence[str], *, question: Question, task: Task, seed: str
) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """The order of the round that comes after ``rounds``, for all readers, and, for ``madc``, each agent's score.

    Before the first round everybody stands in the order of the cast (``names``). The question's golds decide who is
    right, the task's matcher which answers are the same; a random order depends on ``seed``.
    """
    if order.by == "random":
        spoke = [turn.agent for turn in rounds[-1].turns] if rounds else names
        return tuple(random.Random(sha256(seed.encode()).digest()).sample(list(spoke), len(spoke))), {}
    if not rounds:
        return tuple(names), {}
    turns = by_cast(rounds[-1].turns, names)
    if order.by in ("truth_first", "truth_last"):
        right = {t.agent: t.stance.answer is not None and task.accepts(t.stance.answer, question) for t in turns}
        first = order.by == "truth_first"
        return tuple(t.agent for t in sorted(turns, key=lambda t: right[t.agent] != first)), {}
    if order.by == "madc":
        same = matcher(task, question)
        scores = _path_consistency(turns, same)
        for agent in _stood_last(rounds):
            scores[agent] = scores.get(agent, 0.0) * order.decay
        return _ascending(turns, scores, same), scores
    return tuple(turn.agent for turn in turns), {}


def _stood_last(rounds: Sequence[Round]) -> list[str]:
    """Who was read last in each round that had something to read."""
    last = []
    for before, entry in pairwise(rounds):
        heard = {turn.agent for turn in before.turns if turn.stance.status != "failed"}
        last += [agent for agent in reversed(entry.order) if agent in heard][:1]
    return last


def order_for(reader: str, turns: Sequence[Turn], names: Sequence[str], same: Same) -> tuple[str, ...]:
    """The ``madc`` order of one reader, whose own answer does not count (as in the authors' released code)."""
    others = by_cast([turn for turn in turns if turn.agent != reader], names)
    return _ascending(others, _path_consistency(others, same), same)


def _path_consistency(turns: Sequence[Turn], same: Same) -> dict[str, float]:
    """How many other debaters hold the same answer (Zhang et al., Eq. 2, counted)."""
    return {agent: float(count) for agent, count in same_answers(turns, same).items()}


def _ascending(turns: Sequence[Turn], scores: Mapping[str, float], same: Same) -> tuple[str, ...]:
    """By score; ties by answer group (that of the earliest debater first), then by the debater's number."""
    place = {turn.agent: n for n, turn in enumerate(turns)}
    group = {t.agent: place[members[0].agent] for members in answer_groups(turns, same) for t in members}
    return tuple(sorted(place, key=lambda agent: (scores[agent], group.get(agent, place[agent]), place[agent])))


def persona_of(debater: Debater, cast: Sequence[Debater], round_n: int, order: Order) -> str:
    """The persona that a debater plays in a round."""
    if not order.rotate_personas:
        return debater.persona
    place = next(n for n, other in enumerate(cast) if other.name == debater.name)
    return cast[(place - (round_n - 1)) % len(cast)].persona
