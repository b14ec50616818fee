"""The project's own question format: one JSON object a line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.core.question import Question
from madke.files import read_jsonl
from madke.tasks import TASKS, get_task
from madke.tasks.choice import lettered

_DEEPEST = 50
"""Levels of metadata; a transcript that carries more could not be written."""

_KEYS = ("id", "question", "golden_answers", "choices", "task", "metadata")


def read_questions(path: Path, *, task: str | None = None) -> list[Question]:
    """The questions of a JSONL file, in its order.

    A line is ``{"id", "question", "golden_answers"?, "choices"?, "task"?, "metadata"?}``. With ``choices``, golden
    answers are letters, or 0-based indices as JSON numbers, which become letters.

    Args:
        path: The file; ``.gz`` is unpacked.
        task: Task of the lines that name none. By default ``choice`` where there are choices, else
            ``short_answer``.

    Raises:
        UserError: The file or one of its lines is wrong; the message names the line, what was found and what was
            expected.
    """
    return [question for _, question in numbered_questions(path, task=task)]


def numbered_questions(path: Path, *, task: str | None = None) -> list[tuple[int, Question]]:
    """The questions of a JSONL file, each with its 1-based line; see :func:`read_questions`."""
    if task is not None:
        TASKS[task]
    questions: list[tuple[int, Question]] = []
    line_of: dict[str, int] = {}
    for number, item in read_jsonl(path):
        try:
            question = _question(item, task)
        except UserError as error:
            raise UserError(str(error), file=path, line=number) from None
        if question.id in line_of:
            said = f"id {question.id!r} stands on line {line_of[question.id]} already; ids must differ"
            raise UserError(said, file=path, line=number)
        line_of[question.id] = number
        questions.append((number, question))
    if not questions:
        raise UserError("holds no question", file=path)
    return questions


def _question(item: Mapping[str, Any], task: str | None) -> Question:
    for key in item:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "anything else belongs under 'metadata'"
            raise UserError(f"unknown key {key!r}; {hint}")
    id_ = item.get("id")
    if isinstance(id_, int) and not isinstance(id_, bool):
        id_ = str(id_)
    choices = _strings(item, "choices")
    name = item.get("task") or task or ("choice" if choices else "short_answer")
    question = Question(
        id=_text("id", id_),
        question=_text("question", item.get("question")),
        answers=_answers(item, choices),
        task=_text("task", name),
        choices=choices,
        metadata=_metadata(item),
    )
    if wrong := get_task(question.task).check(question):
        raise UserError(wrong)
    return question


def _text(key: str, value: object) -> str:
    if value is None:
        raise UserError(f"there is no {key!r}; expected a text")
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{key!r} is {value!r}; expected a text")
    return value


def _strings(item: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = item.get(key, [])
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise UserError(f"{key!r} is {value!r}; expected a list of texts")
    return tuple(value)


def _answers(item: Mapping[str, Any], choices: tuple[str, ...]) -> tuple[str, ...]:
    value = item.get("golden_answers", [])
    if choices and isinstance(value, list) and value and all(type(entry) is int for entry in value):
        letters = [letter for letter, _ in lettered(choices)]
        if not all(0 <= index < len(letters) for index in value):
            raise UserError(f"'golden_answers' is {value!r}; expected indices of 0 to {len(letters) - 1}")
        return tuple(letters[index] for index in value)
    return _strings(item, "golden_answers")


def _metadata(item: Mapping[str, Any]) -> Mapping[str, Any]:
    value = item.get("metadata", {})
    if not isinstance(value, dict):
        raise UserError(f"'metadata' is {value!r}; expected an object")
    if _is_deeper(value, _DEEPEST):
        raise UserError(f"'metadata' is nested more than {_DEEPEST} levels deep")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


def question_to_json(question: Question) -> bytes:
    """The question as a line of a question file, without the newline; read again it is equal."""
    item = {
        "id": question.id,
        "question": question.question,
        "task": question.task,
        "golden_answers": question.answers,
        "choices": question.choices,
        "metadata": question.metadata,
    }
    kept = {key: value for key, value in item.items() if value or key not in ("choices", "metadata")}
    return json.dumps(kept, ensure_ascii=False).encode()


def question_of(item: Mapping[str, Any], task: str | None) -> Question:
    """A question from the fields of its line; see :func:`read_questions`."""
    return _question(item, task)
