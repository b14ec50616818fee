"""Arms: runs and answers of other systems as transcripts, and all values of these by question and repeat."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Final, Round, Stance, Transcript, Turn
from madke.engine.parse import answer_of, without_reasoning
from madke.files import read_jsonl, refuse_repeated
from madke.runs.directory import read_transcripts
from madke.runs.run_json import read_spec
from madke.runs.spec import RunSpec
from madke.scoring.debate_rows import (
    NO_EXTERNAL_SCORES,
    NO_SHARES,
    ExternalScores,
    Row,
    joined,
    of_one_arm,
    over_repeats,
    row,
)
from madke.scoring.metrics import METRICS, metrics_of
from madke.scoring.rounds import round_rows
from madke.scoring.statistics import Estimate
from madke.tasks import get_task
from madke.yaml_file import validated

_log = logging.getLogger(__name__)

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
    """The results at some paths, in order, with names that tell them apart; a path that is given twice counts once.

    Args:
        paths: Run directories, and files of predictions (see :func:`read_predictions`).
        questions: What the predictions answer; None where all paths are runs.

    Raises:
        UserError: A path is neither; predictions come without questions, or questions without predictions; or a line
            of predictions is wrong.
    """
    once: dict[str, Path] = {}
    for path in paths:
        once.setdefault(os.path.realpath(path), path)
    siblings = len({path.parent for path in once.values()}) == 1
    if questions is not None and not any(path.is_file() for path in paths):
        raise UserError("--data is for files of predictions, and there is none among the runs; leave it out")
    return [_opened(path, (siblings and path.name) or str(path), questions) for path in once.values()]


def opened(runs: Sequence[Path | str | Results]) -> list[Results]:
    """Runs as results; what is open already stays as it is. UserError where a path is no run directory."""
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
    rounds: Mapping[QuestionKey, Sequence[Sequence[Row]]] = field(default_factory=dict)
    """The :func:`~madke.scoring.rounds.round_rows` of each finished debate."""

    def mean(self, name: str) -> Estimate | None:
        """The mean of a value over questions, repeats of each averaged first; None where no question has it."""
        held = [list(repeats.values()) for repeats in self.values.get(name, {}).values()]
        return over_repeats(held, shares=name not in NO_SHARES)


def read_arm(name: str, transcripts: Iterable[Transcript], said: ExternalScores = NO_EXTERNAL_SCORES) -> ArmValues:
    """The values of all transcripts of an arm, in one pass; UserError where one names a task that does not exist."""
    finished: list[tuple[QuestionKey, int]] = []
    rows = []
    rounds: dict[QuestionKey, list[Sequence[Row]]] = {}
    questions: dict[QuestionKey, str | None] = {}
    first, failed = set(), set()
    for transcript in transcripts:
        key = (transcript.id, transcript.question)
        questions[key] = transcript.dataset
        first.add(metrics_of(get_task(transcript.task))[0])
        if transcript.status == "failed":
            failed.add(key)
            continue
        finished.append((key, transcript.repeat))
        of_rounds = round_rows(transcript)
        rounds.setdefault(key, []).append(of_rounds)
        rows.append(joined(row(transcript, of_rounds), transcript, said))
    values: dict[str, dict[QuestionKey, dict[int, float]]] = {}
    for (key, repeat), found in zip(finished, of_one_arm(rows), strict=True):
        for value, number in found.items():
            values.setdefault(value, {}).setdefault(key, {})[repeat] = number
    first_metric = first.pop() if len(first) == 1 else "correct"
    metrics = [*(["correct"] if first_metric == "correct" else []), *METRICS]
    return ArmValues(
        name=name,
        values=values,
        questions=questions,
        first_metric=first_metric,
        metrics=tuple(dict.fromkeys(each for each in (*metrics, *said) if each in values)),
        failed=frozenset(failed),
        rounds=rounds,
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
    rounds = {key: rows for key, rows in arm.rounds.items() if key in questions}
    return replace(arm, questions=questions, values=values, failed=arm.failed & questions.keys(), rounds=rounds)


# Answers of other systems

_AS_GIVEN = "as_given"
"""The rule of an answer that its task cannot read, and that is kept as the system gave it."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    id: str
    answer: str | None = None
    output: str | None = None
    repeat: int = Field(default=0, ge=0, strict=True)

    @field_validator("id", "answer", "output", mode="before")
    @classmethod
    def _finite(cls, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"expected a text or a finite number, found {value}")
        return value

    @model_validator(mode="after")
    def _one_of_two(self) -> _Line:
        said = {"answer", "output"} & self.model_fields_set
        if len(said) != 1:
            raise ValueError(f"expected one of 'answer' and 'output', found {'both' if said else 'neither'}")
        return self


