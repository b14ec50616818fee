"""Two arms on the same questions: is one better, by how much, and what difference could have been seen?

Everything is paired: only questions that both arms hold, with a value in both, count. Repeats of a question are
averaged first, so that the questions are the sample. Which test fits: :mod:`madke.scoring.difference`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from madke.scoring.arms import ArmValues
from madke.scoring.difference import Discordant, Effect, cohen_d, difference_of, mean_of, sd_of
from madke.scoring.power import detectable_mean
from madke.scoring.statistics import Estimate

MIN_REPEATS = 3
"""Fewer repeats say too little about how much they vary."""


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


def paired_tests(pairs: Sequence[tuple[ArmValues, ArmValues]], metrics: Sequence[str] = ()) -> list[PairedTest]:
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


def repeat_tests(pairs: Sequence[tuple[ArmValues, ArmValues]], metrics: Sequence[str] = ()) -> list[PairedTest]:
    """Like :func:`paired_tests`, across repeats: a paired t test on the repeats' means.

    The repeats are the sample, the questions fixed: what it shows holds for these questions. Repeats of one number
    have the same seeds, so they are pairs. Only pairs of arms with three repeats or more that do vary.
    """
    return _corrected([found for asked in _asked(pairs, metrics) if (found := repeat_test(*asked))])


def _asked(
    pairs: Sequence[tuple[ArmValues, ArmValues]], metrics: Sequence[str]
) -> Iterator[tuple[ArmValues, ArmValues, str]]:
    for left, right in pairs:
        for name in metrics or dict.fromkeys((*left.metrics, *right.metrics)):
            yield left, right, name


def paired_test(left: ArmValues, right: ArmValues, metric: str) -> PairedTest | None:
    """One test over questions, uncorrected (``p_holm`` is ``p``); None if no question has that value in both arms."""
    shared = [key for key in left.questions if key in right.questions]
    ours, theirs = left.values.get(metric, {}), right.values.get(metric, {})
    held = [key for key in shared if key in ours and key in theirs]
    if not held:
        return None
    one = [mean_of(ours[key].values()) for key in held]
    two = [mean_of(theirs[key].values()) for key in held]
    found = difference_of(one, two, [left.questions[key] for key in held])
    return PairedTest(
        left=left.name,
        right=right.name,
        metric=metric,
        n=len(held),
        left_out=sum((key in ours) != (key in theirs) for key in shared),
        left_value=mean_of(one),
        right_value=mean_of(two),
        difference=found.difference,
        p=found.p,
        p_holm=found.p,
        test=found.test,
        effect=found.effect,
        detectable=found.detectable,
        discordant=found.discordant,
    )


def repeat_test(left: ArmValues, right: ArmValues, metric: str) -> PairedTest | None:
    """One test across repeats, uncorrected; None for fewer than three of them, or where their differences are equal."""
    shared = [key for key in left.questions if key in right.questions]
    ours, theirs = left.values.get(metric, {}), right.values.get(metric, {})
    held = [key for key in shared if key in ours and key in theirs]
    repeats = sorted(set().union(*(ours[key] for key in held)) & set().union(*(theirs[key] for key in held)))
    whole = [key for key in held if all(n in ours[key] and n in theirs[key] for n in repeats)]
    if len(repeats) < MIN_REPEATS or not whole:
        return None
    one, two = ([mean_of(values[key][n] for key in whole) for n in repeats] for values in (ours, theirs))
    differences = [b - a for a, b in zip(one, two, strict=True)]
    if sd_of(differences) == 0:
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
        left_value=mean_of(one),
        right_value=mean_of(two),
        difference=Estimate(
            value=mean_of(differences), low=float(interval.low), high=float(interval.high), n=len(repeats)
        ),
        p=float(found.pvalue),
        p_holm=float(found.pvalue),
        test=f"paired t over {len(repeats)} repeats of {len(whole)} questions",
        effect=cohen_d(differences),
        detectable=detectable_mean(len(repeats), sd_of(differences), df=len(repeats) - 1),
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
