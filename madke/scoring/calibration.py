"""How well a debate's signals tell right answers from wrong ones, and thresholds on one of them.

See :mod:`madke.engine.deferral` for the method.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.engine.agreement import recorded_agreement
from madke.engine.deferral import SIGNALS, Calibration, signals, stated_answer
from madke.scoring.metrics import METRICS, is_binary, metrics_of, question_of
from madke.scoring.statistics import Estimate, estimate
from madke.tasks import get_task

RIGHT_FROM = 0.5
"""The lowest value of a metric that is not yes or no, such as F1, of an answer that counts as right."""
FEWEST = 20
"""The fewest questions that thresholds are tested on."""

Points = Sequence[tuple[float, bool]]
"""The value of a signal, and whether the answer was wrong, for each question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedDebate:
    """A debate with an answer whose gold is known."""

    id: str
    found: Mapping[str, float]
    """Its signals."""
    wrong: bool
    consensus: bool
    """Whether the debaters agreed."""


def judged(transcripts: Iterable[Transcript]) -> list[JudgedDebate]:
    """The first debate of each question that has an answer, also a deferred one, and a gold answer."""
    held: dict[tuple[str, str], JudgedDebate] = {}
    for transcript in transcripts:
        answer, key = stated_answer(transcript), (transcript.id, transcript.question)
        if answer is None or not transcript.answers or not transcript.rounds or key in held or transcript.oracle:
            continue
        task = get_task(transcript.task)
        agreement = recorded_agreement(transcript, task)
        held[key] = JudgedDebate(
            id=transcript.id,
            found=signals(transcript, task),
            wrong=_is_wrong(transcript, answer),
            consensus=agreement is not None and agreement.outcome == "consensus",
        )
    return list(held.values())


def _is_wrong(transcript: Transcript, answer: str) -> bool:
    """Whether the answer is wrong by the task's matcher, or else by its first metric."""
    names = metrics_of(get_task(transcript.task))
    name = "match" if "match" in names else names[0]
    value = METRICS[name](answer, question_of(transcript))
    return value < 1 if is_binary(name) else value < RIGHT_FROM


def risk_coverage(points: Points) -> list[tuple[float, float]]:
    """(Coverage, share of wrong answers among the n with the highest values) for n = 1, 2, ...

    Equal values have no order: their wrong answers count evenly among them (Geifman and El-Yaniv, 2017).
    """
    curve, taken, wrong = [], 0, 0.0
    for _, group in groupby(sorted(points, key=lambda point: -point[0]), key=lambda point: point[0]):
        tied = [is_wrong for _, is_wrong in group]
        rate = sum(tied) / len(tied)
        curve += [((taken + n) / len(points), (wrong + rate * n) / (taken + n)) for n in range(1, len(tied) + 1)]
        taken, wrong = taken + len(tied), wrong + sum(tied)
    return curve


def aurc(points: Points) -> float:
    """The area under the risk-coverage curve: the mean risk over coverages (Geifman et al., 2019). Lower is better."""
    curve = risk_coverage(points)
    return sum(risk for _, risk in curve) / len(curve)


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalQuality:
    """How well one signal of a run's debates tells right answers from wrong ones."""

    name: str
    n: int
    """Questions that have it."""
    wrong: Estimate
    """Share of wrong answers among them: the risk without deferring, and the AURC of a useless signal."""
    aurc: float
    best_aurc: float
    """The AURC of a signal that knows the right answers."""


def quality(name: str, debates: Sequence[JudgedDebate]) -> SignalQuality | None:
    """The quality of one signal; None if no debate has it, or all have the same value."""
    points = [(each.found[name], each.wrong) for each in debates if name in each.found]
    wrong = estimate([float(is_wrong) for _, is_wrong in points])
    if wrong is None or len({value for value, _ in points}) < 2:
        return None
    best = aurc([(float(not is_wrong), is_wrong) for _, is_wrong in points])
    return SignalQuality(name=name, n=len(points), wrong=wrong, aurc=aurc(points), best_aurc=best)


def fitted(
    debates: Sequence[JudgedDebate], signal: str, described: Mapping[str, object], *, delta: float = 0.1
) -> Calibration:
    """A calibration on this signal. UserError for too few questions, or if a debate lacks the signal."""
    if signal not in SIGNALS:
        raise UserError(f"unknown signal {signal!r}; expected {', '.join(SIGNALS)}")
    if lacking := sum(signal not in each.found for each in debates):
        raise UserError(f"signal {signal!r}: {lacking} of {len(debates)} debates do not have it")
    if len(debates) < FEWEST:
        raise UserError(f"{len(debates)} questions with an answer and a gold are too few; expected at least {FEWEST}")
    points = tuple(sorted((each.found[signal], each.wrong) for each in debates))
    return Calibration.model_validate({**described, "signal": signal, "points": points, "delta": delta})


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """What a calibration does with debates that it has not seen."""

    level: float
    threshold: float | None
    """None: no threshold passes, and all is deferred."""
    coverage: Estimate
    """Share of answers acted on."""
    error: Estimate | None
    """Share of wrong answers among those acted on; None if there are none."""
    error_before: Estimate
    caught: Estimate | None
    """Share of the wrong answers on which debaters agreed that are deferred."""


def evaluated(calibration: Calibration, debates: Sequence[JudgedDebate], level: float) -> Evaluated:
    """Test a calibration at a level; ``debates`` is not empty."""
    least = calibration.threshold(level)
    acted = [least is not None and each.found.get(calibration.signal, 0.0) >= least for each in debates]
    trapped = [not act for each, act in zip(debates, acted, strict=True) if each.wrong and each.consensus]
    coverage, before = estimate(list(map(float, acted))), estimate([float(each.wrong) for each in debates])
    assert coverage is not None
    assert before is not None
    return Evaluated(
        level=level,
        threshold=least,
        coverage=coverage,
        error=estimate([float(each.wrong) for each, act in zip(debates, acted, strict=True) if act]),
        error_before=before,
        caught=estimate(list(map(float, trapped))),
    )
