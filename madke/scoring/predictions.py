"""Answers of other systems as transcripts, so that they are scored, compared and reported like a run's."""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Final, Round, Stance, Transcript, Turn
from madke.engine.parse import answer_of, without_reasoning
from madke.files import read_jsonl
from madke.tasks import get_task

_log = logging.getLogger(__name__)

_FORM = "expected {'id', 'answer'} or {'id', 'output'}, and 'repeat' where there are several to a question"

_SAID = {"answer", "output"}

_NEAR = 0.75
"""From so much likeness on, an unknown key is taken for a slip."""

_NAMED = 8
"""How many keys that are ignored a warning names."""

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
            raise ValueError("expected a text or a finite number")
        return value

    @model_validator(mode="after")
    def _one_of_two(self) -> _Line:
        if len(_SAID & self.model_fields_set) != 1:
            raise ValueError("either 'answer' or 'output' must be there, not both")
        return self


def read_predictions(path: Path, questions: Sequence[Question]) -> tuple[Transcript, ...]:
    """What a file says that another system answered, each as a debate of one debater and one round, with no calls.

    A line is ``{"id", "answer", "repeat"?}`` or ``{"id", "output", "repeat"?}``. An ``answer`` is put into the task's
    canonical form where the task can read it, and else kept as it is, so that published definitions of metrics see
    what the system gave; ``null`` or a blank one is an abstention. From an ``output``, a model's whole text, the answer
    is read as from a debater's reply, and where none can be read it is an abstention. An abstention is never right.

    Questions without a line count as abstained, as in the evaluation scripts of SQuAD and HotpotQA, where a missing
    prediction is wrong; a warning says how many, and another how many answers the task cannot read. Other keys of a
    line are ignored, and a third warning names them; one that looks like a slip for a key which is missing is refused.

    Args:
        path: JSON Lines; ``.gz`` is unpacked.
        questions: What is answered.

    Raises:
        UserError: The file or one of its lines is wrong, names a question that is not there, or answers one twice;
            or there is no line.
    """
    asked = {question.id: question for question in questions}
    line_of: dict[tuple[str, int], int] = {}
    transcripts = []
    ignored: dict[str, None] = {}
    for number, item in read_jsonl(path):
        others = [key for key in item if key not in _Line.model_fields]
        if slip := next(filter(None, (_slip(key, item) for key in others)), None):
            raise UserError(f"{slip}; {_FORM}", file=path, line=number)
        ignored.update(dict.fromkeys(others))
        try:
            line = _Line.model_validate(item)
        except ValidationError as error:
            raise UserError(f"{_first(error)}; {_FORM}", file=path, line=number) from None
        if line.id not in asked:
            found = f"there is no question {line.id!r} among the {len(asked)} of the data"
            raise UserError(f"{found}; expected the id of one", file=path, line=number)
        first = line_of.setdefault((line.id, line.repeat), number)
        if first != number:
            found = f"question {line.id!r}, repeat {line.repeat}, is answered on line {first} already"
            raise UserError(f"{found}; expected one line for each, or another 'repeat'", file=path, line=number)
        transcripts.append(_transcript(line, asked[line.id], path.name))
    if not transcripts:
        raise UserError(f"holds no prediction; {_FORM}", file=path)
    _warn_ignored(path, list(ignored))
    _warn_as_given(path, transcripts)
    answered = {transcript.id for transcript in transcripts}
    if missing := [id_ for id_ in asked if id_ not in answered]:
        _log.warning(
            "%s: has no line for %d of %d questions, %r first; they count as abstained, which is wrong",
            path,
            len(missing),
            len(asked),
            missing[0],
        )
    transcripts += [_transcript(_Line(id=id_, answer=None), asked[id_], path.name) for id_ in missing]
    return tuple(transcripts)


def _slip(key: str, there: Iterable[str]) -> str | None:
    """What is wrong with an unknown key, if it is rather a known one that the line lacks."""
    near = difflib.get_close_matches(key.lower(), _Line.model_fields, n=1, cutoff=_NEAR)
    if not near or near[0] in there or (near[0] in _SAID and not _SAID.isdisjoint(there)):
        return None
    return f"unknown key {key!r}, perhaps {near[0]!r}"


def _warn_ignored(path: Path, keys: Sequence[str]) -> None:
    if keys:
        more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        _log.warning(
            "%s: keys that say nothing here are ignored: %s%s", path, ", ".join(map(repr, keys[:_NAMED])), more
        )


def _warn_as_given(path: Path, transcripts: Sequence[Transcript]) -> None:
    """Say how many answers the task cannot read, which makes scores worse than the system is."""
    if odd := [transcript for transcript in transcripts if transcript.final.rule == _AS_GIVEN]:
        _log.warning(
            "%s: %d answers are none of their task, %r to the %s question %r first; they are compared as they are. "
            "If they are whole replies, call them 'output'",
            path,
            len(odd),
            odd[0].answer[:60] if odd[0].answer else "",
            odd[0].task,
            odd[0].id,
        )


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"there is no {where!r}"
    if not where:
        return str(first["ctx"]["error"])
    return f"{where!r} is {first['input']!r:.80}: {first['msg'].removeprefix('Value error, ')}"


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
        given="answer" in line.model_fields_set,
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
