"""Question files of users: their rows, the columns that mean something, and the project's own form of a question."""

import ast
import difflib
import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from madke.assets import require
from madke.core.errors import UserError, counted
from madke.core.question import Question
from madke.data.published_rows import Row, json_rows, jsonl_rows, short
from madke.files import cells_of, opened, text_lines
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


def questions_in(rows: Iterable[Row], path: Path, *, task: str | None = None) -> list[Question]:
    """The questions in the rows of a file of your own, in order. Logs what was understood as what.

    The fields are ``question``, and optionally ``id``, ``golden_answers``, ``choices``, ``instructions``, ``task`` and
    ``metadata``; :data:`COLUMNS` has their other names. Without ids, questions get a hash of their
    text, and a number if texts repeat. With ``choices``, golden answers are letters, or 0-based indices as JSON
    numbers, which are converted to letters.

    ``task`` applies to questions without a task; default: ``choice`` for those with choices, else ``short_answer``.

    Raises:
        UserError: The file or an entry is invalid; the message names the line.
    """
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
        listed = list(dict.fromkeys(row.answer(answer, names["golden_answers"]) for answer in listed))
    elif any(isinstance(answer, bool) for answer in listed):
        raise row.error(f"{names['golden_answers']!r} is {short(answers)}; with choices, expected a letter or an index")
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
_LIST = re.compile(r"\s*\[\s*(?:['\"].*|\])", re.DOTALL)
"""A list of texts in a cell. ``[1, 2]`` is an answer in mathematics."""
_BATCH = 256


def own_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; its form follows from the suffix or the first characters.

    Only JSON lists are held in memory. Lists in the cells of a table become lists. A table without a header is read
    if it has the form of DPR's topics: a question and a list of answers, in columns 1 and 2.
    """
    if path.is_fifo():  # can be read only once
        return jsonl_rows(path)
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    with opened(path) as file:
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
            header = [cell.strip() for cell in found] if is_header(found) else _topics(path, found, line)
            if twice := [name for name in header if name and header.count(name) > 1]:
                raise UserError(f"the header has {twice[0]!r} twice; expected each name once", file=path, line=line)
            Columns().names(Row(fields=dict.fromkeys(header), file=path, line=line, number=1))
            if is_header(found):
                continue
        if len(found) != len(header):
            expected = f"expected {len(header)} cells ({', '.join(header)}), found {len(found)}"
            raise UserError(f"{expected}; put a text that contains the separator in quotes", file=path, line=line)
        number += 1
        fields = {name: _value(cell, path, line) for name, cell in zip(header, found, strict=True)}
        yield Row(fields=fields, file=path, line=line, number=number)


def _delimiter(path: Path) -> str:
    first = next(text_lines(path), "")
    return next((sign for sign in ("\t", ",", ";") if sign in first), ",")


def _topics(path: Path, cells: Sequence[str], line: int) -> tuple[str, ...]:
    """The names of the columns of DPR's topics, which have no header."""
    if len(cells) == 2 and _LIST.match(cells[1]):
        return "column 1", "column 2"
    found = ", ".join(f"{cell.strip()[:40]!r}" for cell in cells[:8])
    expected = f"expected {FORMS} with a column 'question'"
    raise UserError(f"{expected}; found no such header, but {found}", file=path, line=line)


def _value(cell: str, path: Path, line: int) -> Any:
    """The text of a cell; a list if it is one of texts, as JSON or as Python writes it."""
    if not _LIST.match(cell):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about backslashes
            return ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = cell if len(cell) <= 60 else f"{cell[:57]}..."
        raise UserError(f"expected a list such as ['a', 'b'], found {found!r}", file=path, line=line) from None


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


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "qid", "question_id", "query_id"),
    "question": ("question", "query", "prompt", "column_1"),
    "golden_answers": ("golden_answers", "answers", "answer", "column_2"),
    "choices": ("choices",),
    "instructions": ("instructions",),
    "task": ("task",),
    "metadata": ("metadata",),
}
"""Field of a question -> the names of its column, the first one preferred; case, spaces and hyphens do not matter."""

