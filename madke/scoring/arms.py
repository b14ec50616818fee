"""The values of all transcripts of an arm, by question and repeat: what comparisons are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from madke.core.transcript import Transcript
from madke.scoring.metrics import METRICS
from madke.scoring.rows import NOTHING_SAID, Said, joined, of_one_arm, row
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
    failed: frozenset[QuestionKey] = field(default_factory=frozenset)
    """The questions of which some debate failed."""

    def value(self, name: str, transcript: Transcript) -> float | None:
        """One value of one of its transcripts; None where it does not apply."""
        key = (transcript.id, transcript.question)
        return self.values.get(name, {}).get(key, {}).get(transcript.repeat)


def read_arm(name: str, transcripts: Iterable[Transcript], said: Said = NOTHING_SAID) -> ArmValues:
    """The values of all transcripts of an arm, in one pass.

    Args:
        name: The arm's.
        transcripts: Its debates.
        said: What graders and scorers outside said of their answers.

    Raises:
        UserError: A transcript names a task that does not exist.
    """
    finished: list[tuple[QuestionKey, int]] = []
    rows = []
    questions: dict[QuestionKey, str | None] = {}
    first, failed = set(), set()
    for transcript in transcripts:
        key = (transcript.id, transcript.question)
        questions[key] = transcript.dataset
        first.add(get_task(transcript.task).metrics[0])
        if transcript.status == "failed":
            failed.add(key)
        else:
            finished.append((key, transcript.repeat))
            rows.append(joined(row(transcript), transcript, said))
    values: dict[str, dict[QuestionKey, dict[int, float]]] = {}
    for (key, repeat), found in zip(finished, of_one_arm(rows), strict=True):
        for value, number in found.items():
            values.setdefault(value, {}).setdefault(key, {})[repeat] = number
    first_metric = first.pop() if len(first) == 1 else "correct"
    metrics = tuple(metric for metric in ("correct", *METRICS) if metric in values)
    if first_metric != "correct":
        metrics = tuple(metric for metric in metrics if metric != "correct")
    return ArmValues(
        name=name,
        values=values,
        questions=questions,
        first_metric=first_metric,
        metrics=tuple(dict.fromkeys((*metrics, *(name for name in said if name in values)))),
        failed=frozenset(failed),
    )


def shared_questions(arms: Sequence[ArmValues]) -> list[QuestionKey]:
    """The questions that all arms hold, in the order of the first."""
    return [key for key in arms[0].questions if all(key in arm.questions for arm in arms)]


def only(arm: ArmValues, keys: Iterable[QuestionKey]) -> ArmValues:
    """The arm with these of its questions alone."""
    questions = {key: arm.questions[key] for key in keys}
    values = {
        name: {key: repeats for key, repeats in held.items() if key in questions} for name, held in arm.values.items()
    }
    return replace(arm, questions=questions, values=values, failed=arm.failed & questions.keys())
