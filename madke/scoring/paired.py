"""Two arms on the same questions: is one better, by how much, and what difference could have been seen?

Everything is paired: only questions that both arms hold, with a value in both, count. Repeats of a question are
averaged first, so that the questions are the sample. Which test fits: :mod:`madke.scoring.difference`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from madke.scoring.arms import ArmValues
from madke.scoring.difference import Discordant, Effect, cohen_d, difference_of, mean_of, sd_of
from madke.scoring.power import detectable_mean
from madke.scoring.rows import NO_SHARES
from madke.scoring.statistics import Estimate

MIN_REPEATS = 3
"""Fewer repeats say too little about how much they vary."""

_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class IfFailed:
    """What a test of right or wrong would find, had the debates that failed in one arm only ended: the two extremes.

    In one everything that failed went against the right arm: its own failed ones are wrong, those of the left one
    right. In the other it is the reverse.
    """

    n: int
    """Questions that it is about."""
    low: float
    """The difference at the first extreme."""
    low_p: float
    high: float
    """At the second."""
    high_p: float
    p_holm: float
    """The larger of both p, corrected in the place of the test's own; 1 where the three differences are not on the same
    side of 0."""


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
    over: Literal["questions", "repeats"] = "questions"
    """What ``n`` counts."""
    if_failed: IfFailed | None = None
    """None where no question failed in one arm only, for values that have degrees, and across repeats."""

    @property
    def significant(self) -> bool:
        """Whether ``p_holm`` is below 0.05, and stays there whatever failed debates would have come to."""
        return self.p_holm < _ALPHA and (self.if_failed is None or self.if_failed.p_holm < _ALPHA)


def paired_tests(pairs: Sequence[tuple[ArmValues, ArmValues]], metrics: Sequence[str] = ()) -> list[PairedTest]:
    """Every pair by every value that both arms hold, over questions; Holm-corrected over all of them.

    Args:
        pairs: Left and right arm.
        metrics: Names of values; empty for the arms' own ``metrics``.

    Values 0 or 1 (after repeats are averaged): McNemar's exact test, and the difference's interval by Bonett and Price
    (2012). Others: the paired bootstrap over questions, 9,999 resamples with a fixed seed, the percentile interval,
    and p as the share of resamples whose difference is at least as far from the observed one as that is from 0 (Efron
    and Tibshirani, 1993, section 16.4). Where fewer than 50 questions differ, p is that of the paired permutation test,
    in which the arms of each question are swapped or not (Fisher, 1935): all ways for up to 15 of them, else 32,768
    drawn with a fixed seed; and the interval holds Student's too.

    Questions of several datasets: that test, and t on standard errors clustered by dataset; the larger p, the larger
    detectable difference, and an interval that holds both.

    Of values 0 or 1, questions that failed in one arm only are tested at both extremes as well (:class:`IfFailed`).
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
        names = dict.fromkeys(metrics or (*left.metrics, *right.metrics))
        # Where ``correct`` is a metric that is asked for too, they would be one test twice.
        once = left.first_metric == right.first_metric != "correct" and left.first_metric in names
        yield from ((left, right, name) for name in names if not (once and name == "correct"))


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
    test = PairedTest(
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
        if_failed=_if_failed(left, right, metric),
    )
    return _corrected([test])[0]


def _if_failed(left: ArmValues, right: ArmValues, metric: str) -> IfFailed | None:
    ours, theirs = left.values[metric], right.values[metric]
    keys = [key for key in left.questions if key in right.questions and (key in ours or key in theirs)]
    lost = [key for key in keys if key not in ours or key not in theirs]
    lost = [key for key in lost if key in (right if key in ours else left).failed]
    binary = all(value in (0.0, 1.0) for held in (ours, theirs) for key in held for value in held[key].values())
    if not lost or not binary or metric in NO_SHARES:
        return None
    kept = [key for key in keys if (key in ours and key in theirs) or key in lost]
    extremes = []
    for failed in (0.0, 1.0):
        one = [mean_of(ours[key].values()) if key in ours else 1 - failed for key in kept]
        two = [mean_of(theirs[key].values()) if key in theirs else failed for key in kept]
        extremes.append(difference_of(one, two, [left.questions[key] for key in kept]))
    low, high = extremes
    return IfFailed(
        n=len(lost),
        low=low.difference.value,
        low_p=low.p,
        high=high.difference.value,
        high_p=high.p,
        p_holm=1.0,
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
        over="repeats",
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
    ps = [test.p for test in tests]
    return [
        replace(test, p_holm=p, if_failed=_corrected_extremes(test, ps, n))
        for n, (test, p) in enumerate(zip(tests, holm(ps), strict=True))
    ]


def _corrected_extremes(test: PairedTest, ps: Sequence[float], n: int) -> IfFailed | None:
    """The extremes of the n-th test of a family with these p values."""
    found = test.if_failed
    if found is None:
        return None
    differences = (found.low, test.difference.value, found.high)
    one_side = min(differences) > 0 or max(differences) < 0
    worst = max(found.low_p, found.high_p)
    return replace(found, p_holm=holm([*ps[:n], worst, *ps[n + 1 :]])[n] if one_side else 1.0)
