"""The pool file: everything that every source returned for each question, one JSON line per question.

It is read whole and checked (:func:`read_pools`), or line by line on demand (:class:`PoolLines`). A line gives the pool
of its question (:func:`pool_of`): chosen sources, no duplicates, limited and numbered.
"""

import json
import threading
import weakref
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, ValidationError
from pydantic_core import from_json

from madke._util.files import atomic_write, numbered_lines, open_unpacked, parse_object, refuse_repeated, short_hash
from madke._util.yaml_file import validated
from madke.core.errors import UserError, count_of
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.engine.settings import Knowledge
from madke.retrieval.fusion import Method, fuse

_Name = Annotated[str, Field(min_length=1)]

MORE = "pools.more.jsonl"
"""Temporary file for pools that are being built."""


def _with_defaults(passages: Any) -> Any:
    """Passages of hand-written files may lack all but source and text; the rank is then the position."""
    if not isinstance(passages, list) or not all(isinstance(passage, dict) for passage in passages):
        return passages
    count: Counter[str] = Counter()
    filled = []
    for passage in passages:
        given = {name: value for name, value in passage.items() if value is not None}
        if "query" in given:  # of a query stage, which 0.4.0 had
            continue
        rank = count[source := str(passage.get("source"))]
        filled.append({"key": f"{source}-{rank}", "title": "", "score": 0.0, "rank": rank, **given})
        count[source] += 1
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
            found = (records[id_] for id_ in _ids(question) if id_ in records)
            if (record := next((each for each in found if each.question == question.question), None)) is None:
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
        named = ", ".join(map(repr, without[:3])) + (", ..." if len(without) > 3 else "")
        what = f"nothing from source {source!r}" if source else "no pool (or only pools for another question text)"
        held_by = f"the pool files ({', '.join(map(str, files))}) hold {what}"
        raise UserError(f"{held_by} for {count_of(len(without), 'question')}: {named}; build pools from the same data")
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
    )


class PoolLines:
    """The lines of a pool file for some questions or all, read on demand; UserError if the file cannot be read."""

    def __init__(self, file: Path, ids: Container[str] | None = None) -> None:
        self._file = file
        self.hashes: dict[str, str] = {}
        """Question id -> hash of its line."""
        self._starts: dict[str, int] = {}
        # A packed file has no places to read from, so it is unpacked once.
        self._unpacked = TemporaryFile() if file.suffix == ".gz" else None  # noqa: SIM115 - as long as this object
        if self._unpacked is not None:
            weakref.finalize(self, self._unpacked.close)
        self._reading = threading.Lock()
        start = 0
        for _, line in numbered_lines(file):
            with suppress(ValueError, TypeError, KeyError):  # a line that nobody can read belongs to no question
                id_ = str(from_json(line)["id"])
                if ids is None or id_ in ids:
                    self.hashes[id_], self._starts[id_] = short_hash(line.strip()), start
            if self._unpacked is not None:
                self._unpacked.write(line)
            start += len(line)

    def record(self, id_: str) -> PoolRecord | None:
        """The record of a question; None if the file has none, or if its line has changed since."""
        line = b""
        if id_ in self._starts:
            held = nullcontext(self._unpacked) if self._unpacked else open_unpacked(self._file)
            with self._reading, suppress(UserError), held as lines:
                lines.seek(self._starts[id_])
                line = lines.readline()
        return record_from_json(line) if line and short_hash(line.strip()) == self.hashes[id_] else None

    def append(self, id_: str, line: bytes) -> None:
        """Add the line of a question to the file."""
        with self._file.open("ab") as file:
            self._starts[id_], self.hashes[id_] = file.tell(), short_hash(line)
            file.write(line + b"\n")


@contextmanager
def missing_pools(file: Path, questions: Sequence[Question]) -> Iterator[tuple[list[Question], Path]]:
    """The questions that a pool file lacks, and where to write their pools; the file gets them after the block."""
    held = PoolLines(file).hashes if file.exists() else {}
    missing, more = [question for question in questions if question.id not in held], file.with_name(MORE)
    yield missing, more
    if missing:
        with atomic_write(file) as whole:
            whole.write(file.read_bytes() if file.exists() else b"")
            whole.write(more.read_bytes())
        more.unlink()


def pool_of(record: PoolRecord, knowledge: Knowledge, *, sources: Sequence[str] | None = None) -> KnowledgePool:
    """The numbered pool of one question under a protocol's settings, optionally limited to ``sources``.

    Two passages are duplicates if their words or their URLs are equal; the first one is kept. In a fusion, ``rank`` and
    ``score`` come from the fusion, the other fields from the first source that found the passage.
    """
    names = knowledge.sources if sources is None else sources
    seen: set[str] = set()
    lists: list[list[Passage]] = []
    for name in names:
        if knowledge.fusion != "none":
            seen = set()
        lists.append([])
        for passage in sorted((each for each in record.passages if each.source == name), key=lambda each: each.rank):
            if len(lists[-1]) == knowledge.count(name):
                break
            if not (keys := passage.dedup_keys) & seen:
                seen |= keys
                lists[-1].append(passage)
    passages = [passage for found in lists for passage in found]
    if knowledge.fusion != "none":
        weights = [(knowledge.weights or {}).get(name, 1.0) for name in names]
        passages = _fused(lists, knowledge.fusion, weights)[: knowledge.max_passages]
    partial = {name: reason for name, reason in record.partial.items() if name in names}
    return KnowledgePool(passages=tuple(passages), partial=partial)


def _fused(lists: Sequence[Sequence[Passage]], method: Method, weights: Sequence[float]) -> list[Passage]:
    passages: list[Passage] = []
    number_of: dict[str, int] = {}
    rankings: list[dict[int, float]] = []
    for found in lists:
        rankings.append({})
        for passage in found:
            keys = passage.dedup_keys
            number = min((number_of[key] for key in keys if key in number_of), default=len(passages))
            if number == len(passages):
                passages.append(passage)
            number_of |= {key: number for key in keys if key not in number_of}
            rankings[-1].setdefault(number, passage.score)
    scores = fuse(rankings, method, weights)
    return [replace(passages[number], score=scores[number], rank=rank) for rank, number in enumerate(scores)]
