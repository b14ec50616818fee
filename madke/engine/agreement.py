"""Which answers are the same, and whether debaters agree.

A vague answer can match several that contradict each other ("July 1969" matches "July 20" and "July 11"). Agreement is
therefore checked for every pair, and groups do not depend on the order of the answers.
"""

from collections.abc import Callable, Sequence
from itertools import combinations

from madke.core.question import Question
from madke.core.transcript import Turn
from madke.tasks.base import Task

Same = Callable[[str, str], bool]
"""Whether two answers to a question are the same."""


_ROUNDING = 1e-9


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


def agreed(turns: Sequence[Turn], same: Same, share: float = 1) -> bool:
    """Whether at least two debaters spoke, every stance was parsed, and each pair of answers is the same.

    With a smaller ``share``: whether that share of the debaters who spoke is in one group of answers.
    """
    answers = [turn.stance.answer for turn in turns if turn.stance.status != "failed"]
    if len(answers) < 2:
        return False
    if share < 1:
        largest = max(map(len, answer_groups(turns, same)), default=0)
        return largest >= max(2, share * len(answers) - _ROUNDING)
    if None in answers:
        return False
    matches = _matches([answer for answer in answers if answer is not None], same)
    return all(len(near) == len(matches) for near in matches.values())


def same_answers(turns: Sequence[Turn], same: Same) -> dict[str, float]:
    """Agent -> how many others give the same answer (Zhang et al., Eq. 2); 0 if its own was not parsed."""
    answers = {turn.agent: turn.stance.answer for turn in turns}
    matches = _matches([answer for answer in answers.values() if answer is not None], same)
    return {
        agent: 0.0 if answer is None else sum(other in matches[answer] for other in answers.values()) - 1.0
        for agent, answer in answers.items()
    }


def _matches(answers: Sequence[str], same: Same) -> dict[str, frozenset[str]]:
    """Each distinct answer -> the answers that are the same, including itself."""
    matches = {answer: {answer} for answer in answers}
    for one, other in combinations(matches, 2):
        if same(one, other):
            matches[one].add(other)
            matches[other].add(one)
    return {answer: frozenset(near) for answer, near in matches.items()}
