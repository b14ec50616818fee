"""Question files of users, and the project's own form: one JSON object per line."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from madke.core.errors import UserError
from madke.core.question import Question
from madke.data.own_files import Columns, own_rows
from madke.data.published_rows import Row
from madke.tasks import TASKS, get_task
from madke.tasks.choice import lettered
from madke.yaml_file import validated

_log = logging.getLogger(__name__)

_Text = Annotated[str, Field(pattern=r"\S")]
Id = Annotated[str, Field(pattern=r"\S", coerce_numbers_to_str=True)]
"""An id in a file: a text, or a number that is converted to text."""


class _Line(BaseModel, extra="forbid", frozen=True):
    id: Id
    question: _Text
    golden_answers: tuple[str, ...] | tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    task: _Text | None = None
    instructions: str = ""
    metadata: dict[str, Any] = {}


def read_questions(path: Path, *, task: str | None = None) -> list[Question]:
    """Read the questions of a file, in order: CSV, TSV, JSON, JSON Lines or Parquet.

    The fields are ``question``, and optionally ``id``, ``golden_answers``, ``choices``, ``instructions``, ``task`` and
    ``metadata``; :data:`madke.data.own_files.COLUMNS` has their other names. Without ids, questions get a hash of their
    text, and a number if texts repeat. With ``choices``, golden answers are letters, or 0-based indices as JSON
    numbers, which are converted to letters.

    ``task`` applies to questions without a task; default: ``choice`` for those with choices, else ``short_answer``.

    Raises:
        UserError: The file or an entry is invalid; the message names the line.
    """
    return questions_in(own_rows(path), path, task=task)


def questions_in(rows: Iterable[Row], path: Path, *, task: str | None = None) -> list[Question]:
    """The questions in the rows of a file; see :func:`read_questions`. Logs what was understood as what."""
    if task is not None:
        TASKS[task]
    columns = Columns()
    place_of: dict[str, str] = {}
    repeats: Counter[str] = Counter()
    questions = []
    for row in rows:
        question = _of_row(row, columns.names(row), task)
        if question.id in place_of and "id" in columns.used:
            raise row.error(f"id {question.id!r} is already on {place_of[question.id]}; expected each once")
        if question.id in place_of:
            repeats[question.id] += 1
            question = replace(question, id=f"{question.id}-{repeats[question.id] + 1}")
        place_of[question.id] = row.place
        questions.append(question)
    if not questions:
        raise UserError("the file contains no question", file=path)
    if not columns.is_plain():
        _log.warning("%s", columns.line(path, len(questions), repeats.total()))
    return questions


def _of_row(row: Row, names: Mapping[str, str], task: str | None) -> Question:
    """The question of a row, whose columns have these names."""
    values = {key: row.fields[name] for key, name in names.items()}
    text = values["question"] = row.checked(values["question"], names["question"])
    values["id"] = row.checked(values["id"], names["id"]) if "id" in names else id_of(text)
    answers = values.get("golden_answers")
    if answers is None or (isinstance(answers, str) and not answers.strip()):
        answers = []
    listed = answers if isinstance(answers, list) else [answers]
    if not values.get("choices"):
        listed = list(dict.fromkeys(row.checked(answer, names["golden_answers"]) for answer in listed))
    values["golden_answers"] = listed
    try:
        return question_from_fields({key: value for key, value in values.items() if value not in (None, "")}, task)
    except UserError as error:
        raise row.error(str(error)) from None


def id_of(text: str) -> str:
    """The id of a question that has none: a hash of its text."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


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
    line = validated(item, _Line)
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
