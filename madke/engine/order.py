"""Which debaters give the same answer, and in which order debaters read each other (Zhang et al., "role allocation").

A vague answer can match several that contradict each other ("July 1969" matches "July 20" and "July 11"). Agreement is
therefore checked for every pair, and groups do not depend on the order of the answers.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import combinations, pairwise

from madke.core.question import Question
from madke.core.transcript import Round, Turn
from madke.engine.protocol import Debater, Order
from madke.tasks.base import Task

Same = Callable[[str, str], bool]


def matcher(task: Task, question: Question) -> Same:
    """The task's matcher for answers to one question."""
    return lambda a, b: task.same(a, b, question)


def answer_groups(turns: Sequence[Turn], same: Same) -> list[list[Turn]]:
    """The turns with a parsed answer, grouped by the task's matcher; groups and members keep the order of the turns.

    An answer is vague if it matches two answers that contradict each other. It joins a group if it matches exactly one;
    otherwise it is grouped with the vague answers that match the same ones.
    """
    parsed = [turn for turn in turns if turn.stance.answer is not None]
    matches = _matches([turn.stance.answer or "" for turn in parsed], same)
    vague = {answer for answer, near in matches.items() if any(b not in matches[a] for a, b in combinations(near, 2))}
    clear = {answer: near - vague for answer, near in matches.items() if answer not in vague}
    keys: dict[str, tuple[str, ...]] = {answer: ("", min(near)) for answer, near in clear.items()}
    for answer in vague:
        fits = {keys[other] for other in matches[answer] - vague}
        keys[answer] = fits.pop() if len(fits) == 1 else ("vague", *sorted(matches[answer]))
    groups: dict[tuple[str, ...], list[Turn]] = {}
    for turn in parsed:
        groups.setdefault(keys[turn.stance.answer or ""], []).append(turn)
    return list(groups.values())


def agreed(turns: Sequence[Turn], same: Same) -> bool:
    """Whether at least two debaters spoke, every stance was parsed, and each pair of answers is the same."""
    answers = [turn.stance.answer for turn in turns if turn.stance.status != "failed"]
    if len(answers) < 2 or None in answers:
        return False
    matches = _matches([answer for answer in answers if answer is not None], same)
    return all(len(near) == len(matches) for near in matches.values())


def same_answers(turns: Sequence[Turn], same: Same) -> dict[str, int]:
    """Agent -> how many others give the same answer; 0 if its own was not parsed."""
    answers = {turn.agent: turn.stance.answer for turn in turns}
    matches = _matches([answer for answer in answers.values() if answer is not None], same)
    return {
        agent: 0 if answer is None else sum(other in matches[answer] for other in answers.values()) - 1
        for agent, answer in answers.items()
    }


def by_cast(turns: Sequence[Turn], names: Sequence[str]) -> list[Turn]:
    """The turns in the order of the cast, so that "the earliest debater" does not depend on the speaking order."""
    place = {name: n for n, name in enumerate(names)}
    return sorted(turns, key=lambda turn: place.get(turn.agent, len(place)))


def _matches(answers: Sequence[str], same: Same) -> dict[str, frozenset[str]]:
    """Each distinct answer -> the answers that are the same, including itself."""
    matches = {answer: {answer} for answer in answers}
    for one, other in combinations(matches, 2):
        if same(one, other):
            matches[one].add(other)
            matches[other].add(one)
    return {answer: frozenset(near) for answer, near in matches.items()}


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
        scores = _path_consistency(turns, same)
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
    return _ascending(others, _path_consistency(others, same), same)


def _path_consistency(turns: Sequence[Turn], same: Same) -> dict[str, float]:
    """How many other debaters give the same answer (Zhang et al., Eq. 2, as a count)."""
    return {agent: float(count) for agent, count in same_answers(turns, same).items()}


def _ascending(turns: Sequence[Turn], scores: Mapping[str, float], same: Same) -> tuple[str, ...]:
    """Agents by score; ties by answer group (that of the earliest debater first), then by position in ``turns``."""
    place = {turn.agent: n for n, turn in enumerate(turns)}
    group = {t.agent: place[members[0].agent] for members in answer_groups(turns, same) for t in members}
    return tuple(sorted(place, key=lambda agent: (scores[agent], group.get(agent, place[agent]), place[agent])))


def persona_of(debater: Debater, cast: Sequence[Debater], round_n: int, order: Order) -> str:
    """The persona that a debater plays in a round."""
    if not order.rotate_personas:
        return debater.persona
    place = next(n for n, other in enumerate(cast) if other.name == debater.name)
    return cast[(place - (round_n - 1)) % len(cast)].persona
