"""Two values for each of some questions: how far they differ, and the test that fits what they are.

Values of 0 and 1 are tested as rates, others as means; questions of several datasets more cautiously. scipy computes
tests and quantiles.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from madke.scoring.power import detectable_mean, detectable_rate
from madke.scoring.statistics import (
    BOOTSTRAP_SEED,
    RESAMPLES_AT_ONCE,
    Estimate,
    clustered,
    clustered_error,
    clustered_p,
    enough,
    student,
    widened,
    wilson,
)

_RESAMPLES = 9999
_WAYS = 2**15
"""Ways to swap arms that are tried: all of them for up to 15 questions."""
_FEW = 50
"""Below so many questions that differ a bootstrap's p is too small: resamples spread less than samples do."""

_NEVER = 5
"""Up to so many differences no permutation has p < 0.05: of 2 ** 5 ways, two are as extreme as any."""

_NOTHING = 1e-12
"""What rounding leaves of a difference of 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Discordant:
    """On how many questions two arms were right (1) or wrong (0)."""

    both: int
    only_left: int
    only_right: int
    neither: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """How large a difference is, by a measure without unit; above 0 in favour of the right arm."""

    name: str
    """``Cohen's g``: the share of discordant pairs in favour, less one half (0.05 small, 0.15 medium, 0.25 large;
    Cohen, 1988, chapter 5). ``Cohen's d``: the mean of the differences over their standard deviation."""
    value: float
    low: float | None = None
    high: float | None = None
    """95 % interval of g, by Wilson's score interval of the share; None where questions are clustered by dataset, which
    it does not allow for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """How far the second values lie from the first, tested; see :class:`madke.scoring.paired.PairedTest`."""

    difference: Estimate
    p: float
    test: str
    effect: Effect | None
    detectable: float | None
    discordant: Discordant | None


def difference_of(one: Sequence[float], two: Sequence[float], datasets: Sequence[str | None]) -> Difference:
    """The second values less the first, and the test that fits them: one value of each a question, and its dataset."""
    differences = [b - a for a, b in zip(one, two, strict=True)]
    discordant = _discordant(one, two)
    alone = _graded(differences) if discordant is None else _rates(discordant)
    return _with_clusters(alone, differences, datasets) if enough(datasets) else alone


def _with_clusters(alone: Difference, differences: Sequence[float], datasets: Sequence[str | None]) -> Difference:
    """The more cautious of the test of one sample and of t on clustered standard errors, in each figure."""
    several = len(set(datasets))
    detectable = detectable_mean(1, clustered_error(differences, datasets), df=several - 1)
    return replace(
        alone,
        difference=_possible(widened(alone.difference, clustered(differences, datasets)), differences),
        p=max(alone.p, clustered_p(differences, datasets)),
        test=f"the more cautious of {alone.test}, and t with standard errors clustered by {several} datasets",
        detectable=None if alone.detectable is None else max(alone.detectable, detectable or 0.0),
        effect=None if alone.effect is None else replace(alone.effect, low=None, high=None),
    )


def _rates(discordant: Discordant) -> Difference:
    n = discordant.both + discordant.only_left + discordant.only_right + discordant.neither
    return Difference(
        difference=_bonett_price(discordant),
        p=_mcnemar(discordant),
        test="McNemar, exact",
        effect=_cohen_g(discordant),
        detectable=detectable_rate(n, (discordant.only_left + discordant.only_right) / n),
        discordant=discordant,
    )


def _graded(differences: Sequence[float]) -> Difference:
    n, different = len(differences), [each for each in differences if abs(each) > _NOTHING]
    difference, p = _bootstrapped(differences)
    found = Difference(
        difference=difference,
        p=p,
        test="paired bootstrap",
        effect=cohen_d(differences),
        detectable=detectable_mean(n, sd_of(differences)),
        discordant=None,
    )
    if len(different) >= _FEW:
        return found
    return replace(
        found,
        difference=_possible(widened(difference, student(differences)), differences) if n > 1 else difference,
        p=_permuted(different),
        test="paired permutation, bootstrap and t interval",
        detectable=detectable_mean(n, sd_of(differences), df=n - 1) if len(different) > _NEVER else None,
    )


def _possible(found: Estimate, differences: Sequence[float]) -> Estimate:
    """The interval without what no difference of two shares can be."""
    if max(map(abs, differences)) > 1:
        return found
    return replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))


def _discordant(one: Sequence[float], two: Sequence[float]) -> Discordant | None:
    """None if some value is neither 0 nor 1."""
    counts = Counter(zip(one, two, strict=True))
    both, only_left, only_right, neither = (
        counts.pop(pair, 0) for pair in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
    )
    if counts:
        return None
    return Discordant(both=both, only_left=only_left, only_right=only_right, neither=neither)


def _mcnemar(found: Discordant) -> float:
    """McNemar's test in its exact, conditional form: the discordant pairs are tosses of a fair coin."""
    tosses = found.only_left + found.only_right
    if not tosses:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(found.only_right, tosses).pvalue)


