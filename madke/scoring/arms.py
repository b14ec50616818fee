"""The values of all transcripts of an arm, by question and repeat: what comparisons are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from madke.core.transcript import Transcript
from madke.scoring.metrics import METRICS
from madke.scoring.rows import row
from madke.tasks import get_task

QuestionKey = tuple[str, str]
"""A question: its id and its text. Ids alone are the same in many datasets ("1", "2", ...)."""

Values = Mapping[QuestionKey, Mapping[int, float]]
"""Question -> repeat -> one value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmValues:
    """All values of the transcripts of one arm."""

    name: str
    values: Mapping[str, Values]
    """By name, those of :func:`madke.scoring.rows.row`, and of graders and scorers outside where they are added."""
    questions: Mapping[QuestionKey, str | None]
    """Every question it holds, failed ones too, with the name of its dataset where it has one."""
    first_metric: str
    """What ``correct`` is: the task's first metric; ``correct`` itself where tasks with different ones are pooled."""
    metrics: tuple[str, ...]
    """What to compare by default: every metric, ``correct`` where it is none of them, and scores from outside."""

    def value(self, name: str, transcript: Transcript) -> float | None:
        """One value of one of its transcripts; None where it does not apply."""
        key = (transcript.id, transcript.question)
        return self.values.get(name, {}).get(key, {}).get(transcript.repeat)


def read_arm(name: str, transcripts: Iterable[Transcript]) -> ArmValues:
    """The values of all transcripts of an arm, in one pass.

    Raises:
        UserError: A transcript names a task that does not exist.
    """
    values: dict[str, dict[QuestionKey, dict[int, float]]] = {}
    questions: dict[QuestionKey, str | None] = {}
    first = set()
    for transcript in transcripts:
        key = (transcript.id, transcript.question)
        questions[key] = transcript.dataset
        first.add(get_task(transcript.task).metrics[0])
        for value, number in {} if transcript.status == "failed" else row(transcript).items():
            values.setdefault(value, {}).setdefault(key, {})[transcript.repeat] = number
    first_metric = first.pop() if len(first) == 1 else "correct"
    metrics = tuple(metric for metric in ("correct", *METRICS) if metric in values)
    if first_metric != "correct":
        metrics = tuple(metric for metric in metrics if metric != "correct")
    return ArmValues(name=name, values=values, questions=questions, first_metric=first_metric, metrics=metrics)


def with_scores(arm: ArmValues, outside: Mapping[str, Mapping[tuple[str, int], float]]) -> ArmValues:
    """The arm with what graders and scorers outside said: name -> (question id, repeat) -> score."""
    values = dict(arm.values)
    keys = {key[0]: key for key in arm.questions}
    for name, scores in outside.items():
        found: dict[QuestionKey, dict[int, float]] = {}
        for (id_, repeat), score in scores.items():
            if id_ in keys:
                found.setdefault(keys[id_], {})[repeat] = score
        values[name] = found
    return replace(arm, values=values, metrics=tuple(dict.fromkeys((*arm.metrics, *outside))))


def shared_questions(arms: Sequence[ArmValues]) -> list[QuestionKey]:
    """The questions that all arms hold, in the order of the first."""
    return [key for key in arms[0].questions if all(key in arm.questions for arm in arms)]


def only(arm: ArmValues, keys: Iterable[QuestionKey]) -> ArmValues:
    """The arm with these of its questions alone."""
    questions = {key: arm.questions[key] for key in keys}
    values = {
        name: {key: repeats for key, repeats in held.items() if key in questions} for name, held in arm.values.items()
    }
    return replace(arm, questions=questions, values=values)
