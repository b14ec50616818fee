"""Act on an answer or defer it: thresholds on a debate's signals with a bound on the error among answers acted on.

Learn then Test (Angelopoulos, Bates, Candès, Jordan, Lei, 2021) with fixed sequence testing: thresholds are tried from
the strictest on, each by an exact binomial test of "more than the level of the answers acted on are wrong". The last
one that passes is used. With probability ``1 - delta`` over the calibration questions, the share of wrong answers among
those acted on is at most the level, for questions like those of the calibration.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field

from madke.core.transcript import Deferral, Transcript
from madke.engine.signals import Settle, signals
from madke.tasks.base import Task

CALIBRATION_FORMAT = 1
Level = Annotated[float, Field(gt=0, lt=1)]


class Weight(BaseModel, frozen=True, extra="forbid"):
    """How one signal counts: ``weight * ((value - mean) / scale)``. A missing value counts as the mean."""

    mean: float
    scale: Annotated[float, Field(gt=0)]
    weight: float


class Calibration(BaseModel, frozen=True, extra="forbid"):
    """What ``madke calibrate`` learned from a run: a score of debates, and how often each score was right."""

    format: int = CALIBRATION_FORMAT
    run: str
    """The run's name, for display."""
    variant: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    weights: Mapping[str, Weight]
    """Signal -> how it counts. One signal counts alone."""
    fitted_on: int
    """Questions that the weights were fitted on; they are not among ``points``."""
    points: tuple[tuple[float, bool], ...]
    """Score and whether the answer was wrong, of the questions that thresholds are tested on."""
    delta: Level = 0.1
    """The probability that the bound does not hold."""

    def score(self, found: Mapping[str, float]) -> float:
        """The score of a debate with these signals."""
        return sum(
            each.weight * (found[name] - each.mean) / each.scale for name, each in self.weights.items() if name in found
        )

    def threshold(self, level: float) -> float | None:
        """The lowest score to act on, for at most this share of wrong answers; None if no threshold passes."""
        return threshold(self.points, level, self.delta)

    def fewest(self, level: float) -> int:
        """The fewest answers to act on with which a level can be shown: all of them right."""
        return fewest(level, self.delta)


def fewest(level: float, delta: float) -> int:
    """The smallest n with ``(1 - level) ** n <= delta``."""
    return math.ceil(math.log(delta) / math.log1p(-level))


def threshold(points: Sequence[tuple[float, bool]], level: float, delta: float) -> float | None:
    """Fixed sequence testing from the highest score on that at least :func:`fewest` points reach."""
    ordered = sorted(points, key=lambda point: -point[0])
    passed, wrong, least = None, 0, fewest(level, delta)
    for place, (score, is_wrong) in enumerate(ordered, start=1):
        wrong += is_wrong
        if place < least or (place < len(ordered) and ordered[place][0] == score):
            continue
        if binomial_tail(wrong, place, level) > delta:
            break
        passed = score
    return passed


def binomial_tail(k: int, n: int, p: float) -> float:
    """The probability of at most ``k`` of ``n`` at rate ``p``."""
    logs = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log1p(-p)
        for i in range(k + 1)
    ]
    return min(1.0, math.fsum(map(math.exp, logs)))


class Deferring(BaseModel, frozen=True, extra="forbid"):
    """A calibration with the level that is asked for."""

    level: Level
    calibration: Calibration

    def settle(self, task: Task) -> Settle:
        """Defers the debates of a task that do not reach the threshold."""
        least = self.calibration.threshold(self.level)
        assert least is not None, "resolve() checks it"

        def settle(transcript: Transcript) -> Transcript:
            return self._deferred(transcript, task, least)

        return settle

    def _deferred(self, transcript: Transcript, task: Task, least: float) -> Transcript:
        if transcript.status != "ok":
            return transcript
        score = self.calibration.score(signals(transcript, task))
        if score >= least:
            return transcript
        deferral = Deferral(reason=self._reason(transcript, task, score, least), answer=transcript.answer, score=score)
        return replace(transcript, status="deferred", answer=None, deferral=deferral)

    def _reason(self, transcript: Transcript, task: Task, score: float, least: float) -> str:
        bound = f"an error of at most {100 * self.level:g} %"
        found = signals(transcript, task)
        names = sorted((n for n in self.calibration.weights if n in found), key=self._against(found))[:2]
        why = ", ".join(f"{name} {found[name]:.2f}" for name in names)
        return f"its score {score:.2f} is below {least:.2f}, the least for {bound} ({why or 'no signals'})"

    def _against(self, found: Mapping[str, float]) -> Callable[[str], float]:
        weights = self.calibration.weights
        return lambda name: weights[name].weight * (found[name] - weights[name].mean) / weights[name].scale
