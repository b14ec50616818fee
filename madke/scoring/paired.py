"""Two arms on the same questions: is one better, by how much, and what difference could have been seen?

Everything is paired: only questions that both arms hold, with a value in both, count. Repeats of a question are
averaged first, so that the questions are the sample. scipy computes tests and quantiles.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from madke.scoring.arms import Arm
from madke.scoring.power import detectable_mean, detectable_rate
from madke.scoring.statistics import (
    BOOTSTRAP_SEED,
    RESAMPLES_AT_ONCE,
    Estimate,
    clustered,
    clustered_error,
    clustered_p,
    enough,
    widened,
    wilson,
)

_RESAMPLES = 9999
_FEW = 50
"""Below so many questions a bootstrap's p is too small: resamples spread less than samples do."""
MIN_REPEATS = 3
"""Fewer repeats say too little about how much they vary."""


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
    """95 % interval of g, by Wilson's score interval of the share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedTest:
    """One comparison of two arms by one value."""

    left: str
    right: str
    metric: str
    n: int
    """Questions compared; for a test across repeats, repeats."""
    left_out: int
    """Questions that both hold and that have the value in one of them only: failed in the other, for instance."""
    left_value: float
    right_value: float
    difference: Estimate
    """``right - left``, in the value's own unit."""
    p: float
    """Two-sided."""
    p_holm: float
    """Corrected over the family of tests it stands in (Holm, 1979)."""
    test: str
    """Which test gave ``p``, in words."""
    effect: Effect | None
    """None where no value differs."""
    detectable: float | None
    """The smallest difference that n could show with 80 % power at alpha 0.05, given how often (or how much) the arms
    differ; None where it could show none."""
    discordant: Discordant | None = None
    """For values that are 0 or 1 in both arms."""

    @property
    def significant(self) -> bool:
        """Whether ``p_holm`` is below 0.05."""
        return self.p_holm < 0.05


def paired_tests(pairs: Sequence[tuple[Arm, Arm]], metrics: Sequence[str] = ()) -> list[PairedTest]:
    """Every pair by every value that both arms hold, over questions; Holm-corrected over all of them.

    Args:
        pairs: Left and right arm.
        metrics: Names of values; empty for the arms' own ``metrics``.

    Values 0 or 1 (after repeats are averaged): McNemar's exact test, and the difference's interval by Bonett and Price
    (2012). Others: the paired bootstrap over questions, 9,999 resamples with a fixed seed, the percentile interval,
    and p as the share of resamples whose difference is at least as far from the observed one as that is from 0 (Efron
    and Tibshirani, 1993, section 16.4); for fewer than 50 questions p is that of the paired permutation test, in which
    the arms of each question are swapped or not (Fisher, 1935): all ways, or 9,999 drawn with a fixed seed.

    Questions of several datasets: that test, and t on standard errors clustered by dataset; the larger p, the larger
    detectable difference, and an interval that holds both.
    """
    return _corrected([found for asked in _asked(pairs, metrics) if (found := paired_test(*asked))])


def repeat_tests(pairs: Sequence[tuple[Arm, Arm]], metrics: Sequence[str] = ()) -> list[PairedTest]:
    """Like :func:`paired_tests`, across repeats: a paired t test on the repeats' means.

    The repeats are the sample, the questions fixed: what it shows holds for these questions. Repeats of one number
    have the same seeds, so they are pairs. Only pairs of arms with three repeats or more that do vary.
    """
    return _corrected([found for asked in _asked(pairs, metrics) if (found := repeat_test(*asked))])


def _asked(pairs: Sequence[tuple[Arm, Arm]], metrics: Sequence[str]) -> Iterator[tuple[Arm, Arm, str]]:
    for left, right in pairs:
        for name in metrics or dict.fromkeys((*left.metrics, *right.metrics)):
            yield left, right, name


def paired_test(left: Arm, right: Arm, metric: str) -> PairedTest | None:
    """One test over questions, uncorrected (``p_holm`` is ``p``); None if no question has that value in both arms."""
    shared = [key for key in left.questions if key in right.questions]
    ours, theirs = left.values.get(metric, {}), right.values.get(metric, {})
    held = [key for key in shared if key in ours and key in theirs]
    if not held:
        return None
    one = [_mean(ours[key].values()) for key in held]
    two = [_mean(theirs[key].values()) for key in held]
    found = _compared(one, two, [left.questions[key] for key in held])
    return PairedTest(
        left=left.name,
        right=right.name,
        metric=metric,
        n=len(held),
        left_out=sum((key in ours) != (key in theirs) for key in shared),
        left_value=_mean(one),
        right_value=_mean(two),
        difference=found.difference,
        p=found.p,
        p_holm=found.p,
        test=found.test,
        effect=found.effect,
        detectable=found.detectable,
        discordant=found.discordant,
    )


