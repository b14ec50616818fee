"""Thresholds on a signal of debates, learned and tested on runs with gold answers (:mod:`madke.engine.deferral`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.engine.agreement import recorded_agreement
from madke.engine.deferral import SIGNALS, Calibration, signals, stated_answer
from madke.scoring.metrics import METRICS, is_binary, metrics_of, question_of
from madke.scoring.statistics import Estimate, estimate
from madke.tasks import get_task

_RIGHT_FROM = 0.5
"""The lowest value of a metric that is not yes or no, such as F1, of an answer that counts as right."""
_FEWEST = 20
"""The fewest questions that thresholds are tested on."""


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
    """The first debate of each question that has an answer, also a deferred one, and a gold answer.

    An answer is wrong by ``match``, or by the first metric of a task that has no ``match``.
    """
    held: dict[tuple[str, str], JudgedDebate] = {}
    for transcript in transcripts:
        answer, key = stated_answer(transcript), (transcript.id, transcript.question)
        if answer is None or not transcript.answers or not transcript.rounds or key in held or transcript.oracle:
            continue
        task = get_task(transcript.task)
        agreement = recorded_agreement(transcript, task)
        names = metrics_of(task)
        name = "match" if "match" in names else names[0]
        value = METRICS[name](answer, question_of(transcript))
        held[key] = JudgedDebate(
            id=transcript.id,
            found=signals(transcript, task),
            wrong=value < (1 if is_binary(name) else _RIGHT_FROM),
            consensus=agreement is not None and agreement.outcome == "consensus",
        )
    return list(held.values())


def fitted(
    debates: Sequence[JudgedDebate], signal: str, described: Mapping[str, object], *, delta: float = 0.1
) -> Calibration:
    """A calibration on this signal. UserError for too few questions, or if a debate lacks the signal."""
    if signal not in SIGNALS:
        raise UserError(f"unknown signal {signal!r}; expected {', '.join(SIGNALS)}")
    if lacking := sum(signal not in each.found for each in debates):
        raise UserError(f"signal {signal!r}: {lacking} of {len(debates)} debates do not have it")
    if len(debates) < _FEWEST:
        raise UserError(f"{len(debates)} questions with an answer and a gold are too few; expected at least {_FEWEST}")
    points = tuple(sorted((each.found[signal], each.wrong) for each in debates))
    return Calibration.model_validate({**described, "signal": signal, "points": points, "delta": delta})


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """What a calibration does with debates that it has not seen."""

    level: float
    threshold: float | None
    """None: no threshold passes, and all is deferred."""
    coverage: Estimate | None
    """Share of answers acted on."""
    error: Estimate | None
    """Share of wrong answers among those acted on; None if there are none."""
    error_before: Estimate | None
    caught: Estimate | None
    """Share of the wrong answers on which debaters agreed that are deferred."""


def evaluated(calibration: Calibration, debates: Sequence[JudgedDebate], level: float) -> Evaluated:
    """Test a calibration at a level."""
    least = calibration.threshold(level)
    acted = [least is not None and each.found.get(calibration.signal, 0.0) >= least for each in debates]
    both = list(zip(debates, acted, strict=True))
    return Evaluated(
        level=level,
        threshold=least,
        coverage=estimate(list(map(float, acted))),
        error=estimate([float(each.wrong) for each, act in both if act]),
        error_before=estimate([float(each.wrong) for each in debates]),
        caught=estimate([float(not act) for each, act in both if each.wrong and each.consensus]),
    )
