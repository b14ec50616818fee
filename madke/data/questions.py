"""Question files of users: their rows, and the project's own form of a question."""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from madke._util.assets import require
from madke._util.files import cells_of, open_unpacked, text_lines
from madke._util.yaml_file import validated
from madke.core.errors import UserError
from madke.core.question import Question
from madke.data.answers import gold_answers, options_of, parsed_if_structured
from madke.data.cells import is_list
from madke.data.columns import Columns, Found, is_header, refuse_many
from madke.data.published_rows import Row, json_rows, jsonl_rows
from madke.tasks import TASKS, get_task
from madke.tasks.choice import lettered

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


def questions_in(rows: Iterable[Row], path: Path, *, task: str | None = None) -> list[Question]:
    """The questions in the rows of a file of your own, in order. Logs what was understood as what.

    The fields are ``question``, and optionally ``id``, ``golden_answers``, ``choices``, ``instructions``, ``task`` and
    ``metadata``; :data:`madke.data.columns.COLUMNS` has their other names. Without ids, questions get a hash of their
    text, and a number if texts repeat. With ``choices``, golden answers are letters, texts of options, or 0-based
    indices as JSON numbers; all become letters.

    ``task`` applies to questions without a task; default: ``choice`` for those with choices, else ``short_answer``.

    Raises:
        UserError: The file or an entry is invalid; the message names the line. Or ``task`` would apply to no question.
    """
    if task is not None:
        TASKS[task]
    columns = Columns()
    place_of: dict[str, str] = {}
    repeats: Counter[str] = Counter()
    questions = []
    for row in rows:
        question = _of_row(row, columns.find(row), task)
        if question.id in place_of and "id" in columns.used:
            raise row.error(f"id {question.id!r} is already on {place_of[question.id]}; expected each once")
        if question.id in place_of:
            repeats[question.id] += 1
            question = replace(question, id=f"{question.id}-{repeats[question.id] + 1}")
        place_of[question.id] = row.place
        questions.append(question)
    if not questions:
        raise UserError("the file contains no question", file=path)
    if task is not None and all(question.task != task for question in questions):
        theirs = ", ".join(sorted({question.task for question in questions}))
        raise UserError(f"each question names its own task ({theirs}), so {task} would apply to none", file=path)
    if not columns.is_plain():
        _log.warning("%s", columns.line(path, len(questions), repeats.total()))
    return questions


def _of_row(row: Row, found: Found, task: str | None) -> Question:
    """The question of a row, whose fields are in these columns."""
    names = found.names
    values = {key: row.fields[name] for key, name in names.items()}
    text = values["question"] = row.checked(values["question"], names["question"])
    values["id"] = row.checked(values["id"], names["id"]) if "id" in names else id_of(text)
    if "metadata" in names:
        values["metadata"] = parsed_if_structured(row, values["metadata"], names["metadata"])
    options = options_of(row, found)
    values["choices"] = options.texts
    values["golden_answers"] = gold_answers(row, found, options, task=values.get("task") or task)
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
    """Make a question of the fields of a line; see :func:`questions_in`."""
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


FORMS = "CSV, TSV, JSON, JSON Lines or Parquet"

_BOM = b"\xef\xbb\xbf"
_BATCH = 256


def own_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; its form follows from the suffix or the first characters.

    Only JSON lists are held in memory. The cells of a table are texts. A table without a header is read
    if it has the form of DPR's topics: a question and a list of answers, in columns 1 and 2.
    """
    if path.is_fifo():  # can be read only once
        return jsonl_rows(path)
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    with open_unpacked(path) as file:
        start = file.read(4096).removeprefix(_BOM).lstrip()
    if start.startswith(b"PAR1"):
        return _parquet_rows(path)
    if suffix.lower() in (".csv", ".tsv") or not start.startswith((b"{", b"[")):
        return _table_rows(path)
    first, several, _ = start.partition(b"\n")
    is_document = start.startswith(b"[") or (several and not first.rstrip().endswith(b"}"))
    return json_rows(path) if is_document else jsonl_rows(path)


def _table_rows(path: Path) -> Iterator[Row]:
    cells = cells_of(path, _delimiter(path), strict=True)
    header: Sequence[str] | None = None
    number = 0
    for line, found in cells:
        if not any(cell.strip() for cell in found):
            continue
        if header is None:
            refuse_many(Row(fields={}, file=path, line=line, number=1), len(found))
            header = [cell.strip() for cell in found] if is_header(found) else _topics(path, found, line)
            if twice := [name for name in header if name and header.count(name) > 1]:
                raise UserError(f"the header has {twice[0]!r} twice; expected each name once", file=path, line=line)
            Columns().find(Row(fields=dict.fromkeys(header), file=path, line=line, number=1))
            if is_header(found):
                continue
        if len(found) != len(header):
            expected = f"expected {len(header)} cells ({', '.join(header)}), found {len(found)}"
            raise UserError(f"{expected}; put a text that contains the separator in quotes", file=path, line=line)
        number += 1
        fields = dict(zip(header, found, strict=True))
        yield Row(fields=fields, file=path, line=line, number=number)


def _delimiter(path: Path) -> str:
    first = next(text_lines(path), "")
    return next((sign for sign in ("\t", ",", ";") if sign in first), ",")


def _topics(path: Path, cells: Sequence[str], line: int) -> tuple[str, ...]:
    """The names of the columns of DPR's topics, which have no header."""
    if len(cells) == 2 and is_list(cells[1]):
        return "column 1", "column 2"
    found = ", ".join(f"{cell.strip()[:40]!r}" for cell in cells[:8])
    expected = f"expected {FORMS} with a column 'question'"
    raise UserError(f"{expected}; found no such header, but {found}", file=path, line=line)


def _parquet_rows(path: Path) -> Iterator[Row]:
    require(f"{path}: Parquet files need", "report", "pyarrow")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            batches = file.iter_batches(batch_size=_BATCH)
            rows = (row for batch in batches for row in batch.to_pylist())
            for number, fields in enumerate(rows, start=1):
                yield Row(fields=fields, file=path, number=number)
    except (ArrowException, OSError) as error:
        raise UserError(f"cannot be read as Parquet: {' '.join(str(error).split())[:200]}", file=path) from None
