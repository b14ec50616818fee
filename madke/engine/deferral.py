"""Act on an answer or defer it: thresholds on a debate's signals with a bound on the error among answers acted on.

Learn then Test (Angelopoulos, Bates, Candès, Jordan, Lei, 2021) with fixed sequence testing: thresholds are tried from
the strictest on, each by an exact binomial test of "more than the level of the answers acted on are wrong". The last
one that passes is used. With probability ``1 - delta`` over the calibration questions, the share of wrong answers among
those acted on is at most the level, for questions like those of the calibration.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field

from madke.core.transcript import Deferral, Transcript
from madke.engine.signals import Settle, signals
from madke.tasks.base import Task

CALIBRATION_FORMAT = 2
Level = Annotated[float, Field(gt=0, lt=1)]


class Calibration(BaseModel, frozen=True, extra="forbid"):
    """What ``madke calibrate`` learned from a run: how often each value of a signal was right."""

    format: int = CALIBRATION_FORMAT
    run: str
    """The run's name, for display."""
    variant: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    signal: str
    """The signal on which thresholds are set: :data:`madke.engine.signals.SIGNALS`."""
    points: tuple[tuple[float, bool], ...]
    """Its value and whether the answer was wrong, of the questions that thresholds are tested on."""
    delta: Level = 0.1
    """The probability that the bound does not hold."""

    def threshold(self, level: float) -> float | None:
        """The lowest value to act on, for at most this share of wrong answers; None if no threshold passes."""
        return threshold(self.points, level, self.delta)


def fewest(level: float, delta: float) -> int:
    """The fewest answers, all right, with which a level can be shown: the smallest n of ``(1 - level)**n <= delta``."""
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

        return lambda transcript: self._deferred(transcript, task, least)

    def _deferred(self, transcript: Transcript, task: Task, least: float) -> Transcript:
        if transcript.status != "ok":
            return transcript
        signal = self.calibration.signal
        score = signals(transcript, task).get(signal, 0.0)
        if score >= least:
            return transcript
        bound = f"an error of at most {100 * self.level:g} %"
        reason = f"its {signal} {score:.2f} is below {least:.2f}, the least for {bound}"
        deferral = Deferral(reason=reason, answer=transcript.answer, score=score)
        return replace(transcript, status="deferred", answer=None, deferral=deferral)
