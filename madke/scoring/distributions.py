"""Student's t and the sign test, in the few forms that scores need, without SciPy."""

import math
from statistics import NormalDist

_TINY = 1e-300
_STEPS = 300
_CLOSE = 1e-15


def normal_quantile(share: float) -> float:
    """The value below which this share of a standard normal distribution lies."""
    return NormalDist().inv_cdf(share)


def t_two_sided(t: float, df: int) -> float:
    """The chance that Student's t with ``df`` degrees of freedom is at least as far from 0 as ``t``."""
    return _beta_share(df / (df + t * t), df / 2, 0.5)


def t_quantile(share: float, df: int) -> float:
    """The value below which this share of Student's t lies; by bisection, to the last bit."""
    if share < 0.5:
        return -t_quantile(1 - share, df)
    low, high = 0.0, 1.0
    while 1 - t_two_sided(high, df) / 2 < share:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if 1 - t_two_sided(middle, df) / 2 < share:
            low = middle
        else:
            high = middle
    return high


def fair_coin_p(heads: int, tosses: int) -> float:
    """The two-sided exact p value of so many heads in the tosses of a fair coin; 1 without any toss."""
    if tosses == 0:
        return 1.0
    tail = term = 1
    for n in range(1, min(heads, tosses - heads) + 1):
        term = term * (tosses - n + 1) // n
        tail += term
    return min(1.0, tail / (1 << (tosses - 1)))


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun, 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction, from the front (Lentz, 1976)."""
    value = c = 1.0
    d = 0.0
    for n in range(_STEPS):
        m = n // 2
        if n == 0:
            numerator = 1.0
        elif n % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _not_zero(1 + numerator * d)
        c = _not_zero(1 + numerator / c)
        value *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return value - 1


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
