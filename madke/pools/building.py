"""Build pool files from sources, and load the pool of a question from a line of a pool file.

Until a pool file is complete, the results of each source for each chunk of questions are kept in a hidden folder next
to it; the same command resumes from there.
"""

import json
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path

from madke._util.files import Inputs, any_finished, atomic_write, dir_lock, finish, is_finished
from madke._util.workers import IN_THIS_PROCESS, Workers
from madke.core.errors import UserError
from madke.core.knowledge import Hits, KnowledgePool, Passage, Source, SourceCounts
from madke.core.question import Question
from madke.core.transcript import Retrieval
from madke.engine.protocol import Knowledge, Rerank
from madke.knowledge.asking import ask, served_by
from madke.knowledge.fusion import Method, fuse
from madke.knowledge.source_spec import SourceSpec, open_spec
from madke.pools.pool_file import PoolRecord, joined, record_from_json, record_to_json, write_pools
from madke.pools.stages import Reranking, scope_of

_Keyed = tuple[Passage, set[str]]
"""A passage and its :attr:`madke.core.knowledge.Passage.dedup_keys`."""

_CHUNK = 500
"""Questions per search; a kill loses at most one chunk. Fixed, since the last bits of a query's vector depend on
its batch. FAISS is as fast as with 1,000; 200 took five times as long."""


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
    """Query every source for every question (see :func:`retrieve`) and write the pool file atomically.

    The file has the order of the questions, and each query is the question, verbatim. After a kill or an error the same
    call queries only what is missing, changed, or failed. ``k`` passages are requested from each source. ``workers``
    query the sources in ``remote`` (name -> specification), whose content must be the same for them. ``progress`` gets
    the numbers of finished and of all questions.

    Returns source name -> how many questions it was queried for, found something for, and failed on. UserError if a
    source cannot be used, or ``out`` cannot be written.
    """
    served = {source.name: served_by(source) for source in sources}
    remotes = tuple(_Remote(name=name, spec=spec, served_by=served[name]) for name, spec in (remote or {}).items())
    at_workers = {source.name for source in remotes}
    chunks = [questions[start : start + _CHUNK] for start in range(0, len(questions), _CHUNK)]
    count = dict.fromkeys(served, SourceCounts())
    done = 0
    with _partial_results(out) as folder:
        kept = [_Chunk(folder, number, chunk, served, k) for number, chunk in enumerate(chunks)]
        asked = (part.queries for part in kept if part.missing & at_workers)
        answers = workers.map(partial(_ask_remotely, remotes, k), asked)
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
    """The name of the hidden folder, next to the pool file ``name``, that holds partial results."""
    return f".{name}.asking"


