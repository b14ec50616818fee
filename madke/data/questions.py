"""Questions from the rows of files and from Python's own records; the project's own form of a question."""

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.core.question import Question
from madke.data.columns import Columns, Found
from madke.data.rows import Row, is_ambiguous, short
from madke.tasks import TASKS, get_task
from madke.tasks.choice import Choice, lettered

_log = logging.getLogger(__name__)

Id = Annotated[str, Field(pattern=r"\S", coerce_numbers_to_str=True)]
"""An id in a file: a text, or a number that is converted to text."""

_SHORT = 5
"""Words of an alias in a cell with semicolons or line ends."""


def questions_in(
    rows: Iterable[Row], path: Path | None, columns: Columns | None = None, *, task: str | None = None
) -> list[Question]:
    """The questions in the rows of a file of your own, in order. Logs what was understood as what.

    The fields are ``question``, and optionally ``id``, ``golden_answers``, ``choices``, ``instructions``, ``task`` and
    ``metadata``; :data:`madke.data.columns.COLUMNS` has their other names. Without ids, questions get a hash of their
    text, and a number if texts repeat. With ``choices``, golden answers are letters, texts of options, or 0-based
    indices as JSON numbers; all become letters.

    ``path`` is None for questions of the caller's own list. ``task`` applies to questions without a task; default:
    ``choice`` for those with choices, else ``short_answer``.

    Raises:
        UserError: The file or an entry is invalid; the message names the line. Or ``task`` would apply to no question.
    """
    if task is not None:
        TASKS[task]
    columns = columns or Columns()
    place_of: dict[str, str] = {}
    repeats: Counter[str] = Counter()
    questions = []
    for row in rows:
        found = columns.find(row)
        question = _question(row, found, columns, task)
        if question.id in place_of and "id" in found.names:
            raise row.error(f"id {question.id!r} is already on {place_of[question.id]}; expected each once")
        if question.id in place_of:
            repeats[question.id] += 1
            question = replace(question, id=f"{question.id}-{repeats[question.id] + 1}")
        place_of[question.id] = row.place
        questions.append(question)
    if not questions:
        raise UserError("the file contains no question" if path else "no questions were given", file=path)
    if lost := [f"{key}={name}" for key, name in columns.given.items() if key not in columns.given_found]:
        raise UserError(f"--columns {lost[0]}: no row has this column", file=path)
    if task is not None and all(question.task != task for question in questions):
        theirs = ", ".join(sorted({question.task for question in questions}))
        raise UserError(f"each question names its own task ({theirs}), so {task} would apply to none", file=path)
    if path is not None and columns.is_plain(of_file=True):
        say_counts(path, columns, len(questions))
    elif not columns.is_plain(of_file=path is not None) and not _is_shipped(path):
        say = _log_once if path is not None else _log.warning
        say(f"{path or 'questions'}: {columns.line(len(questions), repeats.total())}")
    return questions


_SHIPPED = asset("eval", "samples")


def _is_shipped(path: Path | None) -> bool:
    return path is not None and path.absolute().parent == _SHIPPED


def say_counts(path: Path, columns: Columns, count: int) -> None:
    """Log how many golds a file has, unless madke ships it."""
    if not _is_shipped(path):
        _log_once(f"{path}: {columns.counts(count)}")


@cache
def _log_once(line: str) -> None:
    """Log a line once per process: a command may read a file for a plan, and again for the run."""
    _log.warning("%s", line)


def questions_of_records(
    records: Iterable[Question | Mapping[str, Any] | str],
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Question]:
    """The questions of the caller's own list. A mapping is read as the same object in a JSON Lines file."""
    rows = (Row(fields=_fields(each), file=None, number=number) for number, each in enumerate(records, start=1))
    return questions_in(rows, None, Columns(given=columns or {}), task=task)


def question_from_fields(record: Mapping[str, Any], task: str | None = None) -> Question:
    """The question of one mapping; see :func:`questions_in`."""
    return questions_of_records([record], task=task)[0]


