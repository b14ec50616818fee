"""Questions of a file, ours or a published one, with the passages that the dataset brings along."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.data.formats import FORMATS, READERS, DatasetReader
from madke.data.published_rows import Format, Item, Row
from madke.data.questions import read_questions
from madke.data.sampling import chosen
from madke.tasks import TASKS, get_task

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A question of a published dataset, with what the dataset brings along."""

    question: Question
    passages: Mapping[str, tuple[Passage, ...]] = field(default_factory=dict)
    """Source -> passages in the dataset's order. ``context``: all of them; ``gold``: those that hold the evidence."""


def read_dataset(
    path: Path,
    *,
    dataset: str | None = None,
    task: str | None = None,
    ids: str | None = None,
    limit: int | None = None,
    sample_seed: int | None = None,
) -> list[Question]:
    """The questions of a file, in its order.

    Args:
        path: The file; for MMLU also a folder.
        dataset: A name of :data:`madke.data.formats.READERS`; None: our own JSON Lines
            (:func:`madke.data.read_questions`).
        task: The answer format, in place of the dataset's; for our own, of lines that name none.
        ids: A list of ids, by path or name: only these questions are read.
        limit: The largest number of questions. Without ``sample_seed`` the first ones are taken.
        sample_seed: Draws the sample (:func:`madke.data.sampling.sample`).

    Raises:
        UserError: The file or one of its entries is wrong, a name is unknown, or there is a seed and no limit.
    """
    if dataset is None:
        try:
            questions = read_questions(path, task=task)
        except UserError as error:
            raise UserError(f"{error}{_hint(path)}") from None
        _warn_unlabelled(questions, path)
    else:
        questions = [entry.question for entry in read_published(path, dataset, task=task)]
    return chosen(questions, lambda question: question.id, path, ids=ids, limit=limit, seed=sample_seed)


def read_published(path: Path, dataset: str, *, task: str | None = None) -> list[Entry]:
    """The entries of a published file; see :func:`read_dataset`."""
    reader = READERS[dataset]
    if not isinstance(reader, Format):
        return _checked(_read_by(reader, dataset, path, task), task, path)
    try:
        return entries(reader, reader.rows(path), task=task, file=path)
    except UserError as error:
        raise UserError(f"{error}{_hint(path, dataset)}") from None


def _hint(path: Path, dataset: str | None = None) -> str:
    """By which names a file that was not read as this dataset can be read; empty where it is one of it, or of none."""
    likely = [name for name in FORMATS if _reads_first(name, path)]
    if not likely or dataset in likely:
        return ""
    return f"; it can be read with --dataset {' or '.join(likely)} (madke ablate: --data NAME=PATH)"


def _reads_first(name: str, path: Path) -> bool:
    """Whether the first entry of a file is a labelled one of this dataset."""
    try:
        return any(_item(FORMATS[name], row).answers for row in islice(FORMATS[name].rows(path), 1))
    except UserError:
        return False


def _read_by(reader: DatasetReader, name: str, path: Path, task: str | None) -> Iterator[tuple[Row, Entry]]:
    """What somebody's reader yields; a question that does not say which dataset it is of, is of this one."""
    try:
        questions = list(reader(path))
    except UserError:
        raise
    except Exception as error:  # somebody else's code: whatever it raises is told, not shown as ours
        raise UserError(f"the reader {name!r} failed: {type(error).__name__}: {error}", file=path) from error
    for number, question in enumerate(questions, start=1):
        row = Row(fields={}, file=path, number=number)
        if not isinstance(question, Question):
            raise row.error(f"{name!r} yields a {type(question).__name__}; expected Question")
        metadata = {"dataset": name, **question.metadata}
        yield row, Entry(question=replace(question, task=task or question.task, metadata=metadata))


def entries(format_: Format, rows: Iterable[Row], *, task: str | None, file: Path | str) -> list[Entry]:
    """The entries of a dataset's rows, of a file or of its Hugging Face repository."""
    return _checked(_entries(format_, rows, task or format_.task), task, file)


def _entries(format_: Format, rows: Iterable[Row], task: str) -> Iterator[tuple[Row, Entry]]:
    places: Counter[str | None] = Counter()
    for row in rows:
        item = _item(format_, row)
        place = places[item.series]
        counted = f"{item.series}-{place:03}" if item.series else f"{format_.name}-{place + 1:04}"
        places[item.series] += 1
        yield row, _entry(format_.name, task, item.id if item.id is not None else counted, item)


def _checked(found: Iterable[tuple[Row, Entry]], task: str | None, file: Path | str) -> list[Entry]:
    """The entries, if each is one that its task takes, ids differ, and there are some."""
    if task is not None:
        TASKS[task]  # imported: the caller named it
    kept: dict[str, tuple[Row, Entry]] = {}
    for row, entry in found:
        question = entry.question
        if wrong := get_task(question.task).check(question):
            raise row.error(wrong)
        if question.id in kept:
            raise row.error(f"id {question.id!r} is that of {kept[question.id][0].place} already; ids must differ")
        kept[question.id] = row, entry
    if not kept:
        raise UserError("holds no question", file=file)
    _warn_unlabelled([entry.question for _, entry in kept.values()], file)
    return [entry for _, entry in kept.values()]


def _warn_unlabelled(questions: Sequence[Question], file: Path | str) -> None:
    """Say what of the file can be neither right nor wrong: a test split, the wrong keys, a label that got lost."""
    without, n = [question.id for question in questions if not question.answers], len(questions)
    if len(without) == n:
        _log.warning("%s: none of the %d questions has a gold answer: no answer can be scored", file, n)
    elif without:
        said = "%s: %d of %d questions have no gold answer, so they are in no score (first: %r)"
        _log.warning(said, file, len(without), n, without[0])


def _item(format_: Format, row: Row) -> Item:
    if "golden_answers" in row.fields:
        raise row.error(
            "found 'golden_answers': this is madke's own JSONL; leave --dataset out "
            "(madke ablate: give --data PATH without NAME=)"
        )
    return format_.item(row)


def _entry(dataset: str, task: str, id_: str, item: Item) -> Entry:
    """The entry; passages are known by question and place, which tells nothing of what they are."""
    metadata: dict[str, Any] = {"dataset": dataset, **item.metadata}
    keys: dict[str, list[str]] = {}
    passages: dict[str, list[Passage]] = {}
    for place, paragraph in enumerate(item.paragraphs):
        key = f"{id_}/{place}"
        keys.setdefault(paragraph.kind, []).append(key)
        for source in ("gold", "context") if paragraph.kind == "gold" else ("context",):
            ranked = passages.setdefault(source, [])
            ranked.append(
                Passage(source=source, key=key, title=paragraph.title, text=paragraph.text, score=0.0, rank=len(ranked))
            )
    if "misinformation" in keys:
        metadata["misinformation_passages"] = keys["misinformation"]
    # Titles say what is evidence in the pools of every source, keys only in those of the dataset's own passages.
    if "gold" in keys and "gold_titles" not in metadata:
        metadata["gold_passages"] = keys["gold"]
    question = Question(
        id=id_, question=item.question, answers=item.answers, task=task, choices=item.choices, metadata=metadata
    )
    return Entry(question=question, passages={source: tuple(ranked) for source, ranked in passages.items()})
