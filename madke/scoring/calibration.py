"""Fit a calibration to finished debates, and test one on others; see :mod:`madke.engine.deferral` for the method."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from statistics import fmean, pstdev

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.engine.deferral import Calibration, Weight
from madke.engine.evidence import recorded_agreement
from madke.engine.signals import SIGNALS, signals, stated_answer
from madke.scoring.distributions import same_distribution_p
from madke.scoring.metrics import METRICS, is_binary, metrics_of, question_of
from madke.scoring.statistics import Estimate, estimate
from madke.tasks import get_task

RIGHT_FROM = 0.5
"""The lowest value of a metric that is not yes or no, such as F1, of an answer that counts as right."""
_RIDGE = 1.0
_STEPS = 50
FEWEST = 20
"""The fewest questions that weights are fitted on, and that thresholds are tested on."""


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
            wrong=is_wrong(transcript, answer),
            consensus=agreement is not None and agreement.outcome == "consensus",
        )
    return list(held.values())


def is_wrong(transcript: Transcript, answer: str) -> bool:
    """Whether the answer is wrong by the task's matcher, or else by its first metric."""
    names = metrics_of(get_task(transcript.task))
    name = "match" if "match" in names else names[0]
    value = METRICS[name](answer, question_of(transcript))
    return value < 1 if is_binary(name) else value < RIGHT_FROM


def present(debates: Sequence[JudgedDebate]) -> list[str]:
    """The signals that every debate of these has, and that are not the same for all."""
    return [
        name
        for name in SIGNALS
        if all(name in each.found for each in debates) and len({each.found[name] for each in debates}) > 1
    ]


def fitted(
    debates: Sequence[JudgedDebate], names: Sequence[str], described: Mapping[str, object], *, delta: float = 0.1
) -> Calibration:
    """A calibration on these signals. One signal is its own score, and all questions test thresholds.

    Several are combined by a logistic regression, fitted on half of the questions, drawn by a hash of their ids; the
    other half tests thresholds. UserError for too few questions, or signals that a debate lacks.
    """
    if unknown := [name for name in names if name not in SIGNALS]:
        raise UserError(f"unknown signal {unknown[0]!r}; expected {', '.join(SIGNALS)}")
    lacking = {name: sum(name not in each.found for each in debates) for name in names}
    if missing := [name for name in names if lacking[name]]:
        raise UserError(f"signal {missing[0]!r}: {lacking[missing[0]]} of {len(debates)} debates do not have it")
    if not names or not debates:
        raise UserError("no signal differs between the debates, so nothing can be calibrated")
    needed = FEWEST if len(names) == 1 else 2 * FEWEST
    if len(debates) < needed:
        raise UserError(f"{len(debates)} questions with an answer and a gold are too few; expected at least {needed}")
    training, held = ([], list(debates)) if len(names) == 1 else _halves(debates)
    weights = _weights(training, names) if training else {names[0]: Weight(mean=0.0, scale=1.0, weight=1.0)}
    blank = Calibration.model_validate(
        {**described, "weights": weights, "fitted_on": len(training), "points": (), "delta": delta}
    )
    points = tuple(sorted((blank.score(each.found), each.wrong) for each in held))
    return blank.model_copy(update={"points": points})


def _halves(debates: Sequence[JudgedDebate]) -> tuple[list[JudgedDebate], list[JudgedDebate]]:
    ordered = sorted(debates, key=lambda each: sha256(each.id.encode()).hexdigest())
    return ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]


def _weights(debates: Sequence[JudgedDebate], names: Sequence[str]) -> dict[str, Weight]:
    """A logistic regression of right answers on standardised signals, with a ridge penalty, by Newton's method."""
    import numpy

    columns = {name: [each.found[name] for each in debates] for name in names}
    means = {name: fmean(values) for name, values in columns.items()}
    scales = {name: pstdev(values) or 1.0 for name, values in columns.items()}
    inputs = numpy.array([[(each.found[n] - means[n]) / scales[n] for n in names] + [1.0] for each in debates])
    right = numpy.array([float(not each.wrong) for each in debates])
    penalty = numpy.diag([_RIDGE] * len(names) + [1e-6])
    found = numpy.zeros(len(names) + 1)
    for _ in range(_STEPS):
        chance = 1 / (1 + numpy.exp(-inputs @ found))
        slope = inputs.T @ (right - chance) - penalty @ found
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + penalty
        step = numpy.linalg.solve(curve, slope)
        found = found + step
        if float(abs(step).max()) < 1e-9:
            break
    return {
        name: Weight(mean=means[name], scale=scales[name], weight=float(weight))
        for name, weight in zip(names, found, strict=False)
    }


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
    shift: float | None
    """p-value of Kolmogorov and Smirnov's test that the scores are distributed as in the calibration."""

    @property
    def holds(self) -> bool:
        """Whether the error among answers acted on is compatible with the level."""
        return self.error is None or self.error.low <= self.level


def evaluated(calibration: Calibration, debates: Sequence[JudgedDebate], level: float) -> Evaluated:
    """Test a calibration at a level; ``debates`` is not empty."""
    least = calibration.threshold(level)
    scores = [calibration.score(each.found) for each in debates]
    acted = [least is not None and score >= least for score in scores]
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
        shift=_shift(tuple(score for score, _ in calibration.points), tuple(scores)),
    )


@lru_cache(maxsize=1)  # the same for every level
def _shift(ours: tuple[float, ...], theirs: tuple[float, ...]) -> float | None:
    return same_distribution_p(ours, theirs) if ours and theirs else None
