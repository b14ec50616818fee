"""Building pool files from sources, and the pool of a question from a line of one.

Until a pool file is whole, what each source answered to each chunk of its questions is kept in a hidden folder beside
it; the same command goes on from there.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

from madke.core.errors import UserError
from madke.core.knowledge import Hits, KnowledgePool, Passage, Source, SourceCounts
from madke.core.question import Question
from madke.files import Inputs, any_finished, atomic_write, dir_lock, finish, is_finished
from madke.knowledge.asking import ask, served_by
from madke.knowledge.fusion import Method, fuse
from madke.knowledge.pool_file import PoolRecord, joined, record_from_json, record_to_json
from madke.knowledge.source_spec import SourceSpec, open_spec
from madke.workers import IN_THIS_PROCESS, Workers

_Marked = tuple[Passage, set[str]]
"""A passage and its :attr:`madke.core.knowledge.Passage.dedup_keys`."""

_CHUNK = 500
"""Questions that each source is asked at a time, and that a kill loses. It is fixed, as the last bits of a query's
vector depend on those that are encoded with it. FAISS is as fast as with 1,000; 200 took five times as long."""


def build_pools(
    questions: Sequence[Question],
    sources: Sequence[Source],
    k: int,
    out: Path,
    *,
    remote: Mapping[str, SourceSpec] | None = None,
    workers: Workers = IN_THIS_PROCESS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, SourceCounts]:
    """Write the pool file of these questions (see :func:`retrieve`), whole or not at all.

    After a kill or an error the same call asks only for what is missing, changed, or failed.

    Args:
        questions: Their order is the file's; the query is the question, verbatim.
        sources: At least one, with different names; yours too, see :class:`madke.core.knowledge.Source`.
        k: Passages per source and question.
        out: The file to write.
        remote: Names of sources that ``workers`` ask -> what they open for it, which must hold the same there.
        workers: Who asks the remote sources.
        progress: Called with the questions done and their number.

    Returns:
        Source name -> for how many questions it found something, or failed.

    Raises:
        UserError: A source cannot work at all, or ``out`` cannot be written.
    """
    served = {source.name: served_by(source) for source in sources}
    there = tuple(_Remote(name=name, spec=spec, served_by=served[name]) for name, spec in (remote or {}).items())
    at_workers = {source.name for source in there}
    chunks = [questions[start : start + _CHUNK] for start in range(0, len(questions), _CHUNK)]
    count = dict.fromkeys(served, SourceCounts())
    done = 0
    with _kept_beside(out) as folder:
        kept = [_Kept(folder, number, chunk, served, k) for number, chunk in enumerate(chunks)]
        answers = workers.map(
            partial(_ask_remotely, there, k), (part.queries for part in kept if part.missing & at_workers)
        )
        for part in kept:
            if part.missing & at_workers:
                for name, hits in next(answers).items():
                    if name in part.missing:
                        part.write(name, hits)
            for source in sources:
                if source.name in part.missing:
                    part.write(source.name, ask(source, part.queries, k))
            done += len(part.queries)
            progress(done, len(questions))
        with atomic_write(out) as whole:
            for part in kept:
                records = part.records()
                whole.writelines(record_to_json(record) + b"\n" for record in records)
                count = {name: _counted(before, name, records) for name, before in count.items()}
        shutil.rmtree(folder)
    return count


def asking_folder(name: str) -> str:
    """The name of the folder, beside a pool file of this name, where what was found waits for the rest."""
    return f".{name}.asking"


@contextmanager
def _kept_beside(out: Path) -> Iterator[Path]:
    """The folder where chunks wait for ``out``, held; it stays, when the block ends, for the finished ones in it."""
    if out.is_dir():
        raise UserError("cannot be written: it is a folder", file=out)
    folder = out.with_name(asking_folder(out.name))
    with dir_lock(folder):
        try:
            yield folder
        finally:
            if folder.exists() and not any_finished(folder):
                shutil.rmtree(folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Remote:
    """A source as it travels to workers: what they open, which must be the same as what serves it here."""

    name: str
    spec: SourceSpec
    served_by: str


def _ask_remotely(sources: Sequence[_Remote], k: int, queries: Sequence[str]) -> dict[str, list[Hits]]:
    """Source name -> its answer to each query."""
    return {source.name: ask(_opened(source), queries, k) for source in sources}


@cache
def _opened(source: _Remote) -> Source:
    try:
        opened = open_spec(source.name, source.spec)
    except UserError as error:
        raise UserError(
            f"{error} (on {platform.node()}, where a worker runs; what sources are made of must be at the same path on "
            "every node)"
        ) from None
    if served_by(opened) != source.served_by:
        raise UserError(
            f"source {source.name!r} is {served_by(opened)} on {platform.node()}, where a worker runs, and "
            f"{source.served_by} here; they must be the same"
        )
    return opened


class _Kept:
    """What sources (name -> what serves it) answered to one chunk of questions, a file for each source."""

    def __init__(
        self, folder: Path, number: int, chunk: Sequence[Question], sources: Mapping[str, str], k: int
    ) -> None:
        self.queries = [question.question for question in chunk]
        self._chunk = chunk
        self._sources = sources
        asked = json.dumps([(question.id, question.question) for question in chunk])
        fingerprint = sha256(asked.encode()).hexdigest()
        self._inputs: dict[str, Inputs] = {
            name: {"questions": fingerprint, "k": k, "source": json.dumps([name, served])}
            for name, served in sources.items()
        }
        # Names of sources are no names of files.
        self._files = {name: folder / f"{number:06}.{sha256(name.encode()).hexdigest()[:16]}.jsonl" for name in sources}
        self.missing = {name for name, file in self._files.items() if not is_finished(file, self._inputs[name])}
        """Names of the sources that have not answered yet."""

    def write(self, name: str, hits: Sequence[Hits]) -> None:
        records = _records(self._chunk, name, self._sources[name], hits)
        with atomic_write(self._files[name]) as file:
            file.writelines(record_to_json(record) + b"\n" for record in records)
        self.missing.discard(name)
        if not any(record.partial for record in records):
            finish(self._files[name], self._inputs[name])

    def records(self) -> list[PoolRecord]:
        """The chunk's lines of the pool file, once no source is missing."""
        parts = [map(record_from_json, file.read_bytes().splitlines()) for file in self._files.values()]
        return [joined(question, of_one) for question, *of_one in zip(self._chunk, *parts, strict=True)]


