"""Arms: the transcripts of runs or of other systems' predictions, and their values by question and repeat."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel, Field, field_validator, model_validator

from madke._util.files import read_jsonl, refuse_repeated
from madke._util.yaml_file import validate
from madke.core.chat import writable
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Final, Round, Stance, Transcript, Turn, outcome
from madke.engine.parse.answer import answer_of
from madke.engine.parse.reply import without_reasoning
from madke.runs.directory import RunRecord, read_run, read_transcripts
from madke.scoring.debate_rows import (
    NO_EXTERNAL_SCORES,
    DebateMeasures,
    DebateRow,
    ExternalScores,
    of_one_arm,
    over_repeats,
    with_external,
)
from madke.scoring.metrics import METRICS, common_metric, may_be_rate
from madke.scoring.statistics import Estimate
from madke.tasks import get_task

_log = logging.getLogger(__name__)

QuestionKey = tuple[str, str]
"""(id, text) of a question. Many datasets use the same ids ("1", "2", ...)."""

Values = Mapping[QuestionKey, Mapping[int, float]]
"""Question -> repeat -> one value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """The transcripts of one arm: of a run, or of predictions."""

    name: str
    path: Path
    """The run directory or the predictions file."""
    config: RunRecord | None
    """None for predictions from elsewhere."""
    transcripts: Callable[[], Iterator[Transcript]]
    """Returns an iterator over all transcripts; each call reads a run's transcripts again."""
    corrected: str = ""
    """What people corrected in the gold answers; empty if nothing."""


def open_results(runs: Sequence[Path | str | Results], questions: Sequence[Question] | None = None) -> list[Results]:
    """Open the run directories and predictions files at some paths, in order; one that is given twice counts once.

    The name of each is its path below the folder that holds all of them. ``questions``: those of the predictions; None
    if all paths are runs. Open results are returned unchanged. UserError if a path is neither, if only one of
    predictions and questions is given, and for an invalid line of predictions.
    """
    results = [run for run in runs if isinstance(run, Results)]
    if len(results) == len(runs):
        return results
    paths = [run.path if isinstance(run, Results) else Path(run) for run in runs]
    distinct: dict[str, Path] = {}
    for path in paths:
        distinct.setdefault(os.path.realpath(path), path)
    above = os.path.commonpath([path.absolute().parent for path in distinct.values()])
    if questions is not None and not any(path.is_file() for path in paths):
        raise UserError("--data requires a predictions file, but all paths are run directories; omit --data")
    opened = []
    for path in distinct.values():
        name = writable(os.path.relpath(path, above))
        if not path.exists():
            raise UserError("no such run directory or file", file=path)
        if path.is_dir():
            if not (path / "run.json").is_file():
                raise UserError("is not a run directory: run.json is missing", file=path)
            read = partial(read_transcripts, path)
            opened.append(Results(name=name, path=path, config=read_run(path), transcripts=read))
        elif questions is None:
            expected = "expected a run directory; for predictions, give the questions with --data"
            raise UserError(f"found a file, {expected}", file=path)
        else:
            predictions = read_predictions(path, questions)
            opened.append(Results(name=name, path=path, config=None, transcripts=partial(iter, predictions)))
    return opened


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmValues:
    """All values of the transcripts of one arm."""

    name: str
    values: Mapping[str, Values]
    """By name: the values of debates (``DebateMeasures.row``), and those of graders and external scorers."""
    questions: Mapping[QuestionKey, str | None]
    """Every question, including failed ones -> the name of its dataset, if any."""
    first_metric: str
    """The metric behind ``correct``: the task's first metric, or ``correct`` if the tasks have different ones."""
    first_metrics: Mapping[str | None, str] = field(default_factory=dict)
    """Dataset -> the metric behind ``correct`` on its questions, if they name datasets."""
    metrics: tuple[str, ...]
    """The values to compare by default: every metric, external scores, and ``correct`` if it is no metric."""
    failed: frozenset[QuestionKey] = field(default_factory=frozenset)
    """The questions with a failed debate."""
    rounds: Mapping[QuestionKey, Sequence[Sequence[DebateRow]]] = field(default_factory=dict)
    """The :attr:`~madke.scoring.debate_rows.DebateMeasures.rounds` of each finished debate."""

    def mean(self, name: str) -> Estimate | None:
        """The mean of a value over questions (repeats are averaged first); None if no question has it."""
        by_question = [list(repeats.values()) for repeats in self.values.get(name, {}).values()]
        return over_repeats(by_question, shares=may_be_rate(name))


