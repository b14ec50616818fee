"""Does a debate pay? A rule that may look at the results after every question, and ends with yes, no, or not yet.

It rests on two paired differences: a debate minus a vote of equal cost, and a debate minus one call with the same
passages. Each has a **confidence sequence**: an interval that covers the true difference with 95 % however often one
looks, so that a study may stop as soon as it knows.

The interval is the hedged capital process of Waudby-Smith and Ramdas (2023), Estimating means of bounded random
variables by betting, JRSS B 86, with a grid of bets (their section B.4): a gambler who believes that the mean of
x = (1 + d) / 2 is above m bets a share ``b`` of the capital on each question, which makes the capital
prod(1 - b + b x / m); a second one bets against it. A mean is left out when one of them has won more than 1 / alpha, by
Ville's inequality with probability alpha at most if it is the true one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, log
from statistics import fmean
from typing import Literal

from madke.scoring.statistics import Estimate

ALPHA = 0.05
"""Probability that a confidence sequence ever excludes the true difference."""
MARGIN = 0.1
"""Default of the smallest gain that is worth a debate."""

BETS = tuple((n + 0.5) / 40 for n in range(40))
WEIGHTS = tuple(bet * (1 - bet) / sum(b * (1 - b) for b in BETS) for bet in BETS)
"""Share of the capital that is bet each time -> share of the start capital that bets so (``BETS``, ``WEIGHTS``)."""
_NEEDED = log(2 / ALPHA)
"""Log of the factor by which one of the two gamblers must have multiplied the start capital of both."""
MAX_QUESTIONS = 100_000
"""A number of questions above this is not told."""

Outcome = Literal["yes", "no", "open"]


def confidence_sequence(differences: Sequence[float]) -> Estimate:
    """The mean of paired differences from -1 to 1, with an interval that holds at every look (95 %)."""
    if not differences:
        return Estimate(value=0.0, low=-1.0, high=1.0, n=0)
    up = Counter((1 + each) / 2 for each in differences)
    down = Counter({1 - value: count for value, count in up.items()})
    return Estimate(value=fmean(differences), low=2 * _lower(up) - 1, high=1 - 2 * _lower(down), n=len(differences))


def log_capital(values: Mapping[float, float], mean: float) -> float:
    """Log of what the gambler against a mean of at most ``mean`` has made of 1. ``values``: value -> its number."""
    logs = [
        log(weight) + sum(count * log(1 - bet + bet * value / mean) for value, count in values.items())
        for bet, weight in zip(BETS, WEIGHTS, strict=True)
    ]
    most = max(logs)
    return most + log(sum(exp(each - most) for each in logs))


def _lower(values: Mapping[float, float]) -> float:
    """The largest mean that the capital excludes: it falls where the mean rises."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if log_capital(values, middle) >= _NEEDED else (low, middle)
    return low


def questions_needed(differences: Sequence[float], than: float) -> int | None:
    """The number of questions that excludes the difference ``than``, if further ones are like these.

    None if more than :data:`MAX_QUESTIONS` would not.
    """
    if not differences or fmean(differences) == than:
        return None
    sign = 1 if fmean(differences) > than else -1
    counts, n = Counter((1 + sign * each) / 2 for each in differences), len(differences)

    def excludes(questions: int) -> bool:
        return log_capital({value: count * questions / n for value, count in counts.items()}, mean) >= _NEEDED

    mean = (1 + sign * than) / 2
    if not excludes(MAX_QUESTIONS):
        return None
    return bisect_left(range(MAX_QUESTIONS), True, key=excludes)


def planned_questions(margin: float, differing: float = 0.3) -> int:
    """The number of questions that shows a gain of ``margin`` where a share ``differing`` of the answers differ."""
    won, lost = (differing + margin) / 2, max(0.0, (differing - margin) / 2)
    each = [1.0] * ceil(1000 * won) + [-1.0] * ceil(1000 * lost)
    return questions_needed(each + [0.0] * (1000 - len(each)), 0.0) or MAX_QUESTIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """A debate against something that costs as much, or less."""

    over: str
    """The other arm."""
    gain: Estimate
    """Right answers of the debate minus those of the other, per question, with its confidence sequence."""
    margin: float

    @property
    def is_better(self) -> bool:
        """Whether the debate is better."""
        return self.gain.low > 0

    @property
    def is_worse(self) -> bool:
        """Whether the debate is worse."""
        return self.gain.high < 0

    @property
    def is_below_margin(self) -> bool:
        """Whether the gain is below the margin for sure."""
        return self.gain.high < self.margin


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether a debate pays.

    ``yes``: it is better than a vote of equal cost and than one call. ``no``: it is worse than one of them, or gains
    less than the margin over it. ``open``: neither is certain yet.
    """

    outcome: Outcome
    margin: float
    vote: Contrast
    call: Contrast
    adds: Mapping[str, Estimate]
    """What ``documents`` add to one call, a ``vote`` to one call with documents, and ``talking`` to a vote."""
    more: int | None
    """Further questions that would decide, if they are like these; None: too many to tell, or decided."""

    @property
    def deciding(self) -> Contrast:
        """The contrast that a ``no`` rests on; one call, which is cheaper, where both do."""
        return self.call if self.call.is_below_margin else self.vote

    @property
    def open(self) -> list[Contrast]:
        """The contrasts in which the debate is not better."""
        return [each for each in (self.vote, self.call) if not each.is_better]


def verdict_of(right: Mapping[str, Mapping[str, float]], *, margin: float = MARGIN) -> Verdict:
    """The verdict of a study: arm -> question -> its share of right answers. Unfinished questions are missing."""

    def differences(one: str, other: str) -> list[float]:
        return [value - right[other][id_] for id_, value in right[one].items() if id_ in right[other]]

    gains = {other: differences("debate", other) for other in ("votes", "rag")}
    both = [Contrast(over=name, gain=confidence_sequence(gain), margin=margin) for name, gain in gains.items()]
    outcome: Outcome = "open"
    more = None
    if all(each.is_better for each in both):
        outcome = "yes"
    elif any(each.is_below_margin for each in both):
        outcome = "no"
    else:  # until the debate is better in both, or the gain of one is below the margin
        undecided = [each for each in both if not each.is_better]
        wins = [questions_needed(gains[each.over], 0.0) if each.gain.value > 0 else None for each in undecided]
        ends = [None if None in wins else max(filter(None, wins))]
        ends += [questions_needed(gain, margin) for gain in gains.values() if gain and fmean(gain) < margin]
        known = [each for each in ends if each is not None]
        more = max(1, min(known) - min(each.gain.n for each in both)) if known else None
    return Verdict(
        outcome=outcome,
        margin=margin,
        vote=both[0],
        call=both[1],
        adds={
            "documents": confidence_sequence(differences("rag", "alone")),
            "vote": confidence_sequence(differences("votes", "rag")),
            "talking": both[0].gain,
        },
        more=more,
    )
