"""The pool file, its building from sources, and searches during a debate.

The file holds everything that every source returned for each question, one JSON line per question. It is read whole and
checked (:func:`read_pools`), or line by line on demand (:class:`PoolLines`). A line gives the pool of its question
(:func:`pool_of`): chosen sources, no duplicates, limited and numbered.

Until a pool file is complete, the results of each source for each chunk of questions are kept in a hidden folder next
to it; the same command resumes from there. For searches during a debate, sources are a model, so that the call store
keeps their results.
"""

import asyncio
import json
import logging
import shutil
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, ValidationError
from pydantic_core import from_json

from madke._util.concurrency import in_thread
from madke._util.files import (
    Inputs,
    any_finished,
    atomic_write,
    dir_lock,
    is_finished,
    mark_finished,
    numbered_lines,
    open_unpacked,
    parse_object,
    refuse_repeated,
    short_hash,
)
from madke._util.yaml_file import validate
from madke.core.chat import ChatModel, ChatRequest, Completion, Purpose
from madke.core.errors import UserError, count_of
from madke.core.knowledge import Hits, KnowledgePool, Passage, Source, SourceCounts
from madke.core.question import Question
from madke.engine.scene import Retrieve
from madke.engine.settings import Knowledge
from madke.models.services import Batching, failed_call, service_request
from madke.retrieval.ranking import Method, fuse
from madke.retrieval.source import ask_source, served_by

_log = logging.getLogger(__name__)

T = TypeVar("T")

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
        fields = {name: value for name, value in passage.items() if value is not None}
        if "query" in fields:  # of a query stage, which 0.4.0 had
            continue
        rank = count[source := str(passage.get("source"))]
        filled.append({"key": f"{source}-{rank}", "title": "", "score": 0.0, "rank": rank, **fields})
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
            record = validate(parse_object(text, number, file=path), _Line, file=f"{path}:{number}").root
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
    pools = [read_pools(file, only=ids) for file in files]
    # Hand-written files may omit sources that were queried and found nothing.
    of_file = [sources_in(records.values()) for records in pools]
    merged: list[PoolRecord] = []
    lacking: dict[str, list[str]] = {}
    for question in questions:
        parts: list[PoolRecord] = []
        holder: dict[str, Path] = {}
        for file, records, all_sources in zip(files, pools, of_file, strict=True):
            entries = (records[id_] for id_ in _ids(question) if id_ in records)
            if (record := next((each for each in entries if each.question == question.question), None)) is None:
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
            opened = nullcontext(self._unpacked) if self._unpacked else open_unpacked(self._file)
            with self._reading, suppress(UserError), opened as lines:
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
    hashes = PoolLines(file).hashes if file.exists() else {}
    missing, more = [question for question in questions if question.id not in hashes], file.with_name(MORE)
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
    passages = [passage for ranking in lists for passage in ranking]
    if knowledge.fusion != "none":
        weights = [(knowledge.weights or {}).get(name, 1.0) for name in names]
        passages = _fuse(lists, knowledge.fusion, weights)[: knowledge.max_passages]
    partial = {name: reason for name, reason in record.partial.items() if name in names}
    return KnowledgePool(passages=tuple(passages), partial=partial)


def _fuse(lists: Sequence[Sequence[Passage]], method: Method, weights: Sequence[float]) -> list[Passage]:
    passages: list[Passage] = []
    number_of: dict[str, int] = {}
    rankings: list[dict[int, float]] = []
    for ranking in lists:
        rankings.append({})
        for passage in ranking:
            keys = passage.dedup_keys
            number = min((number_of[key] for key in keys if key in number_of), default=len(passages))
            if number == len(passages):
                passages.append(passage)
            number_of |= {key: number for key in keys if key not in number_of}
            rankings[-1].setdefault(number, passage.score)
    scores = fuse(rankings, method, weights)
    return [replace(passages[number], score=scores[number], rank=rank) for rank, number in enumerate(scores)]


MIN_RETRIEVED = 10
"""Minimum number of passages requested from each source: more than used, to make up for removed duplicates."""

_CHUNK_QUESTIONS = 500
"""Questions per search; a kill loses at most one chunk. Fixed, since the last bits of a query's vector depend on
its batch. FAISS is as fast as with 1,000; 200 took five times as long."""


def depth(knowledge: Knowledge) -> int:
    """Number of passages to request from each source."""
    return max([MIN_RETRIEVED, *(knowledge.count(source) for source in knowledge.sources)])


