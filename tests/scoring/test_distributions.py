"""Our distributions against SciPy's."""

from __future__ import annotations

import pytest

from madke.scoring.distributions import fair_coin_p, normal_quantile, t_quantile, t_two_sided

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("df", [1, 2, 3, 5, 10, 29, 100, 1_000, 100_000])
def test_students_t(df: int) -> None:
    for t in (0.0, 1e-9, 0.3, 1.0, 2.5, -2.5, 8.0, 40.0):
        assert t_two_sided(t, df) == pytest.approx(2 * stats.t(df).sf(abs(t)), rel=1e-9)
    for share in (0.05, 0.5, 0.8, 0.9, 0.975, 0.999):
        assert t_quantile(share, df) == pytest.approx(stats.t(df).ppf(share), rel=1e-9, abs=1e-12)


def test_the_normal_distribution() -> None:
    for share in (0.01, 0.5, 0.8, 0.975):
        assert normal_quantile(share) == pytest.approx(stats.norm.ppf(share), abs=1e-12)


@pytest.mark.parametrize("tosses", [1, 2, 7, 40, 1_001, 20_000])
def test_tosses_of_a_fair_coin(tosses: int) -> None:
    for heads in {0, 1, tosses // 3, tosses // 2, tosses - 1, tosses}:
        assert fair_coin_p(heads, tosses) == pytest.approx(stats.binomtest(heads, tosses).pvalue, rel=1e-9)
    assert fair_coin_p(0, 0) == 1