def _bonett_price(found: Discordant) -> Estimate:
    """The difference of two paired rates; Wald's interval with one pair added to each discordant cell.

    Bonett and Price (2012), one of the intervals that Fagerland, Lydersen and Laake (2014) recommend.
    """
    from scipy.stats import norm

    n = found.both + found.only_left + found.only_right + found.neither
    left, right = (found.only_left + 1) / (n + 2), (found.only_right + 1) / (n + 2)
    half = float(norm.ppf(0.975)) * math.sqrt((left + right - (right - left) ** 2) / (n + 2))
    return Estimate(
        value=(found.only_right - found.only_left) / n,
        low=max(right - left - half, -1.0),
        high=min(right - left + half, 1.0),
        n=n,
    )


def _bootstrapped(differences: Sequence[float]) -> tuple[Estimate, float]:
    """The mean difference with its percentile interval, and p."""
    n, mean = len(differences), mean_of(differences)
    if len(set(differences)) == 1:
        return Estimate(value=mean, low=mean, high=mean, n=n), 1 / (_RESAMPLES + 1) if mean else 1.0
    import numpy
    from scipy.stats import bootstrap

    found = bootstrap(
        (numpy.asarray(sorted(differences)),),
        numpy.mean,
        n_resamples=_RESAMPLES,
        batch=RESAMPLES_AT_ONCE,
        method="percentile",
        rng=numpy.random.default_rng(BOOTSTRAP_SEED),
    )
    interval = found.confidence_interval
    # The tolerance keeps resamples that equal the bound, but for rounding, on the cautious side.
    extreme = int((abs(found.bootstrap_distribution - mean) >= abs(mean) - 1e-12).sum())
    return (
        Estimate(value=mean, low=float(interval.low), high=float(interval.high), n=n),
        (extreme + 1) / (_RESAMPLES + 1),
    )


def _permuted(differences: Sequence[float]) -> float:
    """The two-sided p that the mean difference is 0, by swapping the arms of questions that differ."""
    if len(differences) <= 1:
        return 1.0
    import numpy
    from scipy.stats import permutation_test

    found = permutation_test(
        (numpy.asarray(sorted(differences)),),
        numpy.mean,
        permutation_type="samples",
        n_resamples=_WAYS,
        batch=10 * RESAMPLES_AT_ONCE,  # few numbers each
        rng=numpy.random.default_rng(BOOTSTRAP_SEED),
    )
    return float(found.pvalue)


def _cohen_g(found: Discordant) -> Effect | None:
    pairs = found.only_left + found.only_right
    if not pairs:
        return None
    low, high = wilson(found.only_right, pairs)
    return Effect(name="Cohen's g", value=found.only_right / pairs - 0.5, low=low - 0.5, high=high - 0.5)


def cohen_d(differences: Sequence[float]) -> Effect | None:
    """The effect size of differences in something that has degrees; None where they do not vary."""
    sd = sd_of(differences)
    return Effect(name="Cohen's d", value=mean_of(differences) / sd) if sd > 0 else None


def mean_of(values: Iterable[float]) -> float:
    """Of one value at least."""
    held = list(values)
    return sum(held) / len(held)


def sd_of(values: Sequence[float]) -> float:
    """Of a sample; 0 for one value, and for equal ones that rounding has told apart."""
    from statistics import stdev

    found = stdev(values) if len(values) > 1 else 0.0
    return found if found > _NOTHING else 0.0
