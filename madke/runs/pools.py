"""The pools of a run or a pool file: read on demand, or built once, with their query stages and rerankings.

Calls of stages are stored and paid. A build that was killed makes no finished call again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from madke._util.concurrency import finished
from madke._util.files import atomic_write
from madke.core.chat import ChatModel
from madke.core.errors import Unfinished, UserError
from madke.core.events import Event, Listener, PoolProgress, PoolsReady, silent
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, Source, SourceCounts
from madke.core.question import Question
from madke.engine.settings import Knowledge
from madke.models.chat_models import close
from madke.models.endpoint import read_models, refuse_unreachable
from madke.models.limiter import Limits
from madke.models.model_names import has_endpoint
from madke.models.pipeline import CallPipeline
from madke.models.services import AnswerScorer, CrossEncoderReranker, answer_scoring, open_rerank_endpoint
from madke.models.store import CallStore
from madke.retrieval.pools.building import LiveSearch, depth, in_search_thread, retrieve_pools, searching
from madke.retrieval.pools.pool_file import (
    PoolLines,
    PoolRecord,
    missing_pools,
    pool_of,
    pool_records,
    record_to_json,
    sources_in,
)
from madke.retrieval.pools.stages import LLM, LOCAL, SEARCH, PoolStages
from madke.retrieval.source import served_by
from madke.runs.directory import RunDirectory
from madke.runs.meter import Account, Meter, account
from madke.runs.record import RunRecord, question_hash, run_files
from madke.runs.request import DEFAULTS, RunOptions
from madke.runs.spec import RunSpec, open_models
from madke.runs.stopping import drained, until_limit, until_stopped

_CHUNK = 500
"""Pools in memory at a time."""

POOLS = "(pools)"
"""Pays for the stages of pools that several arms share; no arm can have this name."""


def rerankers(wanted: Iterable[Knowledge]) -> list[str]:
    """The rerankers that are not the role ``retriever``."""
    named = (each.rerank.model for each in wanted if each.rerank is not None)
    return list(dict.fromkeys(model for model in named if model != LLM))


def priced_models(wanted: Iterable[Knowledge]) -> list[str]:
    """Names of the rerankers that can cost money, as calls name them."""
    return [name.partition("@")[0] for name in rerankers(wanted) if not name.startswith(LOCAL)]


def priced(spec: RunSpec) -> list[str]:
    """Names of the models and rerankers of a run, as calls name them."""
    return [*spec.record.models.values(), *priced_models(staged(spec.protocol.knowledge))]


def staged(knowledge: Knowledge | None) -> tuple[Knowledge, ...]:
    """The settings as the wanted ones; empty if pools need no stage."""
    return (knowledge,) if knowledge is not None and knowledge.staged else ()


def open_rerankers(wanted: Iterable[Knowledge], options: RunOptions) -> dict[str, ChatModel]:
    """Name -> reranker; an endpoint that cannot be reached is refused."""
    entries = read_models()
    opened: dict[str, ChatModel] = {}
    for name in rerankers(wanted):
        local = name.startswith(LOCAL)
        opened[name] = CrossEncoderReranker(name[len(LOCAL) :]) if local else open_rerank_endpoint(name, entries)
    refuse_unreachable(opened.values())
    return opened


def stage_models(models: Mapping[str, ChatModel], pipeline: CallPipeline) -> dict[str, ChatModel]:
    """The opened models of pool stages behind the pipeline; rerankers in this process are services."""
    return {name: pipeline.service(m) if name.startswith(LOCAL) else pipeline.model(m) for name, m in models.items()}


def debate_services(
    wrap: Callable[[ChatModel], ChatModel],
    live: LiveSearch | None,
    answer_scorer: AnswerScorer | None,
    knowledge: Knowledge | None,
) -> dict[str, Any]:
    """``retrieve`` and ``score_answers`` of a debate; ``wrap`` puts a service behind the call pipeline."""
    services: dict[str, Any] = {}
    if live is not None and knowledge is not None:
        services["retrieve"] = searching(wrap(live), knowledge)
    if answer_scorer is not None:
        services["score_answers"] = answer_scoring(wrap(answer_scorer))
    return services


@dataclass(frozen=True, kw_only=True)
class StageBuild:
    """What the stages of some pools need."""

    wanted: Sequence[Knowledge]
    retriever: ChatModel | str | None
    """The model of the role; one given by name is opened and closed."""
    sources: Sequence[Source]
    options: RunOptions
    k: int = 0
    """Passages requested from each source for a further query, at least as many as the settings need."""
    seed: int | None = None

    @asynccontextmanager
    async def open(self, pipeline: CallPipeline) -> AsyncIterator[PoolStages]:
        """The stages, with their models open."""
        options = self.options
        opened = open_rerankers(self.wanted, options)
        if isinstance(self.retriever, str):
            at = options.base_url if has_endpoint(self.retriever) else None
            opened |= open_models({LLM: self.retriever}, base_url=at, models=read_models())
        models = stage_models(opened, pipeline)
        if self.retriever is not None and not isinstance(self.retriever, str):
            models[LLM] = pipeline.model(self.retriever)
        if any(each.query != "none" for each in self.wanted):
            served = {source.name: served_by(source) for source in self.sources}
            models[SEARCH] = pipeline.service(LiveSearch(served, self.sources, max(self.k, *map(depth, self.wanted))))
        try:
            yield PoolStages(wanted=self.wanted, models=models, seed=self.seed)
        finally:
            for model in opened.values():
                await close(model)

    async def write(
        self,
        file: Path,
        out: Path,
        own: Account,
        *,
        signals: bool = False,
        progress: Callable[[int], None] = lambda done: None,
        search: Callable[[Callable[[], bool]], None] = lambda stopped: None,
    ) -> None:
        """Write the pools of ``file`` with their stages to ``out``, which may be the same file.

        ``search`` writes ``file``, once all models are open. See
        :func:`madke.retrieval.pools.building.in_search_thread`.
        Each finished call is in the store of ``own``, so the same call again makes only the missing ones.

        Raises:
            Unfinished: A limit is reached, or a model's calls all fail; ``out`` is then unchanged.
        """
        assert own.calls is not None
        options = self.options
        limits = Limits(options.concurrency)
        meter = Meter(total=0, budget=own.budget, limits=limits)
        with CallStore(own.calls) as store:
            own.budget.catch_up(store)
            async with self.open(CallPipeline(limits=limits, meter=meter, store=store, payer=own.payer)) as pools:
                await in_search_thread(search)

                async def batch() -> None:
                    records = (record for _, record in pool_records(file))
                    with atomic_write(out) as whole:
                        while chunk := list(islice(records, _CHUNK)):
                            for record in await self._chunk(chunk, pools, meter, progress):
                                whole.write(record_to_json(record) + b"\n")

                if not await until_stopped(batch(), partial(drained, limits), seconds=own.seconds, signals=signals):
                    raise Unfinished("--deadline")
                pools.report(meter.done)

    async def _chunk(
        self, chunk: Sequence[PoolRecord], pools: PoolStages, meter: Meter, progress: Callable[[int], None]
    ) -> list[PoolRecord]:
        done: dict[int, PoolRecord] = {}

        async def work(numbered: tuple[int, PoolRecord]) -> None:
            n, record = numbered
            done[n] = await pools.add(record)
            meter.done += 1
            progress(meter.done)

        await until_limit(meter, enumerate(chunk), work, workers=self.options.concurrency)
        if len(done) < len(chunk):
            raise Unfinished(str(meter.stopped))
        return [done[n] for n in range(len(chunk))]


def calls_beside(out: Path) -> Path:
    """The call store of a pool file."""
    return out.with_name(f"{out.name.removesuffix('.jsonl')}.calls.sqlite")


def build_pool_file(
    questions: Sequence[Question],
    sources: Sequence[Source],
    k: int,
    out: Path,
    knowledge: Knowledge,
    *,
    model: str = "offline",
    options: RunOptions = DEFAULTS,
    progress: Callable[[int, int], None] = lambda done, total: None,
    on_stage: Callable[[int, int], None] = lambda done, total: None,
    signals: bool = False,
) -> dict[str, SourceCounts]:
    """As :func:`madke.retrieval.pools.building.retrieve_pools`, with the query stage and the reranker of ``knowledge``.

    Their calls are in :func:`calls_beside`, so the same call again makes no finished one again.

    Raises:
        UserError: A source, a model or a price is missing.
        Unfinished: A limit is reached, or the calls of a model all fail; ``out`` is then not written.
    """
    if not knowledge.staged:
        return retrieve_pools(questions, sources, k, out, progress=progress)
    k = max(k, depth(knowledge))
    own = replace(account(options), calls=calls_beside(out))
    retriever = model if knowledge.needs_retriever else None
    own.budget.check([*filter(None, [retriever]), *priced_models([knowledge])])
    found = out.with_name(f".{out.name}.found")
    build = StageBuild(wanted=(knowledge,), retriever=retriever, sources=sources, k=k, options=options)

    counts: dict[str, SourceCounts] = {}
    work = build.write(
        found,
        out,
        own,
        signals=signals,
        progress=lambda done: on_stage(done, len(questions)),
        search=lambda stopped: counts.update(
            retrieve_pools(questions, sources, k, found, progress=progress, stopped=stopped)
        ),
    )
    try:
        finished(work)
    finally:
        found.unlink(missing_ok=True)
    return counts


class RunPools:
    """The pool of each question under one protocol's knowledge settings, read from the file on demand.

    Each question must have a line in the file. Lines are not checked again if the run ``known`` has the same ones.
    """

    def __init__(
        self,
        file: Path | None,
        knowledge: Knowledge | None,
        questions: Sequence[Question],
        known: RunRecord | None = None,
    ) -> None:
        self.sources: Mapping[str, str] = {}
        """Source in use -> its description when the pools were built."""
        self.hashes: Mapping[str, str] = {}
        """Question id -> hash of its line."""
        self._file = file
        self._knowledge = knowledge
        if file is None or knowledge is None:
            return
        self._lines = PoolLines(file, {question.id for question in questions})
        self.hashes = self._lines.hashes
        if (
            known is not None
            and all(known.questions.get(q.id) == question_hash(q) for q in questions)
            and all(known.pools.get(id_) == found for id_, found in self.hashes.items())
            and len(self.hashes) == len(questions)
            and set(known.sources) == set(knowledge.sources)
        ):
            self.sources = known.sources
        else:
            self.sources = _checked(file, knowledge, questions)

    def of(self, question: Question) -> KnowledgePool:
        """The question's numbered pool; UserError if its line in the file has changed since the run began."""
        if self._file is None or self._knowledge is None:
            return EMPTY_POOL
        record = self._lines.record(question.id)
        if record is None:
            why = "was replaced or changed during the run, and no debate used the new version"
            todo = "restore the old version and run the same command again, or choose another --out"
            raise UserError(f"{why}; {todo}", file=self._file)
        return pool_of(record, self._knowledge)