def read_arm(
    name: str,
    transcripts: Iterable[Transcript],
    external: ExternalScores = NO_EXTERNAL_SCORES,
    seen: Callable[[DebateMeasures], object] = lambda debate: None,
) -> ArmValues:
    """Compute the values of all transcripts of an arm in one pass, and show each to ``seen``.

    UserError for an unknown task.
    """
    finished: list[tuple[QuestionKey, int]] = []
    rows = []
    rounds: dict[QuestionKey, list[Sequence[DebateRow]]] = {}
    questions: dict[QuestionKey, str | None] = {}
    firsts: dict[str | None, set[str]] = {}
    failed = set()
    for transcript in transcripts:
        debate = DebateMeasures(transcript)
        key = (transcript.id, transcript.question)
        questions[key] = transcript.dataset
        firsts.setdefault(transcript.dataset, set()).add(debate.metrics[0])
        seen(debate)
        if transcript.status == "failed":
            failed.add(key)
            continue
        if transcript.status == "deferred":
            continue
        finished.append((key, transcript.repeat))
        rounds.setdefault(key, []).append(debate.rounds)
        rows.append(with_external(debate.row, transcript, external))
    values: dict[str, dict[QuestionKey, dict[int, float]]] = {}
    for (key, repeat), row in zip(finished, of_one_arm(rows), strict=True):
        for value, number in row.items():
            values.setdefault(value, {}).setdefault(key, {})[repeat] = number
    first_metric = common_metric(set().union(*firsts.values()))
    metrics = [first_metric, *METRICS.used()]
    return ArmValues(
        name=name,
        values=values,
        questions=questions,
        first_metric=first_metric,
        first_metrics={dataset: common_metric(each) for dataset, each in firsts.items()},
        metrics=tuple(dict.fromkeys(each for each in (*metrics, *external) if each in values)),
        failed=frozenset(failed),
        rounds=rounds,
    )


def shared_questions(arms: Sequence[ArmValues]) -> list[QuestionKey]:
    """The questions that all arms have, in the order of the first arm."""
    return [key for key in arms[0].questions if all(key in arm.questions for arm in arms)]


def restricted_to(arm: ArmValues, keys: Iterable[QuestionKey]) -> ArmValues:
    """A copy of the arm with only these questions."""
    questions = {key: arm.questions[key] for key in keys}
    values = {
        name: {key: repeats for key, repeats in by_question.items() if key in questions}
        for name, by_question in arm.values.items()
    }
    rounds = {key: rows for key, rows in arm.rounds.items() if key in questions}
    return replace(arm, questions=questions, values=values, failed=arm.failed & questions.keys(), rounds=rounds)


def of_dataset(arm: ArmValues, dataset: str | None) -> ArmValues:
    """A copy of the arm with only the questions of a dataset (empty: without one); None: with all questions."""
    some = restricted_to(arm, [key for key, name in arm.questions.items() if dataset in (None, name or "")])
    if dataset is None:
        return some
    return replace(some, first_metric=arm.first_metrics.get(dataset or None, arm.first_metric))


_AS_GIVEN = "as_given"
"""The rule of an answer that is kept unchanged because its task cannot parse it."""


