"""Intervals. scipy computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_RESAMPLES = 2000
_BOOTSTRAP_SEED = 20240517


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    n: int
    """Questions it is a mean over."""


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of one value a question, with a 95 % interval; None for no values.

    Rates (all values 0 or 1): Wilson's score interval. Other means: the percentile bootstrap over questions with
    2,000 resamples and a fixed seed. A single value, or equal ones, bootstrap to an interval of no width.
    """
    if not values:
        return None
    n, mean = len(values), sum(values) / len(values)
    if all(value in (0.0, 1.0) for value in values):
        from scipy.stats import binomtest

        interval = binomtest(round(sum(values)), n).proportion_ci(0.95, method="wilson")
        return Estimate(value=mean, low=float(interval.low), high=float(interval.high), n=n)
    if len(set(values)) == 1:
        return Estimate(value=mean, low=mean, high=mean, n=n)
    import numpy
    from scipy.stats import bootstrap

    result = bootstrap(
        (numpy.asarray(values),),
        numpy.mean,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=numpy.random.default_rng(_BOOTSTRAP_SEED),
    ).confidence_interval
    return Estimate(value=mean, low=float(result.low), high=float(result.high), n=n)