def recorded_pools(directory: Path, spec: RunRecord | None) -> Callable[[str], PoolRecord | None]:
    """From a question's id to its pool as the run's debates read it; None if the file is gone or the line has changed.

    UserError if the pool file cannot be read.
    """
    frozen = spec.pools if spec else {}
    file = run_files(directory).pools if frozen else None
    if file is None or not file.is_file():
        return lambda id_: None
    lines = PoolLines(file, frozen)
    return lambda id_: lines.record(id_) if lines.hashes.get(id_) == frozen.get(id_) else None


def _checked(file: Path, knowledge: Knowledge, questions: Sequence[Question]) -> dict[str, str]:
    """Check all lines; returns source in use -> its description."""
    left = {question.id: question.question for question in questions}

    def of_questions() -> Iterator[PoolRecord]:
        for _, record in pool_records(file):
            question = left.pop(record.id, None)
            if question is None:
                continue
            if record.question != question:
                why = f"its pool for {record.id!r} was built for {record.question!r}, not {question!r}"
                raise UserError(why, file=file)
            if knowledge.staged:
                try:
                    pool_of(record, knowledge)
                except UserError as error:
                    raise UserError(str(error), file=file) from None
            yield record

    served = sources_in(of_questions())
    if left:
        advice = "use the same --limit, or build it from the same data"
        raise UserError(f"has no pool for question {next(iter(left))!r}; {advice}", file=file)
    for source in knowledge.sources:
        if source not in served:
            raise UserError(f"holds nothing from source {source!r}, only from {', '.join(sorted(served))}", file=file)
    return {source: served[source] for source in knowledge.sources}


