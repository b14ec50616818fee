"""Compare two arms on their shared questions: paired tests, and the number of questions that would decide."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean

from madke.scoring.arms import ArmValues, QuestionKey, Values, of_dataset
from madke.scoring.metrics import may_be_rate
from madke.scoring.statistics import BOOTSTRAP_SEED, RESAMPLES_AT_ONCE, Estimate, bootstrap, fair_coin_p

_ALPHA = 0.05
_RESAMPLES = 9999
_MAX_EXACT = 15
"""With at most 15 differing questions, all 2 ** n permutations are computed."""
_TOLERANCE = 1e-12
"""Smaller differences are rounding errors of 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Discordant:
    """Numbers of questions on which two arms were right (1) or wrong (0)."""

    both: int
    only_left: int
    only_right: int
    neither: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedTest:
    """A paired test of two arms on one value."""

    left: str = ""
    right: str = ""
    metric: str = ""
    dataset: str | None = None
    """The dataset whose questions are compared (empty: questions that name none); None: all questions."""
    n: int
    """Number of compared questions."""
    left_out: int = 0
    """Shared questions that have the value in only one arm, for example because the other arm failed."""
    left_value: float
    right_value: float
    difference: Estimate
    """``right - left``, in the value's own unit."""
    p: float
    """Two-sided."""
    p_holm: float = 1.0
    """Holm-corrected (Holm, 1979) over all pairs of arms, and datasets, that are tested on this value."""
    test: str
    discordant: Discordant | None = None
    if_failed: tuple[float, float] | None = None
    """The difference if debates that failed in only one arm all count against the right arm, and if all count for it;
    None without such debates, and for values that are not binary."""
    p_if_failed: float = 0.0
    """The larger uncorrected p of the two; 1 unless both have the sign of ``difference``."""

    @property
    def significant(self) -> bool:
        """Whether ``p_holm`` is below 0.05, whatever the outcome of failed debates."""
        return max(self.p_holm, self.p_if_failed) < _ALPHA


def paired_tests(pairs: Sequence[tuple[ArmValues, ArmValues]], metrics: Sequence[str] = ()) -> list[PairedTest]:
    """Test every pair of arms on every shared value; Holm-corrected over the pairs, for each value.

    ``metrics``: names of values; default: the arms' own. Shares, and values of external scorers, that are all 0 or 1
    (after averaging repeats): McNemar's exact test, and the interval of Bonett and Price (2012). Other values: the
    paired permutation test, which swaps the arms of each question (Fisher, 1935), exact for up to 15 differing
    questions, else with 9,999 random permutations of a fixed seed; and the percentile bootstrap interval over questions
    with 9,999 resamples.
    """
    tests = [test for left, right in pairs for test in _of_pair(left, right, metrics)]
    return _holm_corrected(tests, [test.metric for test in tests])


def paired_tests_by_dataset(
    pairs: Sequence[tuple[ArmValues, ArmValues]], metrics: Sequence[str] = ()
) -> list[PairedTest]:
    """As :func:`paired_tests`, within each dataset; Holm-corrected over the datasets and pairs.

    The first metrics of the datasets' tasks (EM here, label accuracy there) are one family, because they answer one
    question: which arm is right more often. Each other value is a family of its own. Empty if all shared questions are
    of one dataset.
    """
    names = dict.fromkeys(
        name or "" for left, right in pairs for key, name in left.questions.items() if key in right.questions
    )
    tests: list[PairedTest] = []
    families: list[str] = []
    for name in names if len(names) > 1 else ():
        for left, right in pairs:
            one, two = of_dataset(left, name), of_dataset(right, name)
            pair_tests = [replace(test, dataset=name) for test in _of_pair(one, two, metrics)]
            tests += pair_tests
            families += ("correct" if test.metric == one.first_metric else test.metric for test in pair_tests)
    return _holm_corrected(tests, families)