def retrieve_pools(
    questions: Sequence[Question],
    sources: Sequence[Source],
    k: int,
    out: Path,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, SourceCounts]:
    """Query every source for every question (see :func:`retrieve`) and write the pool file atomically.

    The file has the order of the questions, and each query is the question, verbatim. After a kill or an error the same
    call queries only what is missing, changed, or failed. ``k`` passages are requested from each source. ``progress``
    gets the numbers of finished and of all questions. Once ``stopped`` returns True, nothing more is written, and the
    search that is running is the last one.

    Returns source name -> how many questions it was queried for, found something for, and failed on. UserError if a
    source cannot be used, or ``out`` cannot be written.
    """
    if out.is_dir():
        raise UserError("the pool file cannot be written: this is a folder", file=out)
    served = {source.name: served_by(source) for source in sources}
    chunks = [questions[start : start + _CHUNK_QUESTIONS] for start in range(0, len(questions), _CHUNK_QUESTIONS)]
    counts = dict.fromkeys(served, SourceCounts())
    folder = out.with_name(asking_folder(out.name))
    with dir_lock(folder):
        try:
            files: list[list[Path]] = []
            for number, chunk in enumerate(chunks):
                key = json.dumps([(question.id, question.question) for question in chunk])
                inputs: Inputs = {"questions": sha256(key.encode()).hexdigest(), "k": k}
                # A source name may not be a valid file name.
                names = [sha256(source.name.encode()).hexdigest()[:16] for source in sources]
                files.append([folder / f"{number:06}.{name}.jsonl" for name in names])
                for source, file in zip(sources, files[-1], strict=True):
                    own: Inputs = {**inputs, "source": json.dumps([source.name, served[source.name]])}
                    if not is_finished(file, own):
                        records = _ask(chunk, source, k)
                        if stopped():
                            raise CancelledError
                        write_pools(file, records)
                        if not any(record.partial for record in records):
                            mark_finished(file, own)
                progress(sum(map(len, chunks[: number + 1])), len(questions))
            if stopped():
                raise CancelledError
            with atomic_write(out) as whole:
                for chunk, parts in zip(chunks, files, strict=True):
                    of_sources = [map(record_from_json, file.read_bytes().splitlines()) for file in parts]
                    for question, *of_one in zip(chunk, *of_sources, strict=True):
                        record = merged_record(question, of_one)
                        whole.write(record_to_json(record) + b"\n")
                        for name in counts:
                            has_passages = any(passage.source == name for passage in record.passages)
                            reason = record.partial.get(name)
                            counts[name] += SourceCounts(
                                asked=1, found=has_passages, failed=name in record.partial, reason=reason
                            )
            shutil.rmtree(folder)
        finally:
            if folder.exists() and not any_finished(folder):
                shutil.rmtree(folder)
    return counts


async def in_search_thread(search: Callable[[Callable[[], bool]], T]) -> T:
    """The result of a search for pools, in another thread.

    ``search`` gets a function for ``stopped`` of :func:`retrieve_pools`. If the caller is cancelled, as by Ctrl-C, it
    does not wait for the thread: one search may take minutes. Until that search ends, the same pool file is refused to
    others.
    """
    stop = threading.Event()
    try:
        return await asyncio.wrap_future(in_thread(lambda: search(stop.is_set)))
    finally:
        stop.set()


def asking_folder(name: str) -> str:
    """The name of the hidden folder, next to the pool file ``name``, that holds partial results."""
    return f".{name}.asking"


def retrieve(questions: Sequence[Question], sources: Sequence[Source], k: int) -> list[PoolRecord]:
    """Query every source for ``k`` passages for every question, in one batch; failures go to ``partial``."""
    parts = [_ask(questions, source, k) for source in sources]
    return [merged_record(question, of_one) for question, *of_one in zip(questions, *parts, strict=True)]


def _ask(questions: Sequence[Question], source: Source, k: int) -> list[PoolRecord]:
    answers = ask_source(source, [question.question for question in questions], k)
    served = {source.name: served_by(source)}
    return [
        PoolRecord(
            id=question.id,
            question=question.question,
            passages=hits.passages,
            partial={} if hits.error is None else {source.name: hits.error},
            sources=served,
        )
        for question, hits in zip(questions, answers, strict=True)
    ]


class LiveSearch(Batching):
    """Sources as a model: from a query to a line of a pool file with everything that the sources returned.

    One batch of searches runs at a time, in one thread, so sources need not be thread-safe. A search fails if every
    source fails. ``served_by``, source name -> description with fingerprint, is part of the model's name, and so of the
    key of every search. ``sources`` is empty for a replay; ``k`` passages are requested from each.
    """

    def __init__(self, served_by: Mapping[str, str], sources: Sequence[Source], k: int) -> None:
        super().__init__(f"search {json.dumps([k, dict(served_by)], ensure_ascii=False)}")
        self.served_by = served_by
        self._sources = sources
        self._k = k

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        queries = [Question(id=r.purpose.question, question=r.messages[0].content) for r in requests]
        try:
            records = await asyncio.to_thread(retrieve, queries, self._sources, self._k)
        except UserError as error:
            return [failed_call(str(error)) for _ in requests]
        return [self._completion(record) for record in records]

    def _completion(self, record: PoolRecord) -> Completion:
        for source, reason in record.partial.items():
            _log.warning("a search of source %s for %r failed: %s", source, record.question, reason)
        if len(record.partial) == len(self._sources):
            return failed_call(_reasons(record.partial))
        return Completion(text=record_to_json(record).decode())


def searching(model: ChatModel, knowledge: Knowledge) -> Retrieve:
    """The ``retrieve`` of a debate, from a :class:`LiveSearch`; results are filtered like the pool of the debater."""

    async def search(query: str, purpose: Purpose) -> Hits:
        completion = await model.complete(service_request(purpose, query))
        if completion.outcome != "ok":
            return Hits(error=completion.error)
        sources = (knowledge.per_debater_sources or {}).get(purpose.agent, knowledge.sources)
        pool = pool_of(record_from_json(completion.text), knowledge, sources=sources)
        failed = len(pool.partial) == len(sources)
        return Hits(error=_reasons(pool.partial)) if failed else Hits(passages=pool.passages)

    return search


def _reasons(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{source}: {reason}" for source, reason in failures.items())
