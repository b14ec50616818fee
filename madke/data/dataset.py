"""Questions of a file, ours or a published one, with the passages that the dataset brings along."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.data.formats import FORMATS, READERS, DatasetReader
from madke.data.published_rows import Format, Item, Row
from madke.data.questions import numbered_questions
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
            numbered = numbered_questions(path, task=task)
        except UserError as error:
            raise UserError(f"{error}{_hint(path)}") from None
        _warn_unlabelled([(f"line {line}", question) for line, question in numbered], path)
        questions = [question for _, question in numbered]
    else:
        questions = [entry.question for entry in read_published(path, dataset, task=task)]
    return chosen(questions, lambda question: question.id, path, ids=ids, limit=limit, seed=sample_seed)


def read_published(path: Path, dataset: str, *, task: str | None = None) -> list[Entry]:
    """The entries of a published file; see :func:`read_dataset`."""
    reader = READERS[dataset]
    if not isinstance(reader, Format):
        return _read_by(reader, dataset, path, task=task)
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


def _read_by(reader: DatasetReader, name: str, path: Path, *, task: str | None) -> list[Entry]:
    """What somebody's reader yields; a question that does not say which dataset it is of, is of this one."""
    try:
        questions = list(reader(path))
    except UserError:
        raise
    except Exception as error:  # somebody else's code: whatever it raises is told, not shown as ours
        raise UserError(f"the reader {name!r} failed: {type(error).__name__}: {error}", file=path) from error
    found: dict[str, tuple[str, Entry]] = {}
    for number, question in enumerate(questions, start=1):
        place = f"item {number}"
        if not isinstance(question, Question):
            raise UserError(f"{place} of {name!r} is a {type(question).__name__}; expected Question", file=path)
        kept = replace(question, task=task or question.task, metadata={"dataset": name, **question.metadata})
        if wrong := (TASKS[task] if task else get_task(kept.task)).check(kept):
            raise UserError(f"{place}: {wrong}", file=path)
        if kept.id in found:
            raise UserError(f"{place}: id {kept.id!r} is that of {found[kept.id][0]} already", file=path)
        found[kept.id] = place, Entry(question=kept)
    return _labelled(found.values(), path)


def entries(format_: Format, rows: Iterable[Row], *, task: str | None, file: Path | str) -> list[Entry]:
    """The entries of a dataset's rows, of a file or of its Hugging Face repository.

    Raises:
        UserError: A row is wrong, two have the same id, or there is none.
    """
    task = task or format_.task
    checker = TASKS[task]
    places: Counter[str | None] = Counter()
    found: dict[str, tuple[str, Entry]] = {}
    for row in rows:
        item = _item(format_, row)
        place = places[item.series]
        counted = f"{item.series}-{place:03}" if item.series else f"{format_.name}-{place + 1:04}"
        id_ = item.id if item.id is not None else counted
        places[item.series] += 1
        entry = _entry(format_.name, task, id_, item)
        if wrong := checker.check(entry.question):
            raise row.error(wrong)
        if id_ in found:
            raise row.error(f"id {id_!r} is that of {found[id_][0]} already; ids must differ")
        found[id_] = row.place, entry
    return _labelled(found.values(), file)


def _item(format_: Format, row: Row) -> Item:
    if "golden_answers" in row.fields:
        raise row.error(
            "found 'golden_answers': this is madke's own JSONL; leave --dataset out "
            "(madke ablate: give --data PATH without NAME=)"
        )
    return format_.item(row)


def _labelled(found: Collection[tuple[str, Entry]], file: Path | str) -> list[Entry]:
    """The entries, each after its place; there must be some, and what cannot be scored is told."""
    if not found:
        raise UserError("holds no question", file=file)
    _warn_unlabelled([(place, entry.question) for place, entry in found], file)
    return [entry for _, entry in found]


def _warn_unlabelled(questions: Sequence[tuple[str, Question]], file: Path | str) -> None:
    """Say what of the file can be neither right nor wrong: a test split, the wrong keys, a label that got lost."""
    without = [place for place, question in questions if not question.answers]
    n = len(questions)
    if len(without) == n:
        _log.warning("%s: none of the %d questions has a gold answer: no answer can be scored", file, n)
    elif without:
        said = "%s: %d of %d questions have no gold answer, so they are in no score (first: %s)"
        _log.warning(said, file, len(without), n, without[0])


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