def _of_pair(left: ArmValues, right: ArmValues, metrics: Sequence[str]) -> list[PairedTest]:
    """The uncorrected tests of one pair."""
    names = dict.fromkeys(metrics or (*left.metrics, *right.metrics))
    first = left.first_metric if left.first_metric == right.first_metric else "correct"
    if first != "correct" and first in names:
        names.pop("correct", None)  # it would repeat the test of the first metric
    elif not metrics and len({*left.questions.values()}) > 1:
        names.pop("correct", None)  # it would pool what is measured differently: EM here, label accuracy there
    return [*filter(None, (paired_test(left, right, name) for name in names))]


def _holm_corrected(tests: Sequence[PairedTest], families: Sequence[str]) -> list[PairedTest]:
    """The tests with Holm's correction, within each family: several metrics of the same answers are not independent."""
    corrected = {
        name: iter(holm([one.p for one, of in zip(tests, families, strict=True) if of == name])) for name in families
    }
    return [replace(one, p_holm=next(corrected[of])) for one, of in zip(tests, families, strict=True)]


def paired_test(left: ArmValues, right: ArmValues, metric: str) -> PairedTest | None:
    """One uncorrected test over questions (``p_holm`` is ``p``); None if no question has the value in both arms."""
    lefts, rights = left.values.get(metric, {}), right.values.get(metric, {})
    shared = [key for key in left.questions if key in right.questions and (key in lefts or key in rights)]
    both = [key for key in shared if key in lefts and key in rights]
    if not both:
        return None

    def means(values: Values, keys: Iterable[QuestionKey], failed: float = 0.0) -> list[float]:
        return [fmean(values[key].values()) if key in values else failed for key in keys]

    test = compare_two if may_be_rate(metric) else _permutation_test
    result = test(means(lefts, both), means(rights, both))
    result = replace(result, left=left.name, right=right.name, metric=metric, p_holm=result.p)
    result = replace(result, left_out=len(shared) - len(both))
    lost = {key for key in shared if key not in lefts and key in left.failed}
    lost |= {key for key in shared if key not in rights and key in right.failed}
    numbers = {number for values in (lefts, rights) for repeats in values.values() for number in repeats.values()}
    if not lost or not may_be_rate(metric) or not numbers <= {0.0, 1.0}:
        return result
    # The worst and the best for the right arm: all its failed questions wrong and the other's right, and vice versa.
    keys = (*both, *lost)
    worst, best = (compare_two(means(lefts, keys, 1 - value), means(rights, keys, value)) for value in (0.0, 1.0))
    signs = {(each.difference.value > 0) - (each.difference.value < 0) for each in (worst, result, best)}
    p = max(worst.p, best.p) if signs in ({1}, {-1}) else 1.0
    return replace(result, if_failed=(worst.difference.value, best.difference.value), p_if_failed=p)


def holm(ps: Sequence[float]) -> list[float]:
    """The Holm-corrected p values (Holm, 1979), in the same order, at most 1."""
    corrected = [0.0] * len(ps)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = worst
    return corrected


def compare_two(one: Sequence[float], two: Sequence[float]) -> PairedTest:
    """One uncorrected test of the differences (second minus first), one value per question; binary ones get McNemar."""
    counts = Counter(zip(one, two, strict=True))
    binary = {"both": (1.0, 1.0), "only_left": (1.0, 0.0), "only_right": (0.0, 1.0), "neither": (0.0, 0.0)}
    discordant = Discordant(**{name: counts.pop(pair, 0) for name, pair in binary.items()})
    return _permutation_test(one, two) if counts else _mcnemar(discordant)