@contextmanager
def _partial_results(out: Path) -> Iterator[Path]:
    """Lock the folder for the chunks of ``out``; at the end it is removed if no chunk is finished."""
    if out.is_dir():
        raise UserError("the pool file cannot be written: this is a folder", file=out)
    folder = out.with_name(asking_folder(out.name))
    with dir_lock(folder):
        try:
            yield folder
        finally:
            if folder.exists() and not any_finished(folder):
                shutil.rmtree(folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Remote:
    """A source for workers, where ``spec`` must open the same content (``served_by``)."""

    name: str
    spec: SourceSpec
    served_by: str


def _ask_remotely(sources: Sequence[_Remote], k: int, queries: Sequence[str]) -> dict[str, list[Hits]]:
    return {source.name: ask(_opened(source), queries, k) for source in sources}


@cache
def _opened(source: _Remote) -> Source:
    where = f"on node {platform.node()}, which runs a worker"
    try:
        opened = open_spec(source.name, source.spec)
    except UserError as error:
        expected = "a source's files must be at the same path on every node"
        raise UserError(f"{error} ({where}; {expected})") from None
    if served_by(opened) != source.served_by:
        found = f"source {source.name!r} is {served_by(opened)} {where}, but {source.served_by} here"
        raise UserError(f"{found}; both must be the same")
    return opened


class _Chunk:
    """The results of ``sources`` (name -> what serves it) for one chunk of questions, one file per source."""

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
        # A source name may not be a valid file name.
        self._files = {name: folder / f"{number:06}.{sha256(name.encode()).hexdigest()[:16]}.jsonl" for name in sources}
        self.missing = {name for name, file in self._files.items() if not is_finished(file, self._inputs[name])}
        """Names of the sources without results yet."""

    def write(self, name: str, hits: Sequence[Hits]) -> None:
        records = _records(self._chunk, name, self._sources[name], hits)
        write_pools(self._files[name], records)
        self.missing.discard(name)
        if not any(record.partial for record in records):
            finish(self._files[name], self._inputs[name])

    def records(self) -> list[PoolRecord]:
        """The chunk's records; requires that no source is missing."""
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
    """Query every source for ``k`` passages for every question, in one batch; failures go to ``partial``."""
    queries = [question.question for question in questions]
    parts = [_records(questions, source.name, served_by(source), ask(source, queries, k)) for source in sources]
    return [joined(question, of_one) for question, *of_one in zip(questions, *parts, strict=True)]


def _records(questions: Sequence[Question], source: str, served: str, answers: Sequence[Hits]) -> list[PoolRecord]:
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


def pool_of(record: PoolRecord, knowledge: Knowledge, *, sources: Sequence[str] | None = None) -> KnowledgePool:
    """The numbered pool of one question under a protocol's settings, optionally limited to ``sources``.

    Two passages are duplicates if their words or their URLs are equal; the first one is kept. In a fusion, ``rank`` and
    ``score`` come from the fusion, the other fields from the first source that found the passage. A failed reranking
    leaves :func:`candidates`.

    Raises:
        UserError: The record lacks the query stage or the reranking.
    """
    query = knowledge.query
    if query != "none" and query not in record.queries:
        raise UserError(f"its pool for {record.id!r} has no query stage {query!r}; build it with --query {query}")
    names = knowledge.sources if sources is None else sources
    if knowledge.rerank is not None:
        return _reranked(record, names, knowledge, knowledge.rerank)
    rankings = [(ranking(record, name, query), knowledge.count(name)) for name in names]
    if knowledge.fusion == "none":
        seen: set[str] = set()
        passages = [passage for found, limit in rankings for passage, _ in _top(found, limit, seen)]
    else:
        lists = [_top(found, limit, set()) for found, limit in rankings]
        weights = [(knowledge.weights or {}).get(name, 1.0) for name in names]
        passages = _fused(lists, knowledge.fusion, weights)[: knowledge.max_passages]
    return _pool(record, passages, names, query)


def ranking(record: PoolRecord, source: str, query: str) -> list[_Keyed]:
    """A source's passages for the question, in order of rank.

    With a query stage, the rankings of the question and of the stage's queries are joined by reciprocal ranks, without
    duplicates; ``rank`` and ``score`` are then those of the joined ranking.
    """
    asked = (None, *(record.queries[query].queries if query != "none" else ()))
    mine = sorted((passage for passage in record.passages if passage.source == source), key=lambda found: found.rank)
    lists = [[(passage, passage.dedup_keys) for passage in mine if passage.query == one] for one in asked]
    if len(lists) == 1:
        return lists[0]
    return [(passage, passage.dedup_keys) for passage in _fused(lists, "rrf", [1.0] * len(lists))]


def candidates(record: PoolRecord, sources: Sequence[str], query: str, limit: int) -> list[Passage]:
    """Up to ``limit`` passages of each source without duplicates: the first of every source, the second, ..."""
    seen: set[str] = set()
    lists = [_top(ranking(record, name, query), limit, seen) for name in sources]
    return [each[0] for row in zip_longest(*lists) for each in row if each is not None]


def _reranked(record: PoolRecord, sources: Sequence[str], knowledge: Knowledge, rerank: Rerank) -> KnowledgePool:
    query = knowledge.query
    found = candidates(record, sources, query, rerank.candidates)
    scope = scope_of(sources, query, rerank.candidates)
    held = [each for each in record.reranked if each.model == rerank.model]
    entry = next((each for each in held if each.scope in ("", scope)), None)
    scores = entry.scores if entry else {}
    places = {(passage.source, passage.key): place for place, passage in enumerate(found)}
    if entry is None or (entry.error is None and not scores.keys() >= places.keys()):
        present = "; ".join(each.scope or "other passages" for each in held) or "nothing"
        raise UserError(
            f"its pool for {record.id!r} has no reranking by {rerank.model!r} of {scope} (it has: {present}); build "
            f"it with --rerank {rerank.model} --rerank-from {rerank.candidates}, or the same sources and query"
        )
    if scores.keys() >= places.keys():
        found.sort(key=lambda passage: -scores[passage.source, passage.key])
    keep = rerank.keep or sum(map(knowledge.count, sources))
    kept = [
        replace(each, rank=rank, score=scores.get(place, each.score), before=places[place])
        for rank, each in enumerate(found[:keep])
        for place in [(each.source, each.key)]
    ]
    return _pool(record, kept, sources, query, entry)


def _pool(
    record: PoolRecord,
    passages: Sequence[Passage],
    sources: Sequence[str],
    query: str,
    entry: Reranking | None = None,
) -> KnowledgePool:
    """The pool, with what its query stage and its reranking did and used."""
    further = None if query == "none" else record.queries[query]
    stages = {stage: found for stage, found in ((query, further), ("rerank", entry)) if found is not None}
    retrieval = Retrieval(
        queries=further.queries if further else (),
        failed={stage: found.error for stage, found in stages.items() if found.error is not None},
        repaired=entry is not None and entry.repaired,
    )
    return KnowledgePool(
        passages=tuple(passages),
        partial={name: reason for name, reason in record.partial.items() if name in sources},
        retrieval=retrieval if stages else None,
        usage={stage: found.usage for stage, found in stages.items() if found.usage.calls},
    )


def _top(keyed: Sequence[_Keyed], limit: int, seen: set[str]) -> list[_Keyed]:
    """The first ``limit`` passages that have no key in ``seen``; adds their keys to ``seen``."""
    kept: list[_Keyed] = []
    for passage, keys in keyed:
        if len(kept) < limit and not keys & seen:
            seen |= keys
            kept.append((passage, keys))
    return kept


def _fused(lists: Sequence[Sequence[_Keyed]], method: Method, weights: Sequence[float]) -> list[Passage]:
    passages: list[Passage] = []
    number_of: dict[str, int] = {}
    rankings: list[dict[int, float]] = []
    for found in lists:
        rankings.append({})
        for passage, keys in found:
            number = min((number_of[key] for key in keys if key in number_of), default=len(passages))
            if number == len(passages):
                passages.append(passage)
            number_of |= {key: number for key in keys if key not in number_of}
            rankings[-1].setdefault(number, passage.score)
    scores = fuse(rankings, method, weights)
    return [replace(passages[number], score=scores[number], rank=rank) for rank, number in enumerate(scores)]
