"""Thresholds on a signal of debates, learned from runs with gold answers (:mod:`madke.engine.deferral`)."""

from collections.abc import Sequence

from madke.core.errors import UserError
from madke.engine.deferral import SIGNALS, Calibration, signals, stated_answer
from madke.scoring.arms import Results
from madke.scoring.metrics import METRICS, is_binary, metrics_of, question_of
from madke.tasks import get_task

_RIGHT_FROM = 0.5
"""The lowest value of a metric that is not yes or no, such as F1, of an answer that counts as right."""
_FEWEST = 20
"""The fewest questions that thresholds are tested on."""


def calibrated(arms: Sequence[Results], signal: str, *, delta: float = 0.1) -> Calibration:
    """A calibration on this signal, from the first debate of each question that has an answer and a gold answer.

    The answer may also be a deferred one; it is wrong by ``match``, or by the first metric of a task that has no
    ``match``. UserError for too few questions, runs that differ in protocol or models, and
    if a debate lacks the signal.
    """
    specs = [arm.config for arm in arms if arm.config is not None]
    if len(specs) < len(arms):
        raise UserError("expected run directories: a calibration records protocol, tasks and models")
    if len({(spec.variant, *sorted(spec.models.items())) for spec in specs}) > 1:
        raise UserError("the runs have different protocols or models; calibrate each of them alone")
    if signal not in SIGNALS:
        raise UserError(f"unknown signal {signal!r}; expected {', '.join(SIGNALS)}")
    points: dict[tuple[str, str], tuple[float | None, bool]] = {}
    tasks = set()
    for transcript in (each for arm in arms for each in arm.transcripts()):
        tasks.add(transcript.task)
        answer, key = stated_answer(transcript), (transcript.id, transcript.question)
        if answer is None or key in points:
            continue
        if transcript.answers and transcript.rounds and not transcript.oracle:
            task = get_task(transcript.task)
            names = metrics_of(task)
            name = "match" if "match" in names else names[0]
            wrong = METRICS[name](answer, question_of(transcript)) < (1 if is_binary(name) else _RIGHT_FROM)
            points[key] = signals(transcript, task).get(signal), wrong
    known = tuple(sorted((value, wrong) for value, wrong in points.values() if value is not None))
    if lacking := len(points) - len(known):
        raise UserError(f"signal {signal!r}: {lacking} of {len(points)} debates do not have it")
    if len(known) < _FEWEST:
        raise UserError(f"{len(known)} questions with an answer and a gold are too few; expected at least {_FEWEST}")
    return Calibration(
        run=", ".join(arm.name for arm in arms),
        variant=specs[0].variant,
        tasks=tuple(sorted(tasks)),
        models=tuple(sorted(set(specs[0].models.values()))),
        signal=signal,
        points=known,
        delta=delta,
    )
