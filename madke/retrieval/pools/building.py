"""Build pool files from sources, and search during a debate.

Until a pool file is complete, the results of each source for each chunk of questions are kept in a hidden folder next
to it; the same command resumes from there. For searches during a debate, sources are a model, so that the call store
keeps their results.
"""

import asyncio
import json
import logging
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from madke._util.concurrency import in_thread
from madke._util.files import Inputs, any_finished, atomic_write, dir_lock, is_finished, mark_finished
from madke.core.chat import ChatModel, ChatRequest, Completion, Purpose
from madke.core.errors import UserError
from madke.core.knowledge import Hits, Source, SourceCounts
from madke.core.question import Question
from madke.engine.scene import Retrieve
from madke.engine.settings import Knowledge
from madke.models.services import Batching, failed_call, service_request
from madke.retrieval.pools.pool_file import (
    PoolRecord,
    merged_record,
    pool_of,
    record_from_json,
    record_to_json,
    write_pools,
)
from madke.retrieval.source import ask_source, served_by

T = TypeVar("T")

RETRIEVED = 10
"""Minimum number of passages requested from each source: more than used, to make up for removed duplicates."""

_CHUNK = 500
"""Questions per search; a kill loses at most one chunk. Fixed, since the last bits of a query's vector depend on
its batch. FAISS is as fast as with 1,000; 200 took five times as long."""


def depth(knowledge: Knowledge) -> int:
    """Number of passages to request from each source."""
    return max([RETRIEVED, *(knowledge.count(source) for source in knowledge.sources)])


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
    chunks = [questions[start : start + _CHUNK] for start in range(0, len(questions), _CHUNK)]
    counts = dict.fromkeys(served, SourceCounts())
    folder = out.with_name(asking_folder(out.name))
    with dir_lock(folder):
        try:
            files: list[list[Path]] = []
            for number, chunk in enumerate(chunks):
                asked = json.dumps([(question.id, question.question) for question in chunk])
                inputs: Inputs = {"questions": sha256(asked.encode()).hexdigest(), "k": k}
                # A source name may not be a valid file name.
                names = [sha256(source.name.encode()).hexdigest()[:16] for source in sources]
                files.append([folder / f"{number:06}.{name}.jsonl" for name in names])
                for source, file in zip(sources, files[-1], strict=True):
                    own: Inputs = {**inputs, "source": json.dumps([source.name, served[source.name]])}
                    if not is_finished(file, own):
                        records = _asked(chunk, source, k)
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
                            found = any(passage.source == name for passage in record.passages)
                            reason = record.partial.get(name)
                            counts[name] += SourceCounts(
                                asked=1, found=found, failed=name in record.partial, reason=reason
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
    parts = [_asked(questions, source, k) for source in sources]
    return [merged_record(question, of_one) for question, *of_one in zip(questions, *parts, strict=True)]


def _asked(questions: Sequence[Question], source: Source, k: int) -> list[PoolRecord]:
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


_log = logging.getLogger(__name__)


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