def _mcnemar(discordant: Discordant) -> PairedTest:
    """McNemar's exact conditional test: under the null hypothesis, discordant pairs are tosses of a fair coin.

    The interval of the difference is Wald's after adding one pair to each discordant cell (Bonett and Price, 2012;
    recommended by Fagerland, Lydersen and Laake, 2014).
    """
    n = discordant.both + discordant.only_left + discordant.only_right + discordant.neither
    left, right = (discordant.only_left + 1) / (n + 2), (discordant.only_right + 1) / (n + 2)
    half = NormalDist().inv_cdf(0.975) * math.sqrt((left + right - (right - left) ** 2) / (n + 2))
    low, high = max(right - left - half, -1.0), min(right - left + half, 1.0)
    return PairedTest(
        n=n,
        left_value=(discordant.both + discordant.only_left) / n,
        right_value=(discordant.both + discordant.only_right) / n,
        difference=Estimate(value=(discordant.only_right - discordant.only_left) / n, low=low, high=high, n=n),
        p=fair_coin_p(discordant.only_right, discordant.only_left + discordant.only_right),
        test="McNemar, exact",
        discordant=discordant,
    )


def equal_within(difference: Estimate, margin: float) -> bool:
    """Whether a difference is below the margin in both directions, by two one-sided tests at 5 % (Schuirmann, 1987).

    They hold where the 90 % interval, here a narrower 95 % interval around the same middle, lies within the margin.
    """
    middle, half = (difference.low + difference.high) / 2, half_of_90(difference)
    return -margin < middle - half and middle + half < margin


def half_of_90(difference: Estimate) -> float:
    """Half the width of the 90 % interval, from a 95 % interval that rests on the normal distribution."""
    normal = NormalDist().inv_cdf
    return (difference.high - difference.low) / 2 * normal(0.95) / normal(0.975)


def further_questions(test: PairedTest) -> int | None:
    """The number of further questions that would show a difference of this size, with 80 % power at 5 %.

    They are assumed to be like these. None for no difference.
    """
    size = abs(test.difference.value)
    if size <= _TOLERANCE:
        return None
    discordant = test.discordant
    variance = None if discordant is None else (discordant.only_left + discordant.only_right) / test.n - size**2
    if variance is None:  # from the interval
        variance = test.n * ((test.difference.high - test.difference.low) / 2 / NormalDist().inv_cdf(0.975)) ** 2
    needed = (NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)) ** 2 * variance / size**2
    return max(0, math.ceil(needed) - test.n)


def _permutation_test(one: Sequence[float], two: Sequence[float]) -> PairedTest:
    differences = [b - a for a, b in zip(one, two, strict=True)]
    different = [each for each in differences if abs(each) > _TOLERANCE]
    low, high = bootstrap(differences, _RESAMPLES)
    return PairedTest(
        n=len(differences),
        left_value=fmean(one),
        right_value=fmean(two),
        difference=Estimate(value=fmean(differences), low=low, high=high, n=len(differences)),
        p=_permutation_p(different),
        test="paired permutation",
    )


def _permutation_p(differences: Sequence[float]) -> float:
    """The two-sided p of a mean difference of 0, by swapping the arms of differing questions."""
    if len(differences) <= 1:
        return 1.0
    import numpy

    values = numpy.asarray(sorted(differences))
    n, total = len(values), values.sum()
    if n <= _MAX_EXACT:
        ways = numpy.arange(2**n)[:, None] >> numpy.arange(n) & 1
        swapped = total - 2 * (ways @ values)
    else:
        draw = numpy.random.default_rng(BOOTSTRAP_SEED)
        parts = [RESAMPLES_AT_ONCE] * (_RESAMPLES // RESAMPLES_AT_ONCE) + [_RESAMPLES % RESAMPLES_AT_ONCE]
        sums = [draw.integers(0, 2, (part, n), numpy.int8).astype(float) @ values for part in parts]
        swapped = total - 2 * numpy.concatenate(sums)
    # A sum that equals the observed one up to rounding counts as extreme.
    extreme = int((abs(swapped) >= abs(total) - _TOLERANCE * n).sum())
    return extreme / 2**n if n <= _MAX_EXACT else (extreme + 1) / (_RESAMPLES + 1)
