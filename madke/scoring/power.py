"""The smallest difference that a number of questions could show, with 80 % power at a two-sided alpha of 0.05."""

from __future__ import annotations

import math

_ALPHA = 0.05
_POWER = 0.8


def detectable_rate(n: int, discordance: float) -> float | None:
    """The smallest difference of two paired rates that McNemar's test on n questions could show.

    It solves ``n d^2 = (z_a sqrt(D) + z_b sqrt(D - d^2))^2`` for d (Connor, 1987, Biometrics 43, 207-211; Miettinen,
    1968), where D is the share of questions on which the arms differ.

    Args:
        n: Questions.
        discordance: D, in 0 .. 1.

    Returns:
        The difference, in 0 .. D. None if even a difference of D, one arm right wherever they differ, would be missed.
    """
    from scipy.optimize import brentq

    above, beyond = _quantiles()

    def shown(difference: float) -> float:
        spread = math.sqrt(max(discordance - difference**2, 0.0))
        return difference * math.sqrt(n) - above * math.sqrt(discordance) - beyond * spread

    if discordance <= 0 or shown(discordance) < 0:
        return None
    return float(brentq(shown, 0.0, discordance))


def detectable_mean(n: int, sd: float, df: int | None = None) -> float | None:
    """The smallest mean of paired differences that n of them could show: ``(q_a + q_b) sd / sqrt(n)``.

    As Miller (2024, "Adding Error Bars to Evals") has it, with the variance of the differences themselves. The
    quantiles are those of the test: normal, or Student's t, with which power is approximate (Bloom, 1995, Evaluation
    Review 19, 547-556).

    Args:
        n: Questions, or repeats.
        sd: Standard deviation of the differences; None is returned for 0.
        df: Degrees of freedom, where the test is a t test.
    """
    above, beyond = _quantiles(df)
    return (above + beyond) * sd / math.sqrt(n) if sd > 0 else None


def half_width(n: int) -> float:
    """Half of the 95 % interval (Wilson's) of a rate near one half on n questions: 0.044 for 500."""
    from madke.scoring.statistics import wilson

    low, high = wilson(n // 2, n)
    return (high - low) / 2


def _quantiles(df: int | None = None) -> tuple[float, float]:
    from scipy.stats import norm, t

    quantile = norm.ppf if df is None else t(df).ppf
    return float(quantile(1 - _ALPHA / 2)), float(quantile(_POWER))