def read_predictions(path: Path, questions: Sequence[Question]) -> tuple[Transcript, ...]:
    """What a file says that another system answered, each as a debate of one debater and one round, with no calls.

    A line is ``{"id", "answer", "repeat"?}`` or ``{"id", "output", "repeat"?}``. An ``answer`` is put into the task's
    canonical form where the task can read it, and else kept as it is, so that published definitions of metrics see
    what the system gave; ``null`` or a blank one is an abstention. From an ``output``, a model's whole text, the answer
    is read as from a debater's reply, and where none can be read it is an abstention. An abstention is never right.

    Questions without a line count as abstained, as in the evaluation scripts of SQuAD and HotpotQA, where a missing
    prediction is wrong. Warnings say how many these are, how many answers the task cannot read, and which keys are
    ignored.

    Raises:
        UserError: The file or one of its lines is wrong, names a question that is not there, or answers one twice;
            or there is no line.
    """
    asked = {question.id: question for question in questions}
    seen: dict[tuple[str, int], int] = {}
    transcripts = []
    ignored: dict[str, None] = {}
    for number, item in read_jsonl(path):
        ignored |= dict.fromkeys(key for key in item if key not in _Line.model_fields)
        line = validated(item, _Line, file=f"{path}:{number}")
        if line.id not in asked:
            found = f"there is no question {line.id!r} among the {len(asked)} of the data"
            raise UserError(f"{found}; expected the id of one", file=path, line=number)
        what = f"question {line.id!r}, repeat {line.repeat},"
        refuse_repeated(seen, (line.id, line.repeat), number, file=path, what=what)
        transcripts.append(_transcript(line, asked[line.id], path.name))
    if not transcripts:
        raise UserError("holds no prediction; expected lines of {'id', 'answer'} or {'id', 'output'}", file=path)
    if ignored:
        _log.warning("%s: keys that say nothing here are ignored: %s", path, ", ".join(map(repr, ignored)))
    if odd := [transcript for transcript in transcripts if transcript.final.rule == _AS_GIVEN]:
        said = "%s: %d answers are none of their task, %r to question %r first; they are compared as they are. "
        _log.warning(said + "If they are whole replies, call them 'output'", path, len(odd), odd[0].answer, odd[0].id)
    answered = {transcript.id for transcript in transcripts}
    if missing := [id_ for id_ in asked if id_ not in answered]:
        said = "%s: has no line for %d of %d questions, %r first; they count as abstained, which is wrong"
        _log.warning(said, path, len(missing), len(asked), missing[0])
    transcripts += [_transcript(_Line(id=id_, answer=None), asked[id_], path.name) for id_ in missing]
    return tuple(transcripts)


def _transcript(line: _Line, question: Question, name: str) -> Transcript:
    stance = _stance(line, question)
    final = Final(by="only", answer=stance.answer, status=stance.status, rule=stance.rule, text=stance.text)
    return Transcript(
        id=question.id,
        question=question.question,
        task=question.task,
        answers=question.answers,
        choices=question.choices,
        metadata=question.metadata,
        status=stance.status,
        answer=stance.answer,
        stop_reason="rounds",
        rounds=(Round(n=1, order=(name,), turns=(Turn(agent=name, stance=stance),)),),
        final=final,
        repeat=line.repeat,
        # A stated answer was not read from a reply, so it is no part of the parse-failure rate.
        first_round_given="answer" in line.model_fields_set,
    )


def _stance(line: _Line, question: Question) -> Stance:
    task = get_task(question.task)
    if "output" in line.model_fields_set:
        text = without_reasoning(line.output or "")
        parsed = answer_of(text, task, question)
        return Stance(text=text, answer=parsed.value, status=parsed.status, rule=parsed.rule)
    said = line.answer or ""
    if not said.strip():
        return Stance(status="abstained", rule="given")
    answer = task.read(said, question)
    return Stance(text=said, answer=answer or said, rule="given" if answer else _AS_GIVEN)
