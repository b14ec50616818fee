"""The pool file: everything every source returned for each question, one JSON line a question."""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from madke.core.errors import UserError
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.files import read_jsonl, replacing
from madke.yaml_file import validated


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRecord:
    """One line of a pool file."""

    id: str
    """The question's id."""
    question: str
    passages: tuple[Passage, ...] = ()
    """What the sources returned, source by source, in rank order."""
    partial: dict[str, str]
    """Source -> reason, for those that failed."""
    sources: dict[str, str]
    """Source -> what served it, for all that were asked. Files written by hand may leave it out."""


def read_pools(path: Path, *, only: Container[str] | None = None) -> dict[str, PoolRecord]:
    """The records of a pool file by question id; with ``only``, those of these ids (all lines are checked).

    Raises:
        UserError: As :func:`pool_records`.
    """
    return {record.id: record for _, record in pool_records(path) if only is None or record.id in only}


def pool_records(path: Path) -> Iterator[tuple[int, PoolRecord]]:
    """(The byte at which its line begins, record) of each line, all of them checked; 0 for each in a file ``.gz``.

    A passage needs ``source`` and ``text``; what else is missing (files written by hand) is made up: the rank from
    the order of lines, the key from source and rank, score 0. Unknown keys are ignored.

    Raises:
        UserError: The file or one of its lines is wrong, or an id occurs twice; the message names the line.
    """
    line_of: dict[str, int] = {}
    for number, start, record in _numbered(path):
        if record.id in line_of:
            raise UserError(f"id {record.id!r} stands on line {line_of[record.id]} already", file=path, line=number)
        line_of[record.id] = number
        yield start, record


def _numbered(path: Path) -> Iterator[tuple[int, int, PoolRecord]]:
    """(1-based line number, where the line begins, record) of each line that is not blank."""
    explained = _explained(path)
    if path.suffix == ".gz":
        yield from ((number, 0, record) for number, record in explained)
        return
    start = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        record = record_from_json(line)
                    except ValidationError:
                        found = next((record for at, record in explained if at == number), None)
                        if found is None:
                            raise _changed(path) from None
                        record = found
                    yield number, start, record
                start += len(line)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None


def _explained(path: Path) -> Iterator[tuple[int, PoolRecord]]:
    """(1-based line number, record) of each line; it takes three times as long, and says what is wrong."""
    for number, item in read_jsonl(path):
        yield number, validated(item, _Line, file=f"{path}:{number}").record()


def _changed(path: Path) -> UserError:
    return UserError("was changed while a run read it; put the old file back and run again", file=path)


class PoolLines:
    """The records of a pool file for the question ids ``only``, each read from the disk when it is asked for.

    A run of many questions holds one number a question in memory, not the passages: where their lines begin, as
    :func:`pool_records` said (``starts``; read again if it is not given). A file ``.gz`` cannot be read from its
    middle: its lines are held in memory.
    """

    def __init__(self, path: Path, only: Container[str], starts: Mapping[str, int] | None = None) -> None:
        self._path = path
        self._held = read_pools(path, only=only) if path.suffix == ".gz" else None
        if starts is None and self._held is None:
            starts = {record.id: start for start, record in pool_records(path) if record.id in only}
        self._starts = starts or {}

    def __getitem__(self, question: str) -> PoolRecord:
        """The record of a question id.

        Raises:
            UserError: The file was changed in the meantime.
        """
        if self._held is not None:
            return self._held[question]
        try:
            with self._path.open("rb") as file:
                file.seek(self._starts[question])
                record = record_from_json(file.readline())
        except (OSError, ValidationError):
            record = None
        if record is None or record.id != question:
            raise _changed(self._path)
        return record


def sources_in(records: Iterable[PoolRecord]) -> dict[str, str]:
    """Every source that was asked for any of these questions -> what served it; "unknown" where no record says."""
    served_by: dict[str, str] = {}
    for record in records:
        served_by |= record.sources
        for name in (*(passage.source for passage in record.passages), *record.partial):
            served_by.setdefault(name, "unknown")
    return served_by


