"""Read questions, and the passages that come with them, from files of your own and published files.

They may be chosen by a list of ids, as the first ones, or as a sample by the hash of each id. Each published dataset
has a card (``eval/datasets/NAME.yaml``).
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from madke._util.assets import asset
from madke._util.files import text_lines
from madke._util.yaml_file import read_mapping
from madke.core.errors import UserError, unknown
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.data.formats import FORMATS, READERS, DatasetReader, Format, Item
from madke.data.questions import Columns, counts, questions_in, say_once
from madke.data.rows import Row, own_rows
from madke.tasks import TASKS, get_task

_log = logging.getLogger(__name__)

_SAMPLE = asset("eval", "samples") / "questions.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetEntry:
    """A question of a published dataset with its passages."""

    question: Question
    passages: tuple[Passage, ...] = ()
    """Source ``gold``: those with the evidence; source ``context``: all of them; each in the dataset's order."""


def read_dataset(
    path: Path,
    *,
    dataset: str | None = None,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    ids: str | None = None,
    limit: int | None = None,
    sample_seed: int | None = None,
) -> list[Question]:
    """Read the questions of a file, in order.

    Args:
        path: The file; for MMLU also a folder.
        dataset: A name in :data:`madke.data.formats.READERS`; None: a file of your own
            (:func:`madke.data.questions.questions_in`): CSV, TSV, XLSX, JSON, JSON Lines or Parquet.
        task: The answer format, instead of the dataset's; in madke's own format, of lines without a task.
        columns: Field -> column, for columns of your own file with other names: ``{"question": "Frage"}``.
        ids: The path or name of a list of ids; only these questions are read.
        limit: Maximum number of questions. Without ``sample_seed`` the first ones are taken.
        sample_seed: Seed of a random sample (:func:`sample_of`).

    Raises:
        UserError: The file or an entry is invalid, a name is unknown, or a seed comes without a limit.
    """
    if columns and dataset is not None:
        raise UserError("--columns is for files of your own; leave out --dataset")
    if dataset is None:
        mapping = Columns(overrides=columns or {})
        questions = questions_in(own_rows(path, mapping.is_header), path, mapping, task=task)
        _warn_unlabelled(questions, path)
    else:
        questions = [entry.question for entry in read_published(path, dataset, task=task)]
        say_once(path, counts(questions))
    return select_questions(questions, path, ids=ids, limit=limit, seed=sample_seed)


def read_published(path: Path, dataset: str, *, task: str | None = None) -> list[DatasetEntry]:
    """The entries of a published file; see :func:`read_dataset`."""
    reader = READERS[dataset]
    if task is not None:
        TASKS[task]  # imports the task that the caller named
    entries = _entries(reader, path, task) if isinstance(reader, Format) else _read_by(reader, dataset, path, task)
    kept: dict[str, tuple[Row, DatasetEntry]] = {}
    for row, entry in entries:
        question = entry.question
        if wrong := get_task(question.task).check(question):
            raise row.error(wrong)
        if question.id in kept:
            raise row.error(f"id {question.id!r} was already used on {kept[question.id][0].place}; ids must be unique")
        kept[question.id] = row, entry
    if not kept:
        raise UserError("the file contains no question", file=path)
    _warn_unlabelled([entry.question for _, entry in kept.values()], path)
    return [entry for _, entry in kept.values()]


def is_sample_data(questions: Iterable[Question]) -> bool:
    """Whether all questions are among those that are shipped as a sample."""
    return _sample_texts().issuperset(question.question for question in questions)


@cache
def _sample_texts() -> frozenset[str]:
    return frozenset(question.question for question in read_dataset(_SAMPLE))


def _read_by(reader: DatasetReader, name: str, path: Path, task: str | None) -> Iterator[tuple[Row, DatasetEntry]]:
    """The questions of a user's reader; their ``metadata["dataset"]`` defaults to its name."""
    try:
        questions = list(reader(path))
    except UserError:
        raise
    except Exception as error:  # the user's code
        raise UserError(f"the reader {name!r} failed: {type(error).__name__}: {error}", file=path) from error
    for number, question in enumerate(questions, start=1):
        row = Row(fields={}, file=path, number=number)
        if not isinstance(question, Question):
            raise row.error(f"{name!r} yields a {type(question).__name__}; expected Question")
        metadata = {"dataset": name, **question.metadata}
        yield row, DatasetEntry(question=replace(question, task=task or question.task, metadata=metadata))