class _Line(BaseModel, extra="ignore", frozen=True, coerce_numbers_to_str=True):
    id: str
    answer: str | None = None
    output: str | None = None
    repeat: int = Field(default=0, ge=0, strict=True)

    @field_validator("answer", "output", mode="before")
    @classmethod
    def _finite(cls, value: object) -> object:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"expected a text or a finite number, found {value}")
        return value

    @model_validator(mode="after")
    def _one_of_two(self) -> _Line:
        fields = {"answer", "output"} & self.model_fields_set
        if len(fields) != 1:
            raise ValueError(f"expected one of 'answer' and 'output', found {'both' if fields else 'neither'}")
        return self


def read_predictions(path: Path, questions: Sequence[Question]) -> tuple[Transcript, ...]:
    """Read another system's predictions; each becomes a debate of one debater and one round without calls.

    A line is ``{"id", "answer", "repeat"?}`` or ``{"id", "output", "repeat"?}``. An ``answer`` is converted to the
    task's canonical form, or kept unchanged if the task cannot parse it, with a warning; blank is an abstention. From
    an ``output``, a model's whole text, the answer is parsed as from a debater's reply. Questions without a line count
    as abstained, with a warning: in the scripts of SQuAD and HotpotQA, a missing prediction is wrong. UserError for an
    empty file, and a line that is invalid, has an unknown question id, or repeats a question.
    """
    by_id = {question.id: question for question in questions}
    seen: dict[tuple[str, int], int] = {}
    transcripts = []
    for number, item in read_jsonl(path):
        line = validate(item, _Line, file=f"{path}:{number}")
        if line.id not in by_id:
            problem = f"found question id {line.id!r}, which is not among the {len(by_id)} questions of the data"
            raise UserError(problem, file=path, line=number)
        what = f"question {line.id!r}, repeat {line.repeat},"
        refuse_repeated(seen, (line.id, line.repeat), number, file=path, what=what)
        transcripts.append(_transcript(line, by_id[line.id], path.name))
    if not transcripts:
        raise UserError("no predictions; expected lines of {'id', 'answer'} or {'id', 'output'}", file=path)
    if odd := [transcript for transcript in transcripts if transcript.final.rule == _AS_GIVEN]:
        warning = "%s: %d answers do not fit their task (first: %r to question %r); they are compared unchanged. "
        warning += "If they are whole replies, use the key 'output'"
        _log.warning(warning, path, len(odd), odd[0].answer, odd[0].id)
    answered = {id_ for id_, _ in seen}
    if missing := [id_ for id_ in by_id if id_ not in answered]:
        warning = "%s: no line for %d of %d questions (first: %r); they count as abstained, and so as wrong"
        _log.warning(warning, path, len(missing), len(by_id), missing[0])
    transcripts += [_transcript(_Line(id=id_, answer=None), by_id[id_], path.name) for id_ in missing]
    return tuple(transcripts)


def _transcript(line: _Line, question: Question, name: str) -> Transcript:
    task = get_task(question.task)
    text = (line.answer or "").strip()
    is_output = "output" in line.model_fields_set
    if is_output:
        text = without_reasoning(line.output or "")
        parsed = answer_of(text, task, question)
        stance = Stance(text=text, answer=parsed.value, status=parsed.status, rule=parsed.rule)
    elif text:
        answer = task.read(text, question)
        stance = Stance(text=text, answer=answer or line.answer, rule="given" if answer else _AS_GIVEN)
    else:
        stance = Stance(status="abstained", rule="given")
    return Transcript(
        **{each.name: getattr(question, each.name) for each in fields(Question)},
        status=outcome(stance.status),
        answer=stance.answer,
        stop_reason="rounds",
        rounds=(Round(n=1, order=(name,), turns=(Turn(agent=name, stance=stance),)),),
        final=Final(by="only", answer=stance.answer, status=stance.status, rule=stance.rule, text=stance.text),
        repeat=line.repeat,
        # A stated answer was not parsed from a reply, so the parse-failure rate excludes it.
        first_round_given=not is_output,
    )
