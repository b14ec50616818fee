"""How well a signal tells right answers from wrong ones: risk-coverage curves, AURC, reliability."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from madke.scoring.statistics import Estimate, estimate

Points = Sequence[tuple[float, bool]]
"""The value of a signal, and whether the answer was wrong, for each question."""


def risk_coverage(points: Points) -> list[tuple[float, float]]:
    """(Coverage, share of wrong answers among the n with the highest values) for n = 1, 2, ...

    Equal values have no order: their wrong answers count evenly among them (Geifman and El-Yaniv, 2017).
    """
    curve, taken, wrong = [], 0, 0.0
    ordered = sorted(points, key=lambda point: -point[0])
    for _, group in groupby(ordered, key=lambda point: point[0]):
        tied = [is_wrong for _, is_wrong in group]
        rate = sum(tied) / len(tied)
        curve += [((taken + n) / len(points), (wrong + rate * n) / (taken + n)) for n in range(1, len(tied) + 1)]
        taken, wrong = taken + len(tied), wrong + sum(tied)
    return curve


def aurc(points: Points) -> float:
    """The area under the risk-coverage curve: the mean risk over coverages (Geifman et al., 2019). Lower is better."""
    curve = risk_coverage(points)
    return sum(risk for _, risk in curve) / len(curve)


def accuracy_at(points: Points, coverage: float) -> float:
    """The share of right answers among this share of the questions, those with the highest values."""
    curve = risk_coverage(points)
    return 1 - next(risk for covered, risk in curve if covered >= coverage - 1e-9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """Questions with values from ``low`` to ``high``."""

    low: float
    high: float
    right: Estimate
    """Share of right answers."""


def reliability(points: Points, bins: int = 5) -> list[Bin]:
    """How often answers are right, by value: a bin for each value if there are few, else quantiles."""
    ordered = sorted(points)
    values = sorted({value for value, _ in ordered})
    if len(values) <= bins:
        groups = [[point for point in ordered if point[0] == value] for value in values]
    else:
        ends = [round(n * len(ordered) / bins) for n in range(bins + 1)]
        groups = [ordered[start:end] for start, end in pairwise(ends) if end > start]
    found = []
    for group in groups:
        right = estimate([float(not is_wrong) for _, is_wrong in group])
        assert right is not None
        found.append(Bin(low=group[0][0], high=group[-1][0], right=right))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalQuality:
    """One signal of a run's debates."""

    name: str
    n: int
    """Questions that have it."""
    wrong: Estimate
    """Share of wrong answers among them: the risk without deferring, and the AURC of a useless signal."""
    aurc: float
    best_aurc: float
    """The AURC of a signal that knows the right answers."""
    at_80: float
    """Accuracy at 80 % coverage."""
    reliability: tuple[Bin, ...]
    curve: tuple[tuple[float, float], ...]


def quality(name: str, points: Points) -> SignalQuality:
    """How well one signal tells right answers from wrong ones; ``points`` is not empty."""
    wrong = estimate([float(is_wrong) for _, is_wrong in points])
    assert wrong is not None
    return SignalQuality(
        name=name,
        n=len(points),
        wrong=wrong,
        aurc=aurc(points),
        best_aurc=aurc([(float(not is_wrong), is_wrong) for _, is_wrong in points]),
        at_80=accuracy_at(points, 0.8),
        reliability=tuple(reliability(points)),
        curve=tuple(risk_coverage(points)),
    )