def repeat_test(left: Arm, right: Arm, metric: str) -> PairedTest | None:
    """One test across repeats, uncorrected; None for fewer than three of them, or where their differences are equal."""
    shared = [key for key in left.questions if key in right.questions]
    ours, theirs = left.values.get(metric, {}), right.values.get(metric, {})
    held = [key for key in shared if key in ours and key in theirs]
    repeats = sorted(set().union(*(ours[key] for key in held)) & set().union(*(theirs[key] for key in held)))
    whole = [key for key in held if all(n in ours[key] and n in theirs[key] for n in repeats)]
    if len(repeats) < MIN_REPEATS or not whole:
        return None
    one, two = ([_mean(values[key][n] for key in whole) for n in repeats] for values in (ours, theirs))
    differences = [b - a for a, b in zip(one, two, strict=True)]
    if _sd(differences) == 0:
        return None
    from scipy.stats import ttest_rel

    found = ttest_rel(two, one)
    interval = found.confidence_interval(0.95)
    return PairedTest(
        left=left.name,
        right=right.name,
        metric=metric,
        n=len(repeats),
        left_out=sum(key in ours or key in theirs for key in shared) - len(whole),
        left_value=_mean(one),
        right_value=_mean(two),
        difference=Estimate(
            value=_mean(differences), low=float(interval.low), high=float(interval.high), n=len(repeats)
        ),
        p=float(found.pvalue),
        p_holm=float(found.pvalue),
        test=f"paired t over {len(repeats)} repeats of {len(whole)} questions",
        effect=_cohen_d(differences),
        detectable=detectable_mean(len(repeats), _sd(differences), df=len(repeats) - 1),
    )


def holm(ps: Sequence[float]) -> list[float]:
    """The p values corrected for their number, in the same order (Holm, 1979), at most 1."""
    corrected = [0.0] * len(ps)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = worst
    return corrected


def _corrected(tests: Sequence[PairedTest]) -> list[PairedTest]:
    corrected = holm([test.p for test in tests])
    return [replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Compared:
    difference: Estimate
    p: float
    test: str
    effect: Effect | None
    detectable: float | None
    discordant: Discordant | None


def _compared(one: Sequence[float], two: Sequence[float], datasets: Sequence[str | None]) -> _Compared:
    """The test that fits one value a question in each of two arms."""
    differences = [b - a for a, b in zip(one, two, strict=True)]
    discordant = _discordant(one, two)
    alone = _graded(differences) if discordant is None else _rates(discordant)
    return _with_clusters(alone, differences, datasets) if enough(datasets) else alone


def _with_clusters(alone: _Compared, differences: Sequence[float], datasets: Sequence[str | None]) -> _Compared:
    """The more cautious of the test of one sample and of t on clustered standard errors, in each figure."""
    several = len(set(datasets))
    detectable = detectable_mean(1, clustered_error(differences, datasets), df=several - 1)
    difference = widened(alone.difference, clustered(differences, datasets))
    if max(map(abs, differences)) <= 1:
        difference = replace(difference, low=max(difference.low, -1.0), high=min(difference.high, 1.0))
    return replace(
        alone,
        difference=difference,
        p=max(alone.p, clustered_p(differences, datasets)),
        test=f"the more cautious of {alone.test}, and t with standard errors clustered by {several} datasets",
        detectable=None if alone.detectable is None else max(alone.detectable, detectable or 0.0),
    )


def _rates(discordant: Discordant) -> _Compared:
    n = discordant.both + discordant.only_left + discordant.only_right + discordant.neither
    return _Compared(
        difference=_bonett_price(discordant),
        p=_mcnemar(discordant),
        test="McNemar, exact",
        effect=_cohen_g(discordant),
        detectable=detectable_rate(n, (discordant.only_left + discordant.only_right) / n),
        discordant=discordant,
    )


def _graded(differences: Sequence[float]) -> _Compared:
    few = len(differences) < _FEW
    difference, p = _bootstrapped(differences)
    return _Compared(
        difference=difference,
        p=_permuted(differences) if few else p,
        test="paired permutation, bootstrap interval" if few else "paired bootstrap",
        effect=_cohen_d(differences),
        detectable=detectable_mean(len(differences), _sd(differences)),
        discordant=None,
    )


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
    n, mean = len(differences), _mean(differences)
    if len(set(differences)) == 1:
        return Estimate(value=mean, low=mean, high=mean, n=n), 1 / (_RESAMPLES + 1) if mean else 1.0
    import numpy
    from scipy.stats import bootstrap

    found = bootstrap(
        (numpy.asarray(differences),),
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
    """The two-sided p that the mean difference is 0, by swapping the arms of questions."""
    if len(differences) == 1:
        return 1.0
    import numpy
    from scipy.stats import permutation_test

    found = permutation_test(
        (numpy.asarray(differences),),
        numpy.mean,
        permutation_type="samples",
        n_resamples=_RESAMPLES,
        rng=numpy.random.default_rng(BOOTSTRAP_SEED),
    )
    return float(found.pvalue)


def _cohen_g(found: Discordant) -> Effect | None:
    pairs = found.only_left + found.only_right
    if not pairs:
        return None
    low, high = wilson(found.only_right, pairs)
    return Effect(name="Cohen's g", value=found.only_right / pairs - 0.5, low=low - 0.5, high=high - 0.5)


def _cohen_d(differences: Sequence[float]) -> Effect | None:
    sd = _sd(differences)
    return Effect(name="Cohen's d", value=_mean(differences) / sd) if sd > 0 else None


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return sum(held) / len(held)


def _sd(values: Sequence[float]) -> float:
    """Of a sample; 0 for one value, and for equal ones that rounding has told apart."""
    from statistics import stdev

    found = stdev(values) if len(values) > 1 else 0.0
    return found if found > 1e-12 else 0.0
