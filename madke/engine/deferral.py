"""Act on an answer or defer it: thresholds on a debate's signals with a bound on the error among answers acted on.

Learn then Test (Angelopoulos, Bates, Candès, Jordan, Lei, 2021) with fixed sequence testing: thresholds are tried from
the strictest on, each by an exact binomial test of "more than the level of the answers acted on are wrong". The last
one that passes is used. With probability ``1 - delta`` over the calibration questions, the share of wrong answers among
those acted on is at most the level, for questions like those of the calibration.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field

from madke.core.transcript import Deferral, Transcript
from madke.engine.agreement import answer_groups, asked_question, matcher
from madke.tasks.base import BaseTask

# Signals: figures from a transcript that may tell whether its answer is right. No golds are read.

SIGNALS: Mapping[str, str] = {
    "agreement_first": "share of debaters in the largest group of equal answers after round 1",
    "agreement_last": "share of debaters whose last answer is the final one",
    "judge": "1 if the judge found consensus, 0 if not",
    "steady": "share of debaters who never changed their answer",
    "support": "share of the passages read for the answer that contain it",
}
"""Signal -> what it is. Each is from 0 to 1; more speaks for the answer."""


def signals(transcript: Transcript, task: BaseTask) -> dict[str, float]:
    """The signals of a debate with an answer; those that do not apply are missing, and all without an answer."""
    agreement = transcript.agreement
    if stated_answer(transcript) is None or agreement is None:
        return {}
    groups = answer_groups(transcript.rounds[0].turns, matcher(task, asked_question(transcript)))
    agents = {turn.agent for entry in transcript.rounds for turn in entry.turns}
    supporters = {agent for each in agreement.positions for agent in each.supporters}
    # With samples of one vote, the agreement is that of all rounds. The last one may have failed calls too.
    voters = supporters | {*agreement.silent, *(turn.agent for turn in transcript.rounds[-1].turns)}
    values = {
        "agreement_first": max(map(len, groups), default=0) / max(1, len(transcript.rounds[0].turns)),
        "agreement_last": len(supporters - {*agreement.dissent}) / max(1, len(voters)),
        "steady": 1 - len({change.agent for change in agreement.changes}) / max(1, len(agents)),
    }
    verdict = transcript.rounds[-1].verdict
    if verdict is not None and verdict.consensus is not None:
        values["judge"] = float(verdict.consensus)
    right = [each for each in agreement.positions if not {*each.supporters} & {*agreement.dissent}]
    read = {n for each in right for n in each.passages}
    if read and any(each.containing is not None for each in right):
        values["support"] = len({n for each in right for n in each.containing or ()}) / len(read)
    return values


def stated_answer(transcript: Transcript) -> str | None:
    """The final answer, also a deferred one."""
    return transcript.answer if transcript.deferral is None else transcript.deferral.answer


# Thresholds.

CALIBRATION_FORMAT = 2
Level = Annotated[float, Field(gt=0, lt=1)]


class Calibration(BaseModel, frozen=True, extra="forbid"):
    """What ``madke score --calibrate`` learned from a run: how often each value of a signal was right."""

    format: int = CALIBRATION_FORMAT
    run: str
    """The run's name, for display."""
    variant: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    signal: str
    """The signal on which thresholds are set: :data:`madke.engine.deferral.SIGNALS`."""
    points: tuple[tuple[float, bool], ...]
    """Its value and whether the answer was wrong, of the questions that thresholds are tested on."""
    delta: Level = 0.1
    """The probability that the bound does not hold."""

    def threshold(self, level: float) -> float | None:
        """The lowest value to act on, for at most this share of wrong answers; None if no threshold passes.

        Fixed sequence testing from the highest value on that at least :func:`fewest` points reach.
        """
        ordered = sorted(self.points, key=lambda point: -point[0])
        passed, wrong, least = None, 0, fewest(level, self.delta)
        for place, (score, is_wrong) in enumerate(ordered, start=1):
            wrong += is_wrong
            if place < least or (place < len(ordered) and ordered[place][0] == score):
                continue
            if binomial_tail(wrong, place, level) > self.delta:
                break
            passed = score
        return passed


def fewest(level: float, delta: float) -> int:
    """The fewest answers, all right, with which a level can be shown: the smallest n of ``(1 - level)**n <= delta``."""
    return math.ceil(math.log(delta) / math.log1p(-level))


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
        least, signal = self.calibration.threshold(self.level), self.calibration.signal
        assert least is not None, "resolve() checks it"

        def deferred(transcript: Transcript) -> Transcript:
            score = signals(transcript, task).get(signal, 0.0)
            if transcript.status != "ok" or score >= least:
                return transcript
            bound = f"the least for an error of at most {100 * self.level:g} %"
            reason = f"its {signal} {score:.2f} is below {least:.2f}, {bound}"
            deferral = Deferral(reason=reason, answer=transcript.answer, score=score)
            return replace(transcript, status="deferred", answer=None, deferral=deferral)

        return deferred
