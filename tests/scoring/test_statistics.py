"""Intervals: held against published examples, and against scipy where a special case is one of its own."""

import numpy as np
import pytest

from madke.scoring.statistics import bootstrap, estimate, fair_coin_p, wilson

SEVEN = [0.2, 0.9, 0.4, 0.4, 0.7, 0.1, 0.55]


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    # Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_newcombe_tabulates_it(hits: int, n: int, low: float, high: float) -> None:
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)
    found = estimate([1.0] * hits + [0.0] * (n - hits))
    assert (found.low, found.high, found.n) == (*wilson(hits, n), n)


@pytest.mark.parametrize("values", [SEVEN * 30, [n % 97 / 97 for n in range(500)]])
def test_the_bootstrap_has_the_interval_of_scipys(values: list[float]) -> None:
    from scipy.stats import bootstrap as scipy_bootstrap

    theirs = scipy_bootstrap((values,), np.mean, n_resamples=20_000, batch=100, method="percentile", rng=1)
    expected = theirs.confidence_interval
    # Twice the standard error of a percentile from 20,000 resamples, in units of the interval's width.
    near = 0.02 * (expected.high - expected.low)

    assert bootstrap(values, 20_000) == pytest.approx((expected.low, expected.high), abs=near)


def test_no_values_have_no_estimate_and_equal_ones_no_width() -> None:
    assert estimate([]) is None
    found = estimate([0.4, 0.4])
    assert (found.value, found.low, found.high) == (0.4, 0.4, 0.4)


@pytest.mark.parametrize("tosses", [1, 2, 7, 40, 1_001, 20_000])
def test_tosses_of_a_fair_coin(tosses: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    for heads in {0, 1, tosses // 3, tosses // 2, tosses - 1, tosses}:
        assert fair_coin_p(heads, tosses) == pytest.approx(stats.binomtest(heads, tosses).pvalue, rel=1e-9)
    assert fair_coin_p(0, 0) == 1


def test_the_bootstrap_does_not_depend_on_the_order_of_the_values() -> None:
    assert bootstrap(SEVEN * 30, 500) == bootstrap(sorted(SEVEN * 30), 500)


def test_counts_that_happen_to_be_one_are_no_rate() -> None:
    found = estimate([1.0, 1.0, 1.0], shares=False)
    assert (found.low, found.high) == (1.0, 1.0)