def _fields(record: Question | Mapping[str, Any] | str) -> dict[str, Any]:
    if isinstance(record, str):
        return {"question": record}
    if not isinstance(record, Question):
        return {name: _unpacked(value) for name, value in record.items()}
    values = {each.name: _unpacked(getattr(record, each.name)) for each in fields(record)}
    if not record.id:
        del values["id"]
    if record.task == Question(question="").task:  # nobody chose it
        del values["task"]
    return values


def _unpacked(value: Any) -> Any:
    """A list for tuples, sets and arrays; Python's own numbers."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def _question(row: Row, found: Found, columns: Columns, task: str | None) -> Question:
    """The question of a row, whose fields are in these columns."""
    values = {key: row.fields[name] for key, name in found.names.items()}
    values = {key: None if _is_empty(value) and key != "id" else value for key, value in values.items()}
    text = row.checked(row.fields[found.names["question"]], found.names["question"])
    options = _options(row, found)
    own_task = values.get("task")
    task = row.checked(own_task, found.names["task"]) if own_task is not None else task
    task = task or (Choice.name if options.texts else Question(question="").task)
    try:
        checked = get_task(task).check
    except UserError as error:
        raise row.error(str(error)) from None
    golds, split = _golds(row, found, options, task)
    columns.add_golds(golds, split=split)
    metadata = row.parsed(values.get("metadata") or {}, found.names.get("metadata", ""))
    if not isinstance(metadata, Mapping):
        raise row.error(f"{found.names['metadata']!r} is {short(metadata)}; expected an object")
    if wrong := [text for name in found.wrong for text in _texts(row, name, task, several=True)[0]]:
        metadata = {"wrong_answers": list(dict.fromkeys(wrong)), **metadata}
    instructions = values.get("instructions")
    question = Question(
        id=row.checked(values["id"], found.names["id"]) if "id" in values else id_of(text),
        question=text,
        answers=tuple(golds),
        task=task,
        choices=options.texts,
        instructions="" if instructions is None else row.checked(instructions, found.names["instructions"]),
        metadata=metadata,
    )
    if fault := checked(question):
        raise row.error(fault)
    return question


def _is_empty(value: Any) -> bool:
    """Whether a cell has no value: nothing, blanks, an empty list, or not a number, as pandas writes it."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value == [] or (isinstance(value, float) and math.isnan(value))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options:
    """The options of one question."""

    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """The names that the file gives to the options, if it does (ARC: letters or numbers)."""


def _options(row: Row, found: Found) -> _Options:
    """The options in a column of lists, of ``{"text": [...], "label": [...]}``, ``{"A": ...}``, or in a column each."""
    if found.options:
        values = [(name, row.fields[name]) for name in found.options]
        while values and _is_empty(values[-1][1]):
            values.pop()
        return _Options(texts=tuple(row.checked(value, name) for name, value in values))
    if "choices" not in found.names:
        return _Options()
    name = found.names["choices"]
    value = row.fields[name]
    value = row.parsed(value, name, any_list=True)
    if _is_empty(value):
        return _Options()
    if isinstance(value, Mapping) and value:
        is_table = set(value) == {"text", "label"}
        texts, labels = (value["text"], value["label"]) if is_table else ([*value.values()], [*value])
        if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len(labels):
            raise row.error(f"{name!r} is {short(value)}; expected as many labels as texts")
        named = [row.checked(label, name) for label in labels]
        if twice := [label for label, count in Counter(named).items() if count > 1]:
            raise row.error(f"{name!r} has the label {twice[0]!r} twice; expected each once")
        return _Options(texts=tuple(row.checked(text, name) for text in texts), labels=tuple(named))
    if not isinstance(value, list):
        raise row.error(f"{name!r} is {short(value)}; expected a list such as ['a', 'b'], or columns A, B, C ...")
    return _Options(texts=tuple(row.checked(text, name) for text in value))


def _golds(row: Row, found: Found, options: _Options, task: str) -> tuple[list[str], bool]:
    """The golds, and whether they were one cell. Of a choice: letters."""
    golds: dict[str, None] = {}
    split = False
    for place, name in enumerate(found.golds):
        values, parted = _texts(row, name, task, several=place > 0, options=options)
        golds.update(dict.fromkeys(values))
        split |= parted
    return [*golds], split


