"""What one debate is worth: a row of named values for each transcript, from which means and tests are computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.groups import agreed
from madke.scoring.metrics import METRICS
from madke.scoring.statistics import Estimate, estimate
from madke.tasks import get_task

Row = dict[str, float]
"""Name of a value -> the value."""

Rows = Mapping[str, Sequence[Row]]
"""Question id -> a row for each repeat that has an outcome, in the order of the transcripts."""


def rows_by_question(transcripts: Iterable[Transcript]) -> dict[str, list[Row]]:
    """The rows of all transcripts that have an outcome; questions of failed ones alone are not in it."""
    rows: dict[str, list[Row]] = {}
    for transcript in transcripts:
        if transcript.status != "failed":
            rows.setdefault(transcript.id, []).append(row(transcript))
    return rows


def row(transcript: Transcript) -> Row:
    """All values of one finished transcript. A name that is missing does not apply to it."""
    task = get_task(transcript.task)
    values: Row = {}
    if transcript.answers:
        values = dict(zip(task.metrics, _metrics(transcript, task.metrics), strict=True))
        values["correct"] = values[task.metrics[0]]
    last = transcript.rounds[-1]
    consistent = {}
    # A judge who takes the answer itself (judge_extract) settles the debate; it was not asked for consensus.
    if last.verdict is not None and transcript.final.by != "judge":
        consistent["judge"] = bool(last.verdict.consensus)
    if len(last.turns) > 1:
        consistent["matcher"] = agreed(last.turns, task)
    for by, value in consistent.items():
        values[f"cons_{by}"] = float(value)
        if "correct" in values:
            values[f"co2_{by}"] = float(value) * values["correct"]
    return values


def over_questions(rows: Rows, name: str) -> Estimate | None:
    """The mean of one value over questions, repeats of each averaged first; None where no row holds it.

    Args:
        rows: Question id -> a row of named values for each repeat.
        name: Which of them.
    """
    values = []
    for repeats in rows.values():
        found = [row[name] for row in repeats if name in row]
        if found:
            values.append(sum(found) / len(found))
    return estimate(values)


def correct(transcript: Transcript) -> float | None:
    """The first metric of the task on the final answer, 0 .. 1; None for a failed question or one without golds."""
    if transcript.status == "failed" or not transcript.answers:
        return None
    return _metrics(transcript, get_task(transcript.task).metrics[:1])[0]


def _metrics(transcript: Transcript, names: Sequence[str]) -> list[float]:
    """Metrics of the final answer; all 0 where there is none."""
    if transcript.answer is None:
        return [0.0] * len(names)
    question = Question(
        id=transcript.id,
        question=transcript.question,
        answers=transcript.answers,
        task=transcript.task,
        choices=transcript.choices,
        metadata=transcript.metadata,
    )
    return [METRICS[name](transcript.answer, question) for name in names]
