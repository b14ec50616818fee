"""The project's own question format: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from madke.core.errors import UserError
from madke.core.question import Question
from madke.files import read_jsonl, refuse_repeated
from madke.tasks import TASKS, get_task
from madke.tasks.choice import lettered
from madke.yaml_file import validated

_Text = Annotated[str, Field(pattern=r"\S")]
Id = Annotated[str, Field(pattern=r"\S", coerce_numbers_to_str=True)]
"""An id in a file: a text, or a number that is converted to text."""


class Identified(BaseModel):
    """A line of a file with unique ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Id


class _Line(Identified):
    question: _Text
    golden_answers: tuple[str, ...] | tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    task: _Text | None = None
    instructions: str = ""
    metadata: dict[str, Any] = {}


L = TypeVar("L", bound=Identified)


def read_lines(path: Path, model: type[L]) -> Iterator[tuple[int, L]]:
    """Yield (line number, record) of a JSON Lines file, ``.gz`` too; UserError for a bad line or repeated id."""
    line_of: dict[str, int] = {}
    for number, item in read_jsonl(path):
        line = validated(item, model, file=f"{path}:{number}")
        refuse_repeated(line_of, line.id, number, file=path, what=f"id {line.id!r}")
        yield number, line


def read_questions(path: Path, *, task: str | None = None) -> list[Question]:
    """Read the questions of a JSONL file, in order.

    A line is ``{"id", "question", "golden_answers"?, "choices"?, "task"?, "instructions"?, "metadata"?}``. With
    ``choices``, golden answers are letters, or 0-based indices as JSON numbers, which are converted to letters.

    ``task`` applies to lines without a task; default: ``choice`` for lines with choices, else ``short_answer``.

    Raises:
        UserError: The file or a line is invalid; the message names the line.
    """
    if task is not None:
        TASKS[task]
    questions = []
    for number, line in read_lines(path, _Line):
        try:
            questions.append(_question(line, task))
        except UserError as error:
            raise UserError(str(error), file=path, line=number) from None
    if not questions:
        raise UserError("the file contains no question", file=path)
    return questions


def _question(line: _Line, task: str | None) -> Question:
    letters = [letter for letter, _ in lettered(line.choices)]
    answers = []
    for answer in line.golden_answers:
        if isinstance(answer, int) and answer not in range(len(letters)):
            expected = f"indices from 0 to {len(letters) - 1}" if letters else "texts"
            raise UserError(f"'golden_answers' contains {answer!r}; expected {expected}")
        answers.append(letters[answer] if isinstance(answer, int) else answer)
    question = Question(
        id=line.id,
        question=line.question,
        answers=tuple(answers),
        task=line.task or task or ("choice" if line.choices else "short_answer"),
        choices=line.choices,
        instructions=line.instructions,
        metadata=line.metadata,
    )
    if wrong := get_task(question.task).check(question):
        raise UserError(wrong)
    return question


def question_to_json(question: Question) -> bytes:
    """The question as a line of a question file, without the newline; reading it gives an equal question."""
    item = {
        "id": question.id,
        "question": question.question,
        "task": question.task,
        "golden_answers": question.answers,
        "choices": question.choices,
        "instructions": question.instructions,
        "metadata": question.metadata,
    }
    kept = {key: value for key, value in item.items() if value or key not in ("choices", "instructions", "metadata")}
    return json.dumps(kept, ensure_ascii=False).encode()


def question_from_fields(item: Mapping[str, Any], task: str | None) -> Question:
    """Make a question of the fields of a line; see :func:`read_questions`."""
    return _question(validated(item, _Line), task)
