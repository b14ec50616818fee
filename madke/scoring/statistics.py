"""Confidence intervals of means, effective votes and the sign test."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Any

RESAMPLES = 2000
RESAMPLES_AT_ONCE = 100
"""Resamples in memory at the same time: at most about 50 MB for 20,000 questions."""
BOOTSTRAP_SEED = 20240517

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    n: int
    """Number of questions."""

    def __neg__(self) -> Estimate:
        """The same difference in the other direction."""
        return Estimate(value=-self.value, low=-self.high, high=-self.low, n=self.n)


def estimate(values: Sequence[float], *, shares: bool = True) -> Estimate | None:
    """The mean of one value per question, with a 95 % interval over questions; None without values.

    If all values are 0 or 1, they are a rate with Wilson's score interval (:func:`wilson`). Otherwise the interval is
    the percentile bootstrap over questions (Efron and Tibshirani, 1993, chapter 13). Repeats of a question are one
    cluster: the question's value is their mean.
    ``shares``: whether 0 and 1 mean no and yes; False for counts, for example.
    """
    if not values:
        return None
    if shares and all(value in (0.0, 1.0) for value in values):
        low, high = wilson(int(sum(values)), len(values))
    else:
        low, high = bootstrap(values, RESAMPLES)
    return Estimate(value=fmean(values), low=low, high=high, n=len(values))


def bootstrap(values: Sequence[float], resamples: int) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean, with a fixed seed; zero width for equal values."""
    counts = Counter(values)
    if len(counts) == 1:
        return values[0], values[0]
    import numpy

    # Sorted, so that the interval does not depend on the order in which debates finished.
    numbers, times = (numpy.asarray(each) for each in zip(*sorted(counts.items()), strict=True))
    random = numpy.random.default_rng(BOOTSTRAP_SEED)
    sizes = [min(RESAMPLES_AT_ONCE, resamples - done) for done in range(0, resamples, RESAMPLES_AT_ONCE)]
    # How often a resample has each distinct value: fast, because most values have few distinct ones.
    drawn = [random.multinomial(len(values), times / len(values), size) @ numbers / len(values) for size in sizes]
    low, high = numpy.percentile(numpy.concatenate(drawn), [2.5, 97.5])
    return float(low), float(high)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95 % score interval of a rate (Wilson, 1927) without continuity correction; ``n`` is at least 1."""
    rate, scale = hits / n, 1 + _Z**2 / n
    middle = (rate + _Z**2 / (2 * n)) / scale
    half = _Z / scale * math.sqrt(rate * (1 - rate) / n + _Z**2 / (4 * n**2))
    # Rounding would move an end away from exactly 0 or 1.
    return middle - half if hits else 0.0, middle + half if hits < n else 1.0


DIFFICULTY = (
    "Effective votes include the difficulty of the questions: answers agree also where a question is easy or hard for "
    "every model."
)
"""The sentence that stands wherever effective votes are shown."""


def effective_votes(votes: Sequence[Sequence[float]]) -> Estimate | None:
    """``n / (1 + (n - 1) ICC)``: the number of independent votes that would vary as much as these.

    ICC is the intraclass correlation of correctness, by one-way analysis of variance over questions (Shrout and Fleiss,
    1979, ICC(1)). With unequal numbers of votes, n is their mean, and the analysis uses Searle's average group size.

    Args:
        votes: For each question, the correctness of each vote, from 0 to 1. A missing answer is 0.

    Returns:
        The value, from 1 (all votes of a question always agree) to n (independent votes), with the 95 % percentile
        bootstrap interval over questions; None for fewer than two questions, without two votes on any, and where all
        votes are equal, because nothing varies.
    """
    import numpy

    nonempty = [question for question in votes if question]
    if len(nonempty) < 2 or max(map(len, nonempty)) < 2:
        return None
    sizes = numpy.array([len(question) for question in nonempty], dtype=float)
    sums = numpy.array([sum(question) for question in nonempty])
    squares = numpy.array([sum(vote * vote for vote in question) for question in nonempty])
    # Per question: all that a resample adds up.
    columns = numpy.stack([numpy.ones_like(sizes), sizes, sizes**2, sums, squares, sums**2 / sizes], axis=1)

    value = _of_sums(columns.sum(axis=0, keepdims=True))[0]
    if numpy.isnan(value):
        return None
    random = numpy.random.default_rng(BOOTSTRAP_SEED)
    even = numpy.full(len(nonempty), 1 / len(nonempty))
    resampled = [
        _of_sums(random.multinomial(len(nonempty), even, RESAMPLES_AT_ONCE) @ columns)
        for _ in range(RESAMPLES // RESAMPLES_AT_ONCE)
    ]
    low, high = numpy.nanpercentile(numpy.concatenate(resampled), [2.5, 97.5])
    return Estimate(value=float(value), low=float(low), high=float(high), n=len(nonempty))


def _of_sums(sums: Any) -> Any:
    """The effective votes of each row of summed columns; NaN where nothing varies."""
    import numpy

    questions, votes, squared_sizes, total, squares, between = sums.T
    with numpy.errstate(divide="ignore", invalid="ignore"):
        n = votes / questions
        mean_square_between = (between - total**2 / votes) / (questions - 1)
        mean_square_within = (squares - between) / (votes - questions)
        size = (votes - squared_sizes / votes) / (questions - 1)
        icc = (mean_square_between - mean_square_within) / (mean_square_between + (size - 1) * mean_square_within)
        # A negative correlation gives more than n, and one of less than -1 / (n - 1) a negative number.
        inflation = 1 + (n - 1) * icc
        effective = numpy.where(inflation <= 0, n, n / inflation)
    return numpy.clip(effective, 1, n)


def fair_coin_p(heads: int, tosses: int) -> float:
    """The two-sided exact p value of so many heads in the tosses of a fair coin; 1 without any toss."""
    if tosses == 0:
        return 1.0
    tail = term = 1
    for n in range(1, min(heads, tosses - heads) + 1):
        term = term * (tosses - n + 1) // n
        tail += term
    return min(1.0, tail / (1 << (tosses - 1)))