def _counted(count: SourceCounts, source: str, records: Sequence[PoolRecord]) -> SourceCounts:
    reasons = [record.partial[source] for record in records if source in record.partial]
    return SourceCounts(
        asked=count.asked + len(records),
        found=count.found + sum(any(passage.source == source for passage in record.passages) for record in records),
        failed=count.failed + len(reasons),
        reason=count.reason or next(iter(reasons), None),
    )


def retrieve(questions: Sequence[Question], sources: Sequence[Source], k: int) -> list[PoolRecord]:
    """Ask every source for ``k`` passages for every question, all questions at once; what fails is ``partial``."""
    queries = [question.question for question in questions]
    parts = [_records(questions, source.name, served_by(source), ask(source, queries, k)) for source in sources]
    return [joined(question, of_one) for question, *of_one in zip(questions, *parts, strict=True)]


def _records(questions: Sequence[Question], source: str, served: str, answers: Sequence[Hits]) -> list[PoolRecord]:
    """What one source answered, as lines of a pool file."""
    return [
        PoolRecord(
            id=question.id,
            question=question.question,
            passages=hits.passages,
            partial={} if hits.error is None else {source: hits.error},
            sources={source: served},
        )
        for question, hits in zip(questions, answers, strict=True)
    ]


def load_pool(
    record: PoolRecord,
    *,
    sources: Sequence[str],
    per_source: int | Mapping[str, int] = 5,
    fusion: Literal["none"] | Method = "none",
    weights: Mapping[str, float] | None = None,
    max_passages: int | None = None,
) -> KnowledgePool:
    """The numbered pool of one question for one arm, from what the chosen sources found.

    Passages are duplicates when their words are the same, or their URL is; the first one stays.

    Args:
        record: A line of a pool file.
        sources: Names of the chosen sources.
        per_source: Maximum number of passages of a source, after duplicates are removed: one for all, or by source.
        fusion: ``none``: the sources' passages in the order of ``sources``, each source's by rank. Else one ranking
            (see :func:`madke.knowledge.fusion.fuse`): ``rank`` and ``score`` are those of the fusion, everything else
            is the passage of the first source that found it.
        weights: Source -> weight in the fusion; by default 1.
        max_passages: At most so many of the fused passages; by default all.
    """
    limits = {name: per_source if isinstance(per_source, int) else per_source[name] for name in sources}
    marked = [(passage, passage.dedup_keys) for passage in record.passages if passage.source in limits]
    if fusion == "none":
        seen: set[str] = set()
        passages = [passage for name, limit in limits.items() for passage, _ in _first(marked, name, limit, seen)]
    else:
        lists = [_first(marked, name, limit, set()) for name, limit in limits.items()]
        passages = _fused(lists, fusion, [(weights or {}).get(name, 1.0) for name in limits])[:max_passages]
    partial = {name: reason for name, reason in record.partial.items() if name in sources}
    return KnowledgePool(passages=tuple(passages), partial=partial)


def _first(marked: Sequence[_Marked], source: str, limit: int, seen: set[str]) -> list[_Marked]:
    """A source's first passages that share no mark with those seen; their marks count as seen from now on."""
    kept: list[_Marked] = []
    for passage, marks in sorted((each for each in marked if each[0].source == source), key=lambda each: each[0].rank):
        if len(kept) == limit:
            break
        if not marks & seen:
            seen |= marks
            kept.append((passage, marks))
    return kept


def _fused(lists: Sequence[Sequence[_Marked]], method: Method, weights: Sequence[float]) -> list[Passage]:
    passages: list[Passage] = []
    number_of: dict[str, int] = {}
    rankings: list[dict[int, float]] = []
    for found in lists:
        rankings.append({})
        for passage, marks in found:
            number = min((number_of[mark] for mark in marks if mark in number_of), default=len(passages))
            if number == len(passages):
                passages.append(passage)
            number_of |= {mark: number for mark in marks if mark not in number_of}
            rankings[-1].setdefault(number, passage.score)
    scores = fuse(rankings, method, weights)
    return [replace(passages[number], score=scores[number], rank=rank) for rank, number in enumerate(scores)]