def _texts(row: Row, name: str, task: str, *, several: bool, options: _Options | None = None) -> tuple[list[str], bool]:
    """The answers in one column, and whether its text was split.

    They are a text, a list, SQuAD's ``{"text": [...]}``, or TriviaQA's ``{"value": ..., "aliases": [...]}``.
    ``several``: the column's name says that it may have many answers.
    """
    value = row.parsed(row.fields[name], name)
    if _is_empty(value):
        return [], False
    if isinstance(value, str) and is_ambiguous(value):
        one, many = f"[{value!r}]", "['1', '2']"
        raise row.error(f"{name!r} is {short(value)}: one answer or several? Write {one}, or a list such as {many}")
    value = _unwrapped(value)
    answers = [_unwrapped(each) for each in value] if isinstance(value, list) else [value]
    if options and options.texts and task == Choice.name:
        return [_letter(row, answer, options, name) for answer in answers], False
    split = isinstance(value, str) and task in ("short_answer", "answer_list")
    if split:
        answers = _aliases(value, several=several or task == "answer_list")
    read = row.answer if task == "short_answer" else row.checked
    return list(dict.fromkeys(read(answer, name) for answer in answers)), split and len(answers) > 1


def _unwrapped(value: Any) -> Any:
    """The answers in an object; any other value as it is."""
    if not isinstance(value, Mapping):
        return value
    lower = {str(key).lower(): each for key, each in value.items()}
    if "text" in lower and set(lower) <= {"text", "answer_start"}:
        return lower["text"]
    if isinstance(lower.get("aliases"), list) and lower.get("value"):
        return [lower["value"], *lower["aliases"]]
    return value


def _aliases(cell: str, *, several: bool) -> list[str]:
    """The aliases in one cell: ``A|B``, ``A; B``, or one on each line; the cell itself if it is one answer.

    ``|`` always separates them, semicolons and line ends where each part is short or the column has ``several``. Signs
    within brackets do not count, nor do semicolons between parts that are not alike: one has a comma, another has none
    ("Crosby, Stills & Nash; live").
    """
    for sign in ("|", "\n", ";"):
        parts = [part.strip() for part in cell.split(sign)]
        whole = all(
            part and part.count("(") == part.count(")") and part.count("[") == part.count("]") for part in parts
        )
        alike = sign != ";" or len({"," in part for part in parts}) == 1
        short_parts = alike and all(len(part.split()) <= _SHORT for part in parts)
        if len(parts) > 1 and whole and (several or sign == "|" or short_parts):
            return parts
    return [cell]


def _letter(row: Row, answer: Any, options: _Options, name: str) -> str:
    """The letter of the option that an answer names by its label, letter, text, or 0-based number."""
    letters = [letter for letter, _ in lettered(options.texts)]
    expected = f"expected a letter from A to {letters[-1]}" if letters else "expected a letter"
    if isinstance(answer, bool):
        raise row.error(f"{name!r} is {short(answer)}; {expected}, or the text of one option")
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if str(answer) in options.labels:
        return letters[options.labels.index(str(answer))]
    if isinstance(answer, int):
        if answer not in range(len(letters)):
            raise row.error(f"{name!r} contains {answer!r}; expected indices from 0 to {len(letters) - 1}")
        return letters[answer]
    text = row.checked(answer, name)
    if re.fullmatch(r"\d{1,2}", text.strip()) and int(text) <= len(letters):
        why = "0-based numbers are for JSON, without quotes"
        raise row.error(f"{name!r} is {short(answer)}; {expected} ({why})")
    if text not in letters and options.texts.count(text) == 1:  # an option may be named by a letter
        return letters[options.texts.index(text)]
    letter = Choice().read(text, Question(question="", choices=options.texts))
    if letter is None:
        raise row.error(f"{name!r} is {short(answer)}; {expected}, or the text of one option")
    return letter


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