def record_to_json(record: PoolRecord) -> bytes:
    """The record as a line of a pool file, without the newline."""
    fields: dict[str, Any] = asdict(record)
    for passage in fields["passages"]:
        for optional in ("url", "retrieved_at", "date"):
            if passage[optional] is None:
                del passage[optional]
    # Half a surrogate pair in a web page must not cost the batch its pools.
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def record_from_json(line: bytes | str) -> PoolRecord:
    """The record in a line of a pool file.

    Raises:
        pydantic.ValidationError: The line is no pool record.
    """
    return _Line.model_validate_json(line).record()


_Name = Annotated[str, Field(min_length=1)]


class _LinePassage(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    source: _Name
    text: str
    key: str | None = None
    title: str = ""
    score: float = 0.0
    rank: int | None = None
    url: str | None = None
    retrieved_at: str | None = None
    date: str | None = None


class _Line(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: _Name
    question: str
    passages: tuple[_LinePassage, ...]
    partial: dict[str, str] = {}
    sources: dict[str, str] = {}

    def record(self) -> PoolRecord:
        passages = []
        count: dict[str, int] = {}
        for line in self.passages:
            rank = count[line.source] = count.get(line.source, -1) + 1
            key = f"{line.source}-{rank}" if line.key is None else line.key
            rank = rank if line.rank is None else line.rank
            passages.append(Passage(**{**vars(line), "key": key, "rank": rank}))
        return PoolRecord(**{**vars(self), "passages": tuple(passages)})


_NAMED = 3
"""How many questions without a pool a message names."""


def merge_pools(
    files: Sequence[Path], questions: Sequence[Question], out: Path, *, sources: Collection[str] = ()
) -> None:
    """Write a pool file with everything that several files hold for some questions, whole or not at all.

    A question has the records of its id and its text; a question ``NAME/ID`` (two datasets have an ``ID``) also those
    of ``ID`` and its text. Two files may hold the same source, but not for the same question. Each of ``sources`` must
    have been asked for each question, whatever it found.

    Raises:
        UserError: A file is wrong, two hold the same source for a question, a question has no pool or lacks a source,
            or ``out`` cannot be written.
    """
    ids = {id_ for question in questions for id_ in _ids(question)}
    held = [read_pools(file, only=ids) for file in files]
    # Files written by hand may leave out what was asked and found nothing.
    of_file = [sources_in(records.values()) for records in held]
    merged: list[PoolRecord] = []
    lacking: dict[str, list[str]] = {}
    for question in questions:
        parts: list[PoolRecord] = []
        holder: dict[str, Path] = {}
        for file, records, all_sources in zip(files, held, of_file, strict=True):
            if (record := _record_of(question, records)) is None:
                continue
            parts.append(record)
            for source in sources_in([record]) if record.sources else all_sources:
                if source in holder:
                    found = f"holds source {source!r} for question {question.id!r}, and so does {holder[source]}"
                    raise UserError(f"{found}; leave out one", file=file)
                holder[source] = file
        for source in sources if parts else [""]:
            if source not in holder:
                lacking.setdefault(source, []).append(question.id)
        merged.append(joined(question, parts))
    for source, without in lacking.items():
        named = ", ".join(map(repr, without[:_NAMED])) + (", ..." if len(without) > _NAMED else "")
        what = f"nothing of source {source!r}" if source else "no pool, or one of another text only,"
        raise UserError(
            f"the pool files ({', '.join(map(str, files))}) hold {what} for {len(without)} questions: {named}; "
            "build pools from the same data"
        )
    with replacing(out) as file_out:
        file_out.writelines(record_to_json(record) + b"\n" for record in merged)


def _ids(question: Question) -> tuple[str, str]:
    """Under which ids a pool of the question may stand."""
    return question.id, question.id.partition("/")[2]


def _record_of(question: Question, records: Mapping[str, PoolRecord]) -> PoolRecord | None:
    found = (records.get(id_) for id_ in _ids(question))
    return next((record for record in found if record is not None and record.question == question.question), None)


def joined(question: Question, parts: Sequence[PoolRecord]) -> PoolRecord:
    """Everything that several records hold for a question, as one record."""
    return PoolRecord(
        id=question.id,
        question=question.question,
        passages=tuple(passage for part in parts for passage in part.passages),
        partial={source: reason for part in parts for source, reason in part.partial.items()},
        sources={source: served_by for part in parts for source, served_by in part.sources.items()},
    )
