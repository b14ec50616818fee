"""The pool file: everything that every source returned for each question, one JSON line per question."""

import json
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, ValidationError

from madke._util.files import atomic_write, numbered_lines, parse_object, refuse_repeated
from madke._util.yaml_file import validated
from madke.core.errors import UserError, count_of
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.pools.stages import FurtherQueries, Reranking

_Name = Annotated[str, Field(min_length=1)]


def _with_defaults(passages: Any) -> Any:
    """Passages of hand-written files may lack all but source and text; the rank is then the position."""
    if not isinstance(passages, list) or not all(isinstance(passage, dict) for passage in passages):
        return passages
    count: Counter[str] = Counter()
    filled = []
    for passage in passages:
        source = passage.get("source")
        place = f"{source} {passage.get('query')}"
        given = {name: value for name, value in passage.items() if value is not None}
        rank = count[place]
        filled.append({"key": f"{source}-{rank}", "title": "", "score": 0.0, "rank": rank, **given})
        count[place] += 1
    return filled


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRecord:
    """One line of a pool file: what the sources returned for a question, source by source, in rank order."""

    id: _Name
    question: str
    passages: Annotated[tuple[Passage, ...], BeforeValidator(_with_defaults)]
    partial: dict[str, str] = field(default_factory=dict)
    """Source -> reason, for each source that failed."""
    sources: dict[str, str] = field(default_factory=dict)
    """Source -> what served it, for each source that was queried. Hand-written files may omit it."""
    queries: dict[str, FurtherQueries] = field(default_factory=dict)
    """Query stage -> its queries. Their passages have a ``query``."""
    reranked: tuple[Reranking, ...] = ()


class _Line(RootModel[PoolRecord]):
    model_config = ConfigDict(coerce_numbers_to_str=True)


def read_pools(path: Path, *, only: Container[str] | None = None) -> dict[str, PoolRecord]:
    """The :func:`pool_records` of a file by question id; ``only`` limits the ids (all lines are checked)."""
    return {record.id: record for _, record in pool_records(path) if only is None or record.id in only}


def pool_records(path: Path) -> Iterator[tuple[int, PoolRecord]]:
    """Yield (1-based line number, record) for each non-blank line; UserError at the first invalid one.

    A passage needs ``source`` and ``text``. Other missing fields (hand-written files) get defaults: the rank is the
    passage's position, the key is source and rank, the score is 0. Unknown keys are ignored.
    """
    line_of: dict[str, int] = {}
    for number, text in numbered_lines(path):
        if not text.strip():
            continue
        try:
            record = record_from_json(text)
        except ValidationError:  # Slow, but with a full error message.
            record = validated(parse_object(text, number, file=path), _Line, file=f"{path}:{number}").root
        refuse_repeated(line_of, record.id, number, file=path, what=f"id {record.id!r}")
        yield number, record


def sources_in(records: Iterable[PoolRecord]) -> dict[str, str]:
    """Source -> what served it, for every source that was queried; "unknown" if no record says."""
    served_by: dict[str, str] = {}
    for record in records:
        served_by |= record.sources
        for name in (*(passage.source for passage in record.passages), *record.partial):
            served_by.setdefault(name, "unknown")
    return served_by


def record_to_json(record: PoolRecord) -> bytes:
    """The record as a line of a pool file, without the newline."""
    fields: dict[str, Any] = asdict(record)
    fields["passages"] = [
        {name: value for name, value in passage.items() if value is not None} for passage in fields["passages"]
    ]
    for optional in ("queries", "reranked"):
        if not fields[optional]:
            del fields[optional]
    # Half a surrogate pair from a web page must not fail the batch.
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def record_from_json(line: bytes | str) -> PoolRecord:
    """Parse a line of a pool file; pydantic.ValidationError if it is invalid."""
    return _Line.model_validate_json(line).root


def write_pools(out: Path, records: Iterable[PoolRecord]) -> None:
    """Write a pool file, atomically."""
    with atomic_write(out) as file:
        file.writelines(record_to_json(record) + b"\n" for record in records)


def merged_pools(
    files: Sequence[Path], questions: Sequence[Question], *, sources: Collection[str] = ()
) -> list[PoolRecord]:
    """What several pool files hold for each of ``questions``, in order.

    A record belongs to a question if both the id and the text are equal; for a question ``NAME/ID`` (two datasets
    share an ``ID``) the record's id may also be ``ID``. Two files may hold the same source, but not for the same
    question. Each of ``sources`` must have been queried for each question, even if it found nothing.
    """
    ids = {id_ for question in questions for id_ in _ids(question)}
    held = [read_pools(file, only=ids) for file in files]
    # Hand-written files may omit sources that were queried and found nothing.
    of_file = [sources_in(records.values()) for records in held]
    merged: list[PoolRecord] = []
    lacking: dict[str, list[str]] = {}
    for question in questions:
        parts: list[PoolRecord] = []
        holder: dict[str, Path] = {}
        for file, records, all_sources in zip(files, held, of_file, strict=True):
            found = [records[id_] for id_ in _ids(question) if id_ in records]
            record = next((record for record in found if record.question == question.question), None)
            if record is None:
                continue
            parts.append(record)
            for source in sources_in([record]) if record.sources else all_sources:
                if source in holder:
                    both = f"both this file and {holder[source]} hold source {source!r} for question {question.id!r}"
                    raise UserError(f"{both}; leave one file out", file=file)
                holder[source] = file
        for source in sources if parts else [""]:
            if source not in holder:
                lacking.setdefault(source, []).append(question.id)
        merged.append(merged_record(question, parts))
    for source, without in lacking.items():
        what = f"nothing from source {source!r}" if source else "no pool (or only pools for another question text)"
        named = ", ".join(map(repr, without[:3])) + (", ..." if len(without) > 3 else "")
        held_by = f"the pool files ({', '.join(map(str, files))}) hold {what} for {count_of(len(without), 'question')}"
        raise UserError(f"{held_by}: {named}; build pools from the same data")
    return merged


def _ids(question: Question) -> tuple[str, str]:
    """The ids that a pool of the question may have."""
    return question.id, question.id.partition("/")[2]


def merged_record(question: Question, parts: Sequence[PoolRecord]) -> PoolRecord:
    """Merge several records of one question."""
    return PoolRecord(
        id=question.id,
        question=question.question,
        passages=tuple(passage for part in parts for passage in part.passages),
        partial={source: reason for part in parts for source, reason in part.partial.items()},
        sources={source: served_by for part in parts for source, served_by in part.sources.items()},
        queries={stage: found for part in parts for stage, found in part.queries.items()},
        reranked=tuple(reranking for part in parts for reranking in part.reranked),
    )
