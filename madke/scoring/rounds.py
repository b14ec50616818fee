"""The values of one debate after each round, and the changes between rounds.

There are two disagreements (Liang et al., 2023, sections 1 and 4): ``disagreement`` is between the debaters of one
round, ``self_disagreement`` is between two adjacent rounds of one debater.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import log2
from statistics import fmean
from typing import Literal

from madke.core.transcript import Round, Transcript, Turn
from madke.engine.agreement import Same, agreed, answer_groups, matcher, same_answers
from madke.engine.reading import by_cast
from madke.scoring.metrics import METRICS, listed, metrics_of, question_of, with_units
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
        (:func:`adoption`).
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


# Answers that a dataset lists as wrong (``metadata["wrong_answers"]``): RAMDocs' misinformation, CIAR's traps.

Kind = Literal["wrong", "right", "other"]
"""``wrong``: equal to a listed wrong answer under the task's matcher, and not accepted as right. ``other``: also no
readable answer."""


def kinds_of(transcript: Transcript) -> Callable[[str | None], Kind] | None:
    """Tells the kind of an answer to the question of a transcript; None if the question lists no wrong answers."""
    wrong = listed(transcript.metadata, "wrong_answers")
    if not wrong:
        return None
    task, question = get_task(transcript.task), question_of(transcript)

    @cache
    def kind(answer: str | None) -> Kind:
        if answer is None:
            return "other"
        if task.accepts(answer, question):
            return "right"
        return "wrong" if any(task.same(answer, each, question) for each in wrong) else "other"

    return kind


def traps(transcript: Transcript) -> dict[str, float]:
    """Whether an answer is a listed wrong one; 0 or 1 each. Empty if the question lists none.

    ``trapped``: the final answer: the trap rate of CIAR, and the adoption of misinformation in RAMDocs.
    ``trapped_debater``: the answer of at least one debater in at least one round.
    """
    kind = kinds_of(transcript)
    if kind is None:
        return {}
    stated = {kind(turn.stance.answer) for entry in transcript.rounds for turn in entry.turns}
    return {"trapped": float(kind(transcript.answer) == "wrong"), "trapped_debater": float("wrong" in stated)}


def adoption(transcript: Transcript) -> Iterator[dict[str, float]]:
    """For each round, what its debaters do with listed wrong answers; values that do not apply are missing.

    ``adopted``, ``unmisled``: the share of debaters whose answer is one; whose answer is right.
    ``resisted``: of the debaters that did not hold one before and were shown one, the share that still holds none.
        In round 1 the passages show it, later the stances of the round before that a debater read.
    ``given_up``: of the debaters that held one before, the share that no longer does.

    Failed stances are left out. A reply without a readable answer holds none.
    """
    kind, before = kinds_of(transcript), dict[str, bool]()
    for entry in transcript.rounds:
        row: dict[str, float] = {}
        if kind is not None:
            spoke = [turn for turn in entry.turns if turn.stance.status != "failed"]
            now = {turn.agent: kind(turn.stance.answer) == "wrong" for turn in spoke}
            if entry.n == 1 and not transcript.first_round_given:
                shown = [*now] if transcript.pool else []
            else:
                read = {turn.agent: any(before.get(peer, False) for peer in turn.reads) for turn in spoke}
                shown = [agent for agent in now if read[agent] and not before.get(agent, False)]
            held = [agent for agent in now if before.get(agent, False)]
            if spoke:
                row["adopted"] = fmean(now.values())
                row["unmisled"] = fmean(kind(turn.stance.answer) == "right" for turn in spoke)
            row |= {"resisted": fmean(not now[agent] for agent in shown)} if shown else {}
            row |= {"given_up": fmean(not now[agent] for agent in held)} if held else {}
            before |= now
        yield row