def _entries(format_: Format, path: Path, task: str | None) -> Iterator[tuple[Row, DatasetEntry]]:
    places: Counter[str | None] = Counter()
    for row in format_.rows(path):
        item = format_.item(row)
        place = places[item.series]
        counted = f"{item.series}-{place:03}" if item.series else f"{format_.name}-{place + 1:04}"
        places[item.series] += 1
        yield row, _entry(format_.name, task or format_.task, item.question.id or counted, item)


def _warn_unlabelled(questions: Sequence[Question], file: Path) -> None:
    """Warn about questions without gold answers, which cannot be scored: test splits, wrong keys, lost labels."""
    without = [question.id for question in questions if not question.answers]
    if without:
        warning = "%s: %d of %d questions have no gold answer and are not scored (first: %r)"
        _log.warning(warning, file, len(without), len(questions), without[0])


def _entry(dataset: str, task: str, id_: str, item: Item) -> DatasetEntry:
    """The entry of an item; a passage's key is question id and position, which does not reveal its kind."""
    metadata: dict[str, Any] = {"dataset": dataset, **item.question.metadata}
    keyed = [(f"{id_}/{place}", paragraph) for place, paragraph in enumerate(item.paragraphs)]
    gold = [(key, each) for key, each in keyed if each.kind == "gold"]
    if wrong := [key for key, each in keyed if each.kind == "misinformation"]:
        metadata["misinformation_passages"] = wrong
    # Titles mark evidence in the pools of every source; keys only in pools of the dataset's own passages.
    if gold and "gold_titles" not in metadata:
        metadata["gold_passages"] = [key for key, _ in gold]
    passages = (
        Passage(source=source, key=key, title=each.title, text=each.text, score=0.0, rank=rank)
        for source, shown in (("gold", gold), ("context", keyed))
        for rank, (key, each) in enumerate(shown)
    )
    return DatasetEntry(question=replace(item.question, id=id_, task=task, metadata=metadata), passages=tuple(passages))


def sample_of(questions: Sequence[Question], limit: int | None, seed: int | None) -> list[Question]:
    """The first ``limit`` questions (None: all), or a random sample, in the original order; UserError for a lone seed.

    A sample has the questions with the lowest SHA-256 of ``seed:id``, so larger samples contain smaller ones.
    """
    if seed is None:
        return list(questions[:limit])
    if limit is None:
        raise UserError("a sample seed requires a limit, the number of questions to draw")
    ids = (question.id for question in questions)
    drawn = set(sorted(ids, key=lambda id_: (sha256(f"{seed}:{id_}".encode()).digest(), id_))[:limit])
    return [question for question in questions if question.id in drawn]


def read_ids(name: str) -> list[str]:
    """Read a list of ids by its path or shipped name: one id per line; lines that start with ``#`` are comments."""
    shipped = {path.stem: path for path in sorted(asset("eval", "datasets", "ids").glob("*.txt"))}
    path = shipped.get(name, Path(name))
    if not path.is_file():
        raise unknown("list of ids", name, shipped)
    lines = map(str.strip, text_lines(path))
    ids = [line for line in lines if line and not line.startswith("#")]
    if not ids:
        raise UserError("the file contains no id; expected one id per line", file=path)
    if twice := [id_ for id_, count in Counter(ids).items() if count > 1]:
        raise UserError(f"id {twice[0]!r} occurs twice", file=path)
    return ids


def with_ids(questions: Sequence[Question], ids: Sequence[str], file: Path) -> list[Question]:
    """The questions with these ids, in the order of the file; UserError if some are missing.

    A file with exactly as many questions as ids is taken as the selection itself, even if some ids differ: published
    selections do not contain the positions of their sentences in the whole set.
    """
    selected = set(ids)
    chosen = [question for question in questions if question.id in selected]
    if len(chosen) < len(selected) and len(questions) == len(selected):
        return list(questions)
    if missing := sorted(selected - {question.id for question in chosen}):
        some = f"{len(missing)} of {len(selected)} ids are not among the {len(questions)} questions of this file"
        raise UserError(f"{some} (first: {missing[0]!r})", file=file)
    return chosen


def select_questions(
    questions: Sequence[Question], file: Path, *, ids: str | None, limit: int | None, seed: int | None
) -> list[Question]:
    """The questions of a list of ids (:func:`read_ids`; None: all), limited or sampled by :func:`sample_of`."""
    listed = questions if ids is None else with_ids(questions, read_ids(ids), file)
    return sample_of(listed, limit, seed)


def card(name: str) -> dict[str, Any]:
    """The card of a dataset: origin, licence, files, splits, scoring, known faults. UserError for an unknown name."""
    if name not in FORMATS:
        raise unknown("dataset", name, FORMATS)
    return read_mapping(asset("eval", "datasets", f"{name}.yaml"))