_NAMES = {name: key for key, names in COLUMNS.items() for name in names}
_SUGGESTED = [name for name, key in _NAMES.items() if key not in ("id", "task") and not name.startswith("column")]
_ALIKE, _LESS_ALIKE = 0.8, 0.6
_SHOWN = 8


def _plain(name: object) -> str:
    return str(name).strip().casefold().replace(" ", "_").replace("-", "_")


def is_header(cells: Iterable[str]) -> bool:
    """Whether the first row of a table has the name of a column, perhaps misspelt."""
    return any(_plain(cell) in _NAMES or _meant(cell, _SUGGESTED) for cell in cells)


def _meant(name: object, known: Iterable[str], cutoff: float = _ALIKE) -> str | None:
    """The known name of which this one is probably a misspelling."""
    return next(iter(difflib.get_close_matches(_plain(name), known, n=1, cutoff=cutoff)), None)


@dataclass(kw_only=True)
class Columns:
    """The columns of a file as far as it was read; the keys of JSON objects may differ."""

    used: dict[str, dict[str, None]] = field(default_factory=dict)
    """Field of a question -> the names found."""
    unused: dict[str, None] = field(default_factory=dict)
    made_ids: bool = False
    _known: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)

    def names(self, row: Row) -> Mapping[str, str]:
        """Field of a question -> its name in the row; UserError without a question, or with a misspelt name."""
        keys = tuple(row.fields)
        if keys not in self._known:
            self._known[keys] = self._found(row, keys)
        return self._known[keys]

    def _found(self, row: Row, keys: Sequence[str]) -> dict[str, str]:
        by_name = {_plain(name): name for name in reversed(keys)}
        found = {}
        for key, names in COLUMNS.items():
            if name := next((by_name[name] for name in names if name in by_name), None):
                found[key] = name
        missing = [name for name in _SUGGESTED if _NAMES[name] not in found]
        unused = [name for name in keys if str(name).strip() and name not in found.values()]
        for name in unused:
            if meant := _meant(name, missing):
                raise row.error(f"unknown field {short(name)}; did you mean {meant!r}?")
        if "question" not in found:
            near = [meant for name in unused if (meant := _meant(name, ("question", "query", "prompt"), _LESS_ALIKE))]
            hint = f"; did you mean {near[0]!r}?" if near else ""
            listed = ", ".join(short(name) for name in keys[:_SHOWN]) or "nothing"
            raise row.error(f"expected a field 'question', 'query' or 'prompt', found {listed}{hint}")
        for key, name in found.items():
            self.used.setdefault(key, {})[name] = None
        self.unused.update(dict.fromkeys(unused))
        self.made_ids |= "id" not in found
        return found

    def is_plain(self) -> bool:
        """Whether the file has only the fields of madke's own form."""
        return not self.made_ids and not self.unused and all(list(names) == [key] for key, names in self.used.items())

    def line(self, file: Path, count: int, repeated: int) -> str:
        """What was understood, in one line, of so many questions, of which some repeat the text of another."""
        parts = [f"question from {_listed(self.used['question'])}"]
        answers = self.used.get("golden_answers")
        parts.append(f"answers from {_listed(answers)}" if answers else "no answers")
        ids = self.used.get("id")
        parts.append(f"ids from {_listed(ids)}" if ids else "ids made from the text")
        parts += [
            f"{key} from {_listed(self.used[key])}" for key in ("choices", "task", "metadata") if key in self.used
        ]
        if repeated:
            parts.append(f"{repeated:,} with the text of an earlier question")
        if self.unused:
            parts.append(f"not used: {_listed(self.unused)}")
        return f"{file}: {counted(count, 'question')}; {', '.join(parts)}"


def _listed(names: Iterable[str]) -> str:
    every = [f"`{' '.join(str(name).split())[:40]}`" for name in names]
    return ", ".join(every[:_SHOWN]) + (f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else "")
