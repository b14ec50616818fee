"""The values of one debate after each round, and the changes between rounds.

There are two disagreements (Liang et al., 2023, sections 1 and 4): ``disagreement`` is between the debaters of one
round, ``self_disagreement`` is between two adjacent rounds of one debater.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import log2

from madke.core.transcript import Round, Transcript, Turn
from madke.engine.agreement import Same, agreed, answer_groups, matcher, same_answers
from madke.engine.order import by_cast
from madke.scoring.metrics import METRICS, metrics_of, question_of
from madke.scoring.value_units import with_units
from madke.scoring.wrong_answers import adoption
from madke.tasks import get_task

_CHANGED = "changed_"
_BETWEEN_ROUNDS = ("resisted", "given_up")


def round_rows(transcript: Transcript) -> list[dict[str, float]]:
    """The values of each round, in order; values that do not apply are missing.

    Failed stances are excluded. A stance without a parsed answer is never right and agrees with no other stance.

    ``accuracy``: the task's first metric on the answer of the largest group; in a tie, of the earliest debater's group.
    ``right``: the share of debaters who are right. This and the log-likelihood require a binary metric.
    ``cons``, ``co2``: whether all stances agree under the task's matcher (Wang et al., Eq. 8); the same times
        ``accuracy`` (Eq. 7). These and all below, except the last, require more than one debater.
    ``entropy``: see :func:`entropy`, over the groups of the task's matcher.
    ``log_likelihood``, ``log_likelihood_clipped``: see :func:`log_likelihood`; and 1 if it was clipped because no
        debater was right.
    ``disagreement``: the share of pairs of debaters with different answers, among pairs with two answers.
    ``self_disagreement``, ``changed_<debater>``: the share of debaters whose answer differs from their own previous
        one, and 0 or 1 for each debater, among those with an answer in both rounds. Also for a single debater; not for
        the first round.
    ``adopted``, ``unmisled``, ``resisted``, ``given_up``: what debaters do with answers that the dataset lists as wrong
        (:func:`~madke.scoring.wrong_answers.adoption`).
    """
    task, question = get_task(transcript.task), question_of(transcript)
    same = cache(matcher(task, question))
    first = METRICS[metrics_of(task)[0]]
    score = cache(lambda answer: first(answer, question)) if transcript.answers else None
    names = [turn.agent for entry in transcript.rounds[:1] for turn in entry.turns]
    rows = []
    for entry in transcript.rounds:
        spoke = by_cast([turn for turn in entry.turns if turn.stance.status != "failed"], names)
        groups = answer_groups(spoke, same)
        row = _right(groups, spoke, score, binary=first.binary)
        if len(entry.turns) > 1:
            row |= _together(groups, spoke, same, row)
        rows.append(row)
    for row, found in zip(rows, adoption(transcript), strict=True):
        row |= found
    for (before, after), row in zip(pairwise(transcript.rounds), rows[1:], strict=True):
        row |= _changes(before, after, same)
    return [with_units(row) for row in rows]


def carried(row: Mapping[str, float]) -> dict[str, float]:
    """The values that an ended debate has in later rounds: those of its last round, without changes.

    Whoever is satisfied disagrees with itself in none of its further iterations: ``self_disagreement`` is 0 (Liang et
    al., Figure 1, is about all questions, not only about those that are refined again).
    """
    kept = {name: value for name, value in row.items() if name not in _BETWEEN_ROUNDS and not name.startswith(_CHANGED)}
    return kept | {"self_disagreement": 0.0}


def entropy(sizes: Sequence[int]) -> float:
    """``-sum p log2 p`` in bits, where ``p`` is the share of each group of answers (Zhang et al., Eq. 5)."""
    total = sum(sizes)
    return sum(size / total * log2(total / size) for size in sizes)


def log_likelihood(right: int, n: int) -> float:
    """``log2 P(truth)``, where P is the share of the ``n`` debaters who are right (Zhang et al., Eq. 4).

    The paper does not define ``P = 0``; here it counts as ``1 / 2n``.
    """
    return log2(right / n if right else 1 / (2 * n))


def _right(
    groups: Sequence[Sequence[Turn]], spoke: Sequence[Turn], score: Callable[[str], float] | None, *, binary: bool
) -> dict[str, float]:
    if score is None:
        return {}
    # max() returns the first of equals, and groups are in the order of the cast.
    majority = max(groups, key=len)[0].stance.answer if groups else None
    row = {"accuracy": 0.0 if majority is None else score(majority)}
    if binary and spoke:
        right = sum(turn.stance.answer is not None and score(turn.stance.answer) == 1 for turn in spoke)
        row["right"] = right / len(spoke)
        if len(spoke) > 1:
            row["log_likelihood"] = log_likelihood(right, len(spoke))
            row["log_likelihood_clipped"] = float(not right)
    return row


def _together(
    groups: Sequence[Sequence[Turn]], spoke: Sequence[Turn], same: Same, row: Mapping[str, float]
) -> dict[str, float]:
    cons = float(agreed(spoke, same))
    found = {"cons": cons}
    if "accuracy" in row:
        found["co2"] = cons * row["accuracy"]
    if groups:
        found["entropy"] = entropy([len(group) for group in groups])
    parsed = [turn for turn in spoke if turn.stance.answer is not None]
    if len(parsed) > 1:
        pairs = len(parsed) * (len(parsed) - 1)
        found["disagreement"] = 1 - sum(same_answers(parsed, same).values()) / pairs
    return found


def _changes(before: Round, after: Round, same: Same) -> dict[str, float]:
    held = {turn.agent: turn.stance.answer for turn in before.turns}
    changed = {}
    for turn in after.turns:
        old, new = held.get(turn.agent), turn.stance.answer
        if old is not None and new is not None:
            changed[turn.agent] = float(not same(old, new))
    if not changed:
        return {}
    row = {"self_disagreement": sum(changed.values()) / len(changed)}
    return row | {f"{_CHANGED}{agent}": value for agent, value in changed.items()}
