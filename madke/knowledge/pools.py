"""Pool files: everything every source returned for each question, one JSON line a question.

Choosing sources, removing duplicates, capping and numbering happen when a pool is loaded, so that the arms of an
ablation read one frozen file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from madke.core.errors import UserError
from madke.core.knowledge import Hits, KnowledgePool, Passage, Source
from madke.core.question import Question
from madke.files import read_jsonl, replacing

_CHUNK = 1_000
"""Questions that each source is asked at a time."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What one source came back with, in questions."""

    asked: int = 0
    found: int = 0
    """Questions with at least one passage."""
    failed: int = 0


def build_pools(
    questions: Sequence[Question],
    sources: Sequence[Source],
    k: int,
    out: Path,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Found]:
    """Write the pool file of these questions (see :func:`retrieve`), whole or not at all.

    Args:
        questions: Their order is the file's; the query is the question, verbatim.
        sources: At least one, with different names.
        k: Passages per source and question.
        out: The file to write.
        progress: Called with the questions done and their number.

    Returns:
        Source name -> for how many questions it found something, or failed.

    Raises:
        UserError: A source cannot work at all, or ``out`` cannot be written.
    """
    count = {source.name: Found() for source in sources}
    with replacing(out) as file:
        for start in range(0, len(questions), _CHUNK):
            chunk = questions[start : start + _CHUNK]
            records = retrieve(chunk, sources, k)
            file.writelines(record_to_json(record) + b"\n" for record in records)
            for source in sources:
                count[source.name] = _counted(count[source.name], source.name, records)
            progress(start + len(chunk), len(questions))
    return count


def _counted(count: Found, source: str, records: Sequence[PoolRecord]) -> Found:
    found = sum(any(passage.source == source for passage in record.passages) for record in records)
    failed = sum(source in record.partial for record in records)
    return Found(asked=count.asked + len(records), found=count.found + found, failed=count.failed + failed)


def retrieve(questions: Sequence[Question], sources: Sequence[Source], k: int) -> list[PoolRecord]:
    """Ask every source for ``k`` passages for every question, all questions at once.

    A source that fails for a question, even by an unexpected exception, makes its record partial.

    Raises:
        UserError: A source cannot work at all.
    """
    answers = {source.name: _search(source, [question.question for question in questions], k) for source in sources}
    served_by = {source.name: source.description for source in sources}
    records = []
    for place, question in enumerate(questions):
        hits = {name: answer[place] for name, answer in answers.items()}
        records.append(
            PoolRecord(
                id=question.id,
                question=question.question,
                passages=tuple(passage for answer in hits.values() for passage in answer.passages),
                partial={name: answer.error for name, answer in hits.items() if answer.error is not None},
                sources=served_by,
            )
        )
    return records


def read_pools(path: Path, *, only: Container[str] | None = None) -> dict[str, PoolRecord]:
    """The records of a pool file by question id; with ``only``, those of these ids (all lines are checked).

    A passage needs ``source`` and ``text``; what else is missing (files written by hand) is made up: the rank from
    the order of lines, the key from source and rank, score 0. Unknown keys are ignored.

    Raises:
        UserError: The file or one of its lines is wrong, or an id occurs twice; the message names the line.
    """
    records: dict[str, PoolRecord] = {}
    line_of: dict[str, int] = {}
    for number, item in read_jsonl(path):
        try:
            record = _Line.model_validate(item).record()
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise UserError(f"{where!r}: {first['msg']}; expected a pool record", file=path, line=number) from error
        if record.id in line_of:
            raise UserError(f"id {record.id!r} stands on line {line_of[record.id]} already", file=path, line=number)
        if only is None or record.id in only:
            records[record.id] = record
        line_of[record.id] = number
    return records


def load_pool(record: PoolRecord, *, sources: Sequence[str], per_source: int | Mapping[str, int] = 5) -> KnowledgePool:
    """The numbered pool of one question for one arm: the union of what the chosen sources found.

    Args:
        record: A line of a pool file.
        sources: Names of the chosen sources; their passages come in this order, each source's by rank.
        per_source: At most so many of each source, counted after duplicates are gone; one number for all, or
            source -> number.

    Passages are duplicates when their words are the same, or their URL is; the first one stays.
    """
    chosen: list[Passage] = []
    seen: set[str] = set()
    for name in sources:
        most = per_source if isinstance(per_source, int) else per_source[name]
        kept = 0
        for passage in sorted((p for p in record.passages if p.source == name), key=lambda p: p.rank):
            marks = passage.marks
            if kept == most or marks & seen:
                continue
            seen |= marks
            kept += 1
            chosen.append(passage)
    partial = {name: reason for name, reason in record.partial.items() if name in sources}
    return KnowledgePool(passages=tuple(chosen), partial=partial)


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


def _search(source: Source, queries: Sequence[str], k: int) -> list[Hits]:
    try:
        hits = source.search(queries, k)
    except UserError:
        raise
    except Exception as error:  # a source is a plug-in: its bug costs its passages, not the batch
        return [Hits(error=f"{type(error).__name__}: {error}")] * len(queries)
    if len(hits) != len(queries):
        return [Hits(error=f"it answered {len(hits)} of {len(queries)} queries")] * len(queries)
    return hits


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
            passages.append(
                Passage(
                    source=line.source,
                    key=f"{line.source}-{rank}" if line.key is None else line.key,
                    title=line.title,
                    text=line.text,
                    score=line.score,
                    rank=rank if line.rank is None else line.rank,
                    url=line.url,
                    retrieved_at=line.retrieved_at,
                    date=line.date,
                )
            )
        found = tuple(passages)
        return PoolRecord(
            id=self.id, question=self.question, passages=found, partial=self.partial, sources=self.sources
        )