_log = logging.getLogger(__name__)


async def own_pools(
    spec: RunSpec,
    directory: RunDirectory,
    tell: Listener = silent,
    *,
    replay: bool,
    stage: Callable[[Path], Awaitable[None]] | None = None,
) -> Path:
    """The run's own pool file, after missing pools are retrieved; UserError if a source or the file fails.

    ``stage`` adds query stages and rerankings to a file of pools.
    """
    knowledge, file = spec.protocol.knowledge, directory.path / "pools.jsonl"
    assert knowledge is not None
    if directory.begun and not file.exists():
        raise UserError("holds a run without its own pools; pass its pool file with --pools", file=directory.path)
    if replay:
        return file
    if not directory.begun:
        # Pools without a run come from one that was stopped early; their origin is unknown.
        file.unlink(missing_ok=True)
    counts: Mapping[str, SourceCounts] = {}
    with missing_pools(file, spec.questions) as (missing, more):
        if missing:
            listen = from_thread(tell)
            k, progress = depth(knowledge), partial(pool_progress, listen)
            counts = await in_search_thread(
                lambda stopped: retrieve_pools(
                    missing, spec.sources(listen), k, more, progress=progress, stopped=stopped
                )
            )
            if stage is not None:
                await stage(more)
    for name, count in counts.items():
        if count.failed:
            _log.warning("source %s failed for %d of %d questions: %s", name, count.failed, count.asked, count.reason)
    if counts:
        tell(PoolsReady(found=counts))
    return file


def pool_progress(listen: Listener, done: int, total: int) -> None:
    """Send the progress of a search for pools."""
    listen(PoolProgress(done=done, total=total))


def from_thread(listen: Listener) -> Listener:
    """A listener for another thread, which passes events to ``listen`` in this event loop."""
    loop = asyncio.get_running_loop()

    def forward(event: Event) -> None:
        loop.call_soon_threadsafe(lambda: listen(event))

    return forward
