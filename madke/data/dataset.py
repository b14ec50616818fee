"""Read questions, and the passages that come with them, from files of your own and published files.

They may be chosen by a list of ids, as the first ones, or as a sample by the hash of each id. Each published dataset
has a card (``eval/datasets/NAME.yaml``).
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field

from madke._util.assets import asset
from madke._util.files import text_lines
from madke._util.yaml_file import read_yaml
from madke.core.errors import UserError, unknown
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.data.formats import FORMATS, READERS, DatasetReader, Format, Item
from madke.data.questions import Columns, counts, questions_in, say_once
from madke.data.rows import Row, own_rows
from madke.tasks import TASKS, get_task

_log = logging.getLogger(__name__)

T = TypeVar("T")

_SAMPLE = asset("eval", "samples") / "questions.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetEntry:
    """A question of a published dataset with its passages."""

    question: Question
    passages: Mapping[str, tuple[Passage, ...]] = field(default_factory=dict)
    """Source -> passages in the dataset's order. ``context``: all of them; ``gold``: those with the evidence."""


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
        found = Columns(given=columns or {})
        try:
            questions = questions_in(own_rows(path, found.is_header), path, found, task=task)
        except UserError as error:
            fits = [] if columns or found.found or path.is_fifo() else [name for name in FORMATS if _fits(name, path)]
            raise UserError(f"{error}; it can be read with --dataset {' or '.join(fits)}") if fits else error from None
        _warn_unlabelled(questions, path)
    else:
        questions = [entry.question for entry in read_published(path, dataset, task=task)]
        say_once(path, counts(questions))
    return chosen(questions, lambda question: question.id, path, ids=ids, limit=limit, seed=sample_seed)


def _fits(dataset: str, path: Path) -> bool:
    """Whether the first row of a file is a labelled entry of a published dataset."""
    try:
        return bool(FORMATS[dataset].item(next(iter(FORMATS[dataset].rows(path)))).answers)
    except (StopIteration, UserError):
        return False


def read_published(path: Path, dataset: str, *, task: str | None = None) -> list[DatasetEntry]:
    """The entries of a published file; see :func:`read_dataset`."""
    reader = READERS[dataset]
    if task is not None:
        TASKS[task]  # imports the task that the caller named
    found = _entries(reader, path, task) if isinstance(reader, Format) else _read_by(reader, dataset, path, task)
    kept: dict[str, tuple[Row, DatasetEntry]] = {}
    for row, entry in found:
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
        yield row, _entry(format_.name, task or format_.task, item.id if item.id is not None else counted, item)


def _warn_unlabelled(questions: Sequence[Question], file: Path) -> None:
    """Warn about questions without gold answers, which cannot be scored: test splits, wrong keys, lost labels."""
    without = [question.id for question in questions if not question.answers]
    if without:
        warning = "%s: %d of %d questions have no gold answer and are not scored (first: %r)"
        _log.warning(warning, file, len(without), len(questions), without[0])


def _entry(dataset: str, task: str, id_: str, item: Item) -> DatasetEntry:
    """The entry of an item; a passage's key is question id and position, which does not reveal its kind."""
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
    # Titles mark evidence in the pools of every source; keys only in pools of the dataset's own passages.
    if "gold" in keys and "gold_titles" not in metadata:
        metadata["gold_passages"] = keys["gold"]
    question = Question(
        id=id_, question=item.question, answers=item.answers, task=task, choices=item.choices, metadata=metadata
    )
    return DatasetEntry(question=question, passages={source: tuple(ranked) for source, ranked in passages.items()})


def sample_of(items: Sequence[T], limit: int | None, seed: int | None, id_of: Callable[[T], str]) -> list[T]:
    """The first ``limit`` items (None: all), or a random sample, in the original order; UserError for a lone seed.

    A sample has the items with the lowest SHA-256 of ``seed:id``, so larger samples contain smaller ones.
    """
    if seed is None:
        return list(items[:limit])
    if limit is None:
        raise UserError("a sample seed requires a limit, the number of questions to draw")
    drawn = set(sorted(map(id_of, items), key=lambda id_: (sha256(f"{seed}:{id_}".encode()).digest(), id_))[:limit])
    return [item for item in items if id_of(item) in drawn]


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


def with_ids(items: Sequence[T], ids: Sequence[str], id_of: Callable[[T], str], file: Path) -> list[T]:
    """The items with these ids, in the order of the file; UserError if some are missing.

    A file with exactly as many items as ids is taken as the selection itself, even if some ids differ: published
    selections do not contain the positions of their sentences in the whole set.
    """
    wanted = set(ids)
    chosen = [item for item in items if id_of(item) in wanted]
    if len(chosen) < len(wanted) and len(items) == len(wanted):
        return list(items)
    if missing := sorted(wanted - {id_of(item) for item in items}):
        some = f"{len(missing)} of {len(wanted)} ids are not among the {len(items)} questions of this file"
        raise UserError(f"{some} (first: {missing[0]!r})", file=file)
    return chosen


def chosen(
    items: Sequence[T], id_of: Callable[[T], str], file: Path, *, ids: str | None, limit: int | None, seed: int | None
) -> list[T]:
    """The items of a list of ids (:func:`read_ids`; None: all), limited or sampled by :func:`sample_of`."""
    listed = items if ids is None else with_ids(items, read_ids(ids), id_of, file)
    return sample_of(listed, limit, seed, id_of)


def ids_fingerprint(ids: Iterable[str]) -> str:
    """Hexadecimal SHA-256 of a set of ids, independent of their order."""
    return sha256(json.dumps(sorted(ids)).encode()).hexdigest()


_Text = Annotated[str, Field(min_length=1)]


class Card(BaseModel, extra="forbid", frozen=True):
    """One dataset. Its task is the ``task`` of its format."""

    title: _Text
    about: _Text
    paper: _Text
    owner: _Text
    licence: _Text
    get: _Text
    """The owner's page, and which files to download."""
    files: _Text
    """The files that the reader accepts, and the origin of ids."""
    splits: Annotated[dict[str, Annotated[int, Field(gt=0)]], Field(min_length=1)]
    """Name -> number of questions."""
    scored: _Text
    """The metrics, and what the literature reports."""
    faults: Annotated[tuple[_Text, ...], Field(min_length=1)]
    """Known errors of the dataset and common mistakes in its use."""
    papers: tuple[_Text, ...] = ()
    """How the papers that this project follows used it."""
    knowledge: str | None = None
    """Where the evidence for its answers is."""
    hugging_face: dict[str, Any] | None = None
    """Its repository there, split, and whether it is the owner's."""


def card(name: str) -> Card:
    """The card of a dataset; for an unknown name, UserError with the closest name."""
    if name not in FORMATS:
        raise unknown("dataset", name, FORMATS)
    return read_yaml(asset("eval", "datasets", f"{name}.yaml"), Card)


def cards() -> dict[str, Card]:
    """Name -> card of every dataset."""
    return {name: card(name) for name in FORMATS}
