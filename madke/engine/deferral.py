"""Act on an answer or defer it: a threshold on the agreement of the debaters, with a bound on the error.

Learn then Test (Angelopoulos, Bates, Candès, Jordan, Lei, 2021) with fixed sequence testing: thresholds are tried from
the strictest on, each by an exact binomial test of "more than the level of the answers acted on are wrong". The last
one that passes is used. With probability ``1 - delta`` over the calibration questions, the share of wrong answers among
those acted on is at most the level, for questions like those of the calibration.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field

from madke.core.transcript import Deferral, Transcript
from madke.engine.agreement import recorded_agreement
from madke.tasks.base import BaseTask


def agreement_share(transcript: Transcript, task: BaseTask) -> float | None:
    """The share of debaters whose last answer is the final one; None without an answer. No golds are read."""
    agreement = recorded_agreement(transcript, task)
    if stated_answer(transcript) is None or agreement is None:
        return None
    supporters = {agent for each in agreement.positions for agent in each.supporters}
    # With samples of one vote, the agreement is that of all rounds. The last one may have failed calls too.
    asked = supporters | {*agreement.silent, *(turn.agent for turn in transcript.rounds[-1].turns)}
    return len(supporters - {*agreement.dissent}) / max(1, len(asked))


def stated_answer(transcript: Transcript) -> str | None:
    """The final answer, also a deferred one."""
    return transcript.answer if transcript.deferral is None else transcript.deferral.answer


# Thresholds.

CALIBRATION_FORMAT = 3
Level = Annotated[float, Field(gt=0, lt=1)]


class Calibration(BaseModel, frozen=True, extra="forbid"):
    """What ``madke score --calibrate`` learned from a run: how often each share of agreement was right."""

    format: int = CALIBRATION_FORMAT
    run: str
    """The run's name, for display."""
    variant: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    points: tuple[tuple[float, bool], ...]
    """The share (:func:`agreement_share`), and whether the answer was wrong, for each question."""
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

    def settle(self, task: BaseTask) -> Callable[[Transcript], Transcript]:
        """Defers the debates of a task that do not reach the threshold."""
        least = self.calibration.threshold(self.level)
        assert least is not None, "resolve() checks it"

        def deferred(transcript: Transcript) -> Transcript:
            score = agreement_share(transcript, task) or 0.0
            if transcript.status != "ok" or score >= least:
                return transcript
            bound = f"the least for an error of at most {100 * self.level:g} %"
            reason = f"its agreement {score:.2f} is below {least:.2f}, {bound}"
            deferral = Deferral(reason=reason, answer=transcript.answer, score=score)
            return replace(transcript, status="deferred", answer=None, deferral=deferral)

        return deferred
