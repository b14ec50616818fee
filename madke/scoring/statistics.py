"""Intervals of a mean. scipy computes them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

_FEWEST = 3
"""Clusters that say how much clusters differ."""
_RESAMPLES = 2000
RESAMPLES_AT_ONCE = 100
"""How many bootstrap resamples are held in memory together: about 50 MB for 20,000 questions."""
BOOTSTRAP_SEED = 20240517


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    n: int
    """Questions it is a mean over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """How much the mean over all questions varies from repeat to repeat."""

    repeats: int
    """At least two."""
    mean: float
    """Over the questions that have all repeats."""
    sd: float
    """Standard deviation of the repeats' means, with n - 1."""
    low: float
    high: float
    """The 95 % interval of the mean over repeats, the questions fixed: t with n - 1 degrees of freedom; kept in 0 .. 1
    where all values are."""


def estimate(
    values: Sequence[float], clusters: Sequence[Hashable] = (), *, rate: bool | None = None
) -> Estimate | None:
    """The mean of one value a question, with a 95 % interval over questions; None for no values.

    Rates (all values 0 or 1): Wilson's score interval. Other means: the percentile bootstrap over questions with
    2,000 resamples and a fixed seed. A single value, or equal ones, bootstrap to an interval of no width. Questions of
    several clusters, if they are :func:`enough`: widened by :func:`clustered`, and kept in 0 .. 1 where all values are.

    Args:
        values: Where a question has repeats, their mean.
        clusters: What each question belongs to, its dataset; empty if they are one sample.
        rate: Whether each value is 0 or 1, or a mean of repeats that are. Near 0 and 1 the bootstrap's interval of such
            means vanishes: it is widened to hold Wilson's for as many questions without repeats, which is safe, since a
            mean of several varies no more than p (1 - p), as one of them does. None: a rate if all values are 0 or 1.
    """
    if not values:
        return None
    whole = all(value in (0.0, 1.0) for value in values)
    if rate is None:
        rate = whole
    alone = _wilson(values) if rate and whole else _bootstrapped(values)
    if rate and not whole:
        alone = widened(alone, _wilson(values))
    if not enough(clusters):
        return alone
    found = widened(alone, clustered(values, clusters))
    share = rate or (min(values) >= 0 and max(values) <= 1)
    return replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0)) if share else found


def enough(clusters: Sequence[Hashable]) -> bool:
    """Whether clusters say anything about how much clusters differ: three or more.

    Of two, t has one degree of freedom, and no difference between arms could be seen whatever the number of questions.
    Their questions are taken as one sample, which says something about these two and nothing about others.
    """
    return len(set(clusters)) >= _FEWEST


def widened(alone: Estimate, other: Estimate) -> Estimate:
    """The mean with an interval that holds both.

    Clusters whose means are all alike have a clustered error of 0, which says nothing about how well the mean is known;
    questions taken as one sample leave out that those of a cluster are alike. Neither is enough by itself.
    """
    return replace(alone, low=min(alone.low, other.low), high=max(alone.high, other.high))


def _wilson(values: Sequence[float]) -> Estimate:
    low, high = wilson(sum(values), len(values))
    return Estimate(value=sum(values) / len(values), low=low, high=high, n=len(values))


def _bootstrapped(values: Sequence[float]) -> Estimate:
    n, mean = len(values), sum(values) / len(values)
    if len(set(values)) == 1:
        return Estimate(value=mean, low=mean, high=mean, n=n)
    import numpy
    from scipy.stats import bootstrap

    result = bootstrap(
        # Sorted: the interval is of what was found, not of the order in which debates finished.
        (numpy.asarray(sorted(values)),),
        numpy.mean,
        n_resamples=_RESAMPLES,
        batch=RESAMPLES_AT_ONCE,
        method="percentile",
        rng=numpy.random.default_rng(BOOTSTRAP_SEED),
    ).confidence_interval
    return Estimate(value=mean, low=float(result.low), high=float(result.high), n=n)


def wilson(hits: float, n: int) -> tuple[float, float]:
    """The 95 % score interval of a rate (Wilson, 1927), without continuity correction.

    Args:
        hits: 0 .. n; no whole number where questions with repeats are right in part.
        n: At least 1.
    """
    from scipy.stats import norm

    # scipy's own takes whole hits only; on those a test holds this against it.
    z = float(norm.ppf(0.975))
    rate, scale = hits / n, 1 + z**2 / n
    centre = (rate + z**2 / (2 * n)) / scale
    half = z * math.sqrt(max(rate * (1 - rate), 0.0) / n + (z / (2 * n)) ** 2) / scale
    # Rounding would leave an end that is 0 or 1 a little beside it.
    return centre - half if hits > 0 else 0.0, centre + half if hits < n else 1.0


def clustered(values: Sequence[float], clusters: Sequence[Hashable]) -> Estimate:
    """The mean over questions of several datasets, with a 95 % interval that allows for questions of one being alike.

    The standard error is the root of the sum over clusters of squared sums of residuals, over n (Miller, 2024,
    "Adding Error Bars to Evals"), times G / (G - 1) under the root, since there are few clusters; the quantile is that
    of t with G - 1 degrees of freedom (Cameron and Miller, 2015, "A Practitioner's Guide to Cluster-Robust Inference").
    With two or three datasets the interval is mostly wide: so few say little about others. Where their means are equal
    it has no width; use it together with the interval of one sample (:func:`widened`).

    Args:
        values: One a question, at least one.
        clusters: What each question belongs to; at least two different ones.
    """
    mean, error = sum(values) / len(values), clustered_error(values, clusters)
    half = _t(len(set(clusters)) - 1) * error
    return Estimate(value=mean, low=mean - half, high=mean + half, n=len(values))


def clustered_p(values: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """The two-sided p that the mean is 0, by the test that belongs to the interval of :func:`clustered`."""
    from scipy.stats import t

    mean, error = sum(values) / len(values), clustered_error(values, clusters)
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * t.sf(abs(mean) / error, len(set(clusters)) - 1))


def clustered_error(values: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """The standard error of :func:`clustered`."""
    mean = sum(values) / len(values)
    sums: dict[Hashable, float] = {}
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value - mean
    g = len(sums)
    return math.sqrt(sum(part**2 for part in sums.values()) * g / (g - 1)) / len(values)


def between_repeats(values: Iterable[Mapping[int, float]]) -> Spread | None:
    """How much the mean varies between repeats; None for fewer than two.

    Args:
        values: Of each question: repeat -> value. Questions that lack a repeat are left out, so that all means are
            over the same ones.
    """
    held = list(values)
    repeats = sorted(set().union(*held))
    whole = [question for question in held if len(question) == len(repeats)]
    if len(repeats) < 2 or not whole:
        return None
    from statistics import stdev

    means = [sum(question[repeat] for question in whole) / len(whole) for repeat in repeats]
    found = student(means)
    share = all(0 <= value <= 1 for question in whole for value in question.values())
    return Spread(
        repeats=len(repeats),
        mean=found.value,
        sd=stdev(means),
        low=max(found.low, 0.0) if share else found.low,
        high=min(found.high, 1.0) if share else found.high,
    )


def student(values: Sequence[float]) -> Estimate:
    """The mean of two values or more, with Student's 95 % interval."""
    from statistics import stdev

    mean = sum(values) / len(values)
    half = _t(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Estimate(value=mean, low=mean - half, high=mean + half, n=len(values))


def _t(df: int) -> float:
    """The quantile of t that a two-sided 95 % interval takes."""
    from scipy.stats import t

    return float(t.ppf(0.975, df))
