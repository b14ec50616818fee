"""In which order a debater reads the others."""

import random
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import pairwise

from madke.core.question import Question
from madke.core.transcript import Round, Turn
from madke.engine.agreement import Same, answer_groups, matcher, same_answers
from madke.engine.protocol_parts import Order
from madke.tasks.base import Task


def by_cast(turns: Sequence[Turn], names: Sequence[str]) -> list[Turn]:
    """The turns in the order of the cast, so that "the earliest debater" does not depend on the speaking order."""
    place = {name: n for n, name in enumerate(names)}
    return sorted(turns, key=lambda turn: place.get(turn.agent, len(place)))


def reading_order(
    order: Order, rounds: Sequence[Round], names: Sequence[str], *, question: Question, task: Task, seed: str
) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """The reading order of the round after ``rounds``, for all readers, and each agent's score (only for ``madc``).

    In the first round it is the order of the cast (``names``) or a random one, which depends on ``seed``. The orders by
    truth compare answers with the question's golds; ``madc`` uses the task's matcher.
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
        scores = same_answers(turns, same)
        for agent in _read_last(rounds):
            scores[agent] = scores.get(agent, 0.0) * order.decay
        return _ascending(turns, scores, same), scores
    return tuple(turn.agent for turn in turns), {}


def _read_last(rounds: Sequence[Round]) -> list[str]:
    """The agent that was read last, for each round after the first."""
    last = []
    for before, entry in pairwise(rounds):
        spoke = {turn.agent for turn in before.turns if turn.stance.status != "failed"}
        last += [agent for agent in reversed(entry.order) if agent in spoke][:1]
    return last


def order_for(reader: str, turns: Sequence[Turn], names: Sequence[str], same: Same) -> tuple[str, ...]:
    """The ``madc`` order for one reader, computed without its own answer (as in the authors' released code)."""
    others = by_cast([turn for turn in turns if turn.agent != reader], names)
    return _ascending(others, same_answers(others, same), same)


def _ascending(turns: Sequence[Turn], scores: Mapping[str, float], same: Same) -> tuple[str, ...]:
    """Agents by score; ties by answer group (that of the earliest debater first), then by position in ``turns``."""
    place = {turn.agent: n for n, turn in enumerate(turns)}
    group = {t.agent: place[members[0].agent] for members in answer_groups(turns, same) for t in members}
    return tuple(sorted(place, key=lambda agent: (scores[agent], group.get(agent, place[agent]), place[agent])))
