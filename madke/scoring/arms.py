"""Arms: runs and answers from elsewhere as transcripts, and all values of these by question and repeat."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.runs.directory import read_transcripts
from madke.runs.run_json import read_spec
from madke.runs.spec import RunSpec
from madke.scoring.debate_rows import NOTHING_SAID, Said, joined, of_one_arm, row
from madke.scoring.metrics import METRICS
from madke.scoring.predictions import read_predictions
from madke.tasks import get_task

QuestionKey = tuple[str, str]
"""A question: its id and its text. Ids alone are the same in many datasets ("1", "2", ...)."""

Values = Mapping[QuestionKey, Mapping[int, float]]
"""Question -> repeat -> one value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """The transcripts of one arm, wherever they come from."""

    name: str
    """How tables and plots call it."""
    path: Path
    """The run directory, or the file of predictions."""
    config: RunSpec | None
    """None for predictions from elsewhere."""
    transcripts: Callable[[], Iterator[Transcript]]
    """All of them from the first, one after the other, at each call. A run's are read anew."""


def open_results(paths: Sequence[Path], questions: Sequence[Question] | None = None) -> list[Results]:
    """The results at some paths, in order, with names that tell them apart.

    A path that is given twice, however it is written, counts once.

    Args:
        paths: Run directories, and files of predictions (see :func:`madke.scoring.predictions.read_predictions`).
        questions: What the predictions answer; None where all paths are runs.

    Raises:
        UserError: A path is neither; there are predictions and no questions, or questions and no predictions; or a
            line of predictions is wrong.
    """
    once: dict[str, Path] = {}
    for path in paths:
        once.setdefault(os.path.realpath(path), path)
    paths = list(once.values())
    siblings = len({path.parent for path in paths}) == 1
    if questions is not None and not any(path.is_file() for path in paths):
        raise UserError("--data is for files of predictions, and there is none among the runs; leave it out")
    return [_opened(path, (siblings and path.name) or str(path), questions) for path in paths]


def opened(runs: Sequence[Path | str | Results]) -> list[Results]:
    """Runs as results; what is open already stays as it is.

    Raises:
        UserError: A path is no run directory.
    """
    held = [run for run in runs if isinstance(run, Results)]
    if len(held) == len(runs):
        return held
    return open_results([run.path if isinstance(run, Results) else Path(run) for run in runs])


def _opened(path: Path, name: str, questions: Sequence[Question] | None) -> Results:
    if not path.is_file():
        if not (path / "run.json").is_file():
            raise UserError("is not a run directory: there is no run.json in it", file=path)
        return Results(name=name, path=path, config=read_spec(path), transcripts=partial(read_transcripts, path))
    if questions is None:
        raise UserError("is a file, not a run directory; for predictions name the questions with --data", file=path)
    predictions = read_predictions(path, questions)
    return Results(name=name, path=path, config=None, transcripts=lambda: iter(predictions))


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmValues:
    """All values of the transcripts of one arm."""

    name: str
    values: Mapping[str, Values]
    """By name: those of :func:`madke.scoring.debate_rows.row`, and of graders and scorers outside."""
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
