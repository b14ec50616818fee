"""Two arms on the questions that both hold: is one better, by how much, what could have been seen? Repeats averaged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean, stdev
from typing import Any, Literal

from madke.scoring.arms import ArmValues, QuestionKey
from madke.scoring.debate_rows import NO_SHARES
from madke.scoring.statistics import (
    BOOTSTRAP_SEED,
    RESAMPLES_AT_ONCE,
    Estimate,
    bootstrap,
    detectable_mean,
    detectable_rate,
    wilson,
)

_ALPHA = 0.05
_RESAMPLES = 9999
_ALL_WAYS = 15
"""Up to so many questions that differ, all ways to swap arms are tried."""
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
    """How large a difference is, without unit; above 0 in favour of the right arm."""

    name: str
    """``Cohen's g``: the share of discordant pairs in favour, less one half (0.05 small, 0.15 medium, 0.25 large;
    Cohen, 1988, chapter 5). ``Cohen's d``: the mean of the differences over their standard deviation."""
    value: float
    low: float | None = None
    high: float | None = None
    """95 % interval of g, by Wilson's score interval of the share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tested:
    difference: Estimate
    """``right - left``, in the value's own unit."""
    p: float
    """Two-sided."""
    test: str
    """Which test gave ``p``, in words."""
    effect: Effect | None
    """None where no value differs."""
    detectable: float | None
    """The smallest difference that n could show with 80 % power at alpha 0.05, given how often (or how much) the arms
    differ; None where it could show none."""
    discordant: Discordant | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedTest(_Tested):
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
    p_holm: float
    """Corrected over the family of tests it stands in (Holm, 1979)."""
    over: Literal["questions", "repeats"] = "questions"
    """What ``n`` counts."""
    if_failed: tuple[float, float] | None = None
    """The difference if every debate that failed in one arm only had gone against the right arm, and in its favour;
    None where there is none, for values that have degrees, and across repeats."""
    p_if_failed: float = 0.0
    """The larger p of these two, uncorrected; 1 where they and ``difference`` are not on one side of 0."""

    @property
    def significant(self) -> bool:
        """Whether ``p_holm`` is below 0.05, and failed debates could not have undone the difference."""
        return max(self.p_holm, self.p_if_failed) < _ALPHA


def paired_tests(pairs: Sequence[tuple[ArmValues, ArmValues]], metrics: Sequence[str] = ()) -> list[PairedTest]:
    """Every pair by every value that both arms hold, over questions; Holm-corrected over all of them.

    ``metrics`` are names of values; empty for the arms' own. Values 0 or 1 (after repeats are averaged): McNemar's
    exact test, and the difference's interval by Bonett and Price (2012). Others: the paired permutation test, in which
    the arms of each question are swapped or not (Fisher, 1935): all ways for up to 15 questions that differ, else 9,999
    drawn with a fixed seed; and the percentile bootstrap's interval over questions, 9,999 resamples.
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
    shared, held = _both(left, right, metric)
    if not held:
        return None
    ours, theirs = left.values[metric], right.values[metric]
    one, two = ([fmean(values[key].values()) for key in held] for values in (ours, theirs))
    left_out = sum((key in ours) != (key in theirs) for key in shared)
    return _with_failed(_test((left, right), metric, one, two, _tested(one, two), left_out=left_out), left, right)


def _both(left: ArmValues, right: ArmValues, metric: str) -> tuple[list[QuestionKey], list[QuestionKey]]:
    """The questions of both arms, and those of them that have the value in both."""
    shared = [key for key in left.questions if key in right.questions]
    ours, theirs = left.values.get(metric, {}), right.values.get(metric, {})
    return shared, [key for key in shared if key in ours and key in theirs]


def _test(
    arms: tuple[ArmValues, ArmValues], metric: str, one: list[float], two: list[float], found: _Tested, **more: Any
) -> PairedTest:
    left, right = arms
    return PairedTest(
        left=left.name,
        right=right.name,
        metric=metric,
        n=len(one),
        left_value=fmean(one),
        right_value=fmean(two),
        p_holm=found.p,
        **{each.name: getattr(found, each.name) for each in fields(found)},
        **more,
    )


def _with_failed(test: PairedTest, left: ArmValues, right: ArmValues) -> PairedTest:
    ours, theirs = left.values[test.metric], right.values[test.metric]
    keys = [key for key in left.questions if key in right.questions and (key in ours or key in theirs)]
    lost = {key for key in keys if key not in ours and key in left.failed}
    lost |= {key for key in keys if key not in theirs and key in right.failed}
    binary = all(value in (0.0, 1.0) for held in (ours, theirs) for key in held for value in held[key].values())
    if not lost or not binary or test.metric in NO_SHARES:
        return test
    kept = [key for key in keys if (key in ours and key in theirs) or key in lost]
    extremes = []
    for failed in (0.0, 1.0):
        one = [fmean(ours[key].values()) if key in ours else 1 - failed for key in kept]
        two = [fmean(theirs[key].values()) if key in theirs else failed for key in kept]
        extremes.append(_tested(one, two))
    low, high = (each.difference.value for each in extremes)
    signs = {math.copysign(1, value) if value else 0 for value in (low, test.difference.value, high)}
    p = max(each.p for each in extremes) if signs in ({1.0}, {-1.0}) else 1.0
    return replace(test, if_failed=(low, high), p_if_failed=p)


def repeat_test(left: ArmValues, right: ArmValues, metric: str) -> PairedTest | None:
    """One test across repeats, uncorrected; None for fewer than three of them, or where their differences are equal."""
    shared, held = _both(left, right, metric)
    ours, theirs = left.values.get(metric, {}), right.values.get(metric, {})
    repeats = sorted(set().union(*(ours[key] for key in held)) & set().union(*(theirs[key] for key in held)))
    whole = [key for key in held if all(n in ours[key] and n in theirs[key] for n in repeats)]
    if len(repeats) < 3 or not whole:
        return None
    one, two = ([fmean(values[key][n] for key in whole) for n in repeats] for values in (ours, theirs))
    differences = [b - a for a, b in zip(one, two, strict=True)]
    if _sd(differences) == 0:
        return None
    from scipy.stats import ttest_rel

    t = ttest_rel(two, one)
    low, high = map(float, t.confidence_interval(0.95))
    found = _Tested(
        difference=Estimate(value=fmean(differences), low=low, high=high, n=len(repeats)),
        p=float(t.pvalue),
        test=f"paired t over {len(repeats)} repeats of {len(whole)} questions",
        effect=_cohen_d(differences),
        detectable=detectable_mean(len(repeats), _sd(differences), df=len(repeats) - 1),
    )
    left_out = sum(key in ours or key in theirs for key in shared) - len(whole)
    return _test((left, right), metric, one, two, found, left_out=left_out, over="repeats")


def holm(ps: Sequence[float]) -> list[float]:
    """The p values corrected for their number, in the same order (Holm, 1979), at most 1."""
    corrected = [0.0] * len(ps)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = worst
    return corrected


def _corrected(tests: Sequence[PairedTest]) -> list[PairedTest]:
    return [replace(test, p_holm=p) for test, p in zip(tests, holm([test.p for test in tests]), strict=True)]


def _tested(one: Sequence[float], two: Sequence[float]) -> _Tested:
    """The second values less the first, by the test that fits them: one value of each a question."""
    counts = Counter(zip(one, two, strict=True))
    both, only_left, only_right, neither = (
        counts.pop(pair, 0) for pair in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
    )
    if counts:
        return _graded([b - a for a, b in zip(one, two, strict=True)])
    return _rates(Discordant(both=both, only_left=only_left, only_right=only_right, neither=neither))


def _rates(found: Discordant) -> _Tested:
    """McNemar's exact, conditional test: the discordant pairs are tosses of a fair coin."""
    from scipy.stats import binomtest

    n, tosses = found.both + found.only_left + found.only_right + found.neither, found.only_left + found.only_right
    effect = None
    if tosses:
        low, high = wilson(found.only_right, tosses)
        value = found.only_right / tosses - 0.5
        effect = Effect(name="Cohen's g", value=value, low=low - 0.5, high=high - 0.5)
    return _Tested(
        difference=_bonett_price(found, n),
        p=float(binomtest(found.only_right, tosses).pvalue) if tosses else 1.0,
        test="McNemar, exact",
        effect=effect,
        detectable=detectable_rate(n, tosses / n),
        discordant=found,
    )


