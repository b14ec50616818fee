"""How far two judges of the same answers agree: people with each other, and metrics with people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from madke.scoring.rows import over_repeats
from madke.scoring.statistics import BOOTSTRAP_SEED, Estimate, wilson

_RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Agreement of two judges who both graded the same answers."""

    same: Estimate
    """The share of answers that both gave the same grade, as :func:`madke.scoring.rows.over_repeats` has it: several
    answers to one question are averaged first, and the interval is over ``same.n`` questions."""
    kappa: float | None
    """Cohen's kappa, over answers: quadratically weighted for grades on a scale, plain for yes and no."""


def agreement(
    left: Sequence[float], right: Sequence[float], questions: Sequence[Hashable] = (), *, ordinal: bool = False
) -> Agreement | None:
    """Percent agreement and Cohen's kappa; None for no answers.

    Args:
        left: One judge's grades.
        right: The other's, of the same answers in the same order.
        questions: What each of them answers; empty if no two answer the same.
        ordinal: Whether grades are steps of a scale, so that near ones are half agreed.
    """
    by_question: dict[Hashable, list[float]] = {}
    for question, one, other in zip(questions or range(len(left)), left, right, strict=True):
        by_question.setdefault(question, []).append(float(one == other))
    same = over_repeats(list(by_question.values()))
    if same is None:
        return None
    return Agreement(same=same, kappa=cohen_kappa(left, right, quadratic if ordinal else nominal))


def one_judge_interval(grades: Sequence[Sequence[Sequence[float]]]) -> tuple[float, float]:
    """A 95 % interval of the mean over questions, as it is known from one judge's grades.

    The percentile bootstrap, with a fixed seed: each resample draws questions, and for each answer one of its judges.
    Judges who never agree thus make it wide, where means of their grades are all alike and would make it vanish. Of
    right or wrong it holds Wilson's for as many questions as well (:func:`madke.scoring.statistics.estimate` says why).

    Args:
        grades: For each question, for each of its answers (repeats), the grades of all who judged it.
    """
    import numpy

    draw = numpy.random.default_rng(BOOTSTRAP_SEED)
    n = len(grades)
    drawn = draw.multinomial(n, [1 / n] * n, size=_RESAMPLES)
    total = numpy.zeros(_RESAMPLES)
    for times, answers in zip(drawn.T, grades, strict=True):
        for judged in answers:
            by_judge = draw.multinomial(times, [1 / len(judged)] * len(judged))
            total += by_judge @ numpy.asarray(judged, dtype=float) / len(answers)
    low, high = map(float, numpy.percentile(total / n, [2.5, 97.5]))
    if not all(grade in (0.0, 1.0) for answers in grades for judged in answers for grade in judged):
        return low, high
    # A share: of each question that of its answers, of each of those that of its judges.
    right = sum(sum(sum(judged) / len(judged) for judged in answers) / len(answers) for answers in grades)
    least, most = wilson(right, n)
    return min(low, least), max(high, most)


def nominal(one: float, other: float) -> float:
    """All disagreements weigh the same."""
    return float(one != other)


def quadratic(one: float, other: float) -> float:
    """A disagreement weighs the square of its distance."""
    return (one - other) ** 2


def cohen_kappa(
    left: Sequence[float], right: Sequence[float], weight: Callable[[float, float], float] = nominal
) -> float | None:
    """Cohen's kappa (1960), with weights of disagreement (Cohen, 1968): 1 less observed over expected disagreement.

    Expected is what two judges with these shares of grades would have by chance. 1: they always agree. 0: no more
    than by chance.

    Returns:
        None for no grades, and where both always gave the same one, which leaves nothing to expect.
    """
    pairs = list(zip(left, right, strict=True))
    observed = sum(weight(one, other) for one, other in pairs)
    ours, theirs = Counter(left), Counter(right)
    expected = sum(n * m * weight(one, other) for one, n in ours.items() for other, m in theirs.items())
    return 1 - len(pairs) * observed / expected if expected else None


def rank_agreement(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Kendall's tau-b (1945), -1 .. 1: whether a metric on a scale of its own puts answers in a person's order.

    None where one of the two gives all answers the same grade. scipy computes it.
    """
    if len(set(left)) < 2 or len(set(right)) < 2:
        return None
    from scipy.stats import kendalltau

    return float(kendalltau(left, right).statistic)
