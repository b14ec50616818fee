"""Intervals and effective votes: held against published examples, against scipy, and against sums done by hand."""

import numpy as np
import pytest

from madke.scoring.statistics import bootstrap, effective_votes, estimate, wilson

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
def test_the_bootstrap_has_the_interval_of_scipys_in_any_order(values: list[float]) -> None:
    from scipy.stats import bootstrap as scipy_bootstrap

    theirs = scipy_bootstrap((values,), np.mean, n_resamples=20_000, batch=100, method="percentile", rng=1)
    expected = theirs.confidence_interval
    # Twice the standard error of a percentile from 20,000 resamples, in units of the interval's width.
    near = 0.02 * (expected.high - expected.low)

    assert bootstrap(values, 20_000) == pytest.approx((expected.low, expected.high), abs=near)
    assert bootstrap(values, 500) == bootstrap(sorted(values), 500)


def test_no_values_have_no_estimate_and_equal_ones_no_width() -> None:
    assert estimate([]) is None
    found = estimate([0.4, 0.4])
    assert (found.value, found.low, found.high) == (0.4, 0.4, 0.4)


# Each value is computed by hand: with k questions of n votes, SSB = n sum (m_i - m)^2, MSB = SSB / (k - 1),
# MSW = SSW / (k (n - 1)), ICC = (MSB - MSW) / (MSB + (n - 1) MSW).
@pytest.mark.parametrize(
    ("votes", "value"),
    [
        ([[1, 1, 1], [0, 0, 0], [1, 1, 1]], 1.0),  # MSW = 0, ICC = 1
        ([[1, 0], [0, 1]], 2.0),  # MSB = 0, ICC = -1: clipped to n
        # m = 2/3, 1/3, 1, 0: MSB = 5/9, MSW = 1/6, ICC = 7/16, 3 / (1 + 2 * 7/16)
        ([[1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]], 1.6),
        # m = 1, 1/2, 1/2, 0: MSB = 1/3, MSW = 1/4, ICC = 1/7, 2 / (1 + 1/7)
        ([[1, 1], [1, 0], [0, 1], [0, 0]], 1.75),
        # Sizes 4, 2, 2; m = 1/2, 1, 0; grand mean 1/2. SSB = 0 + 1/2 + 1/2, MSB = 1/2. SSW = 1, MSW = 1/5.
        # n0 = (8 - 24/8) / 2 = 5/2. ICC = (1/2 - 1/5) / (1/2 + 3/2 * 1/5) = 3/8. Mean n = 8/3.
        ([[1, 1, 0, 0], [1, 1], [0, 0]], (8 / 3) / (1 + 5 / 3 * 3 / 8)),
    ],
)
def test_effective_votes_of_small_tables(votes: list[list[float]], value: float) -> None:
    found = effective_votes(votes)
    assert (found.value, found.n) == (pytest.approx(value), len(votes))
    assert 1 <= found.low <= found.value <= found.high <= max(map(len, votes))


@pytest.mark.parametrize("votes", [[], [[1, 0]], [[1], [0]], [[1, 1], [1, 1]], [[0, 0], [0, 0]], [[], []]])
def test_effective_votes_are_undefined_where_nothing_varies(votes: list[list[float]]) -> None:
    assert effective_votes(votes) is None