def _bonett_price(found: Discordant, n: int) -> Estimate:
    """The difference of two paired rates; Wald's interval with one pair added to each discordant cell.

    Bonett and Price (2012), one of the intervals that Fagerland, Lydersen and Laake (2014) recommend.
    """
    from scipy.stats import norm

    left, right = (found.only_left + 1) / (n + 2), (found.only_right + 1) / (n + 2)
    half = float(norm.ppf(0.975)) * math.sqrt((left + right - (right - left) ** 2) / (n + 2))
    value = (found.only_right - found.only_left) / n
    return Estimate(value=value, low=max(right - left - half, -1.0), high=min(right - left + half, 1.0), n=n)


def _graded(differences: Sequence[float]) -> _Tested:
    n, different = len(differences), [each for each in differences if abs(each) > _NOTHING]
    low, high = bootstrap(differences, _RESAMPLES)
    return _Tested(
        difference=Estimate(value=fmean(differences), low=low, high=high, n=n),
        p=_permuted(different),
        test="paired permutation",
        effect=_cohen_d(differences),
        detectable=detectable_mean(n, _sd(differences)) if len(different) > _NEVER else None,
    )


def _permuted(differences: Sequence[float]) -> float:
    """The two-sided p that the mean difference is 0, by swapping the arms of questions that differ."""
    if len(differences) <= 1:
        return 1.0
    import numpy

    held = numpy.asarray(sorted(differences))
    n, total = len(held), held.sum()
    if n <= _ALL_WAYS:
        ways = numpy.arange(2**n)[:, None] >> numpy.arange(n) & 1
        swapped = total - 2 * (ways @ held)
    else:
        draw = numpy.random.default_rng(BOOTSTRAP_SEED)
        parts = [RESAMPLES_AT_ONCE] * (_RESAMPLES // RESAMPLES_AT_ONCE) + [_RESAMPLES % RESAMPLES_AT_ONCE]
        swapped = total - 2 * numpy.concatenate(
            [draw.integers(0, 2, (part, n), numpy.int8).astype(float) @ held for part in parts]
        )
    # What equals the observed sum but for rounding counts as extreme.
    extreme = int((abs(swapped) >= abs(total) - _NOTHING * n).sum())
    return extreme / 2**n if n <= _ALL_WAYS else (extreme + 1) / (_RESAMPLES + 1)


def _cohen_d(differences: Sequence[float]) -> Effect | None:
    sd = _sd(differences)
    return Effect(name="Cohen's d", value=fmean(differences) / sd) if sd else None


def _sd(values: Sequence[float]) -> float:
    """Of a sample; 0 for one value, and for equal ones that rounding has told apart."""
    found = stdev(values) if len(values) > 1 else 0.0
    return found if found > _NOTHING else 0.0
