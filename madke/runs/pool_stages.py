"""Query stages and rerankers of pools: their calls through the call store, for one pool or a pool file.

Like sources, rerankers are :class:`madke.core.chat.ChatModel` objects here, so a build that was killed makes no
finished call again.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from madke._util.concurrency import finished, gather
from madke._util.files import atomic_write
from madke.core.chat import ChatModel, ChatRequest, Completion, Purpose, call_seed
from madke.core.errors import Unfinished
from madke.core.knowledge import Passage, Source, SourceCounts
from madke.core.question import Question
from madke.core.transcript import StageUsage
from madke.endpoints.endpoint import probe
from madke.endpoints.model_names import has_endpoint
from madke.endpoints.rerank_endpoint import open_rerank_endpoint
from madke.engine.protocol import RETRIEVER, Knowledge, Rerank
from madke.engine.scene import counted
from madke.knowledge.asking import served_by
from madke.llm import CallStore, Limits, close, read_models
from madke.llm.services import CrossEncoderReranker, service_request
from madke.pools import stages
from madke.pools.building import build_pools, depth
from madke.pools.live_search import LiveSearch
from madke.pools.loading import candidates
from madke.pools.pool_file import PoolRecord, pool_records, record_from_json, record_to_json
from madke.pools.stages import FurtherQueries, Ranked, Reranking
from madke.runs.cast import open_models
from madke.runs.guard import Guard
from madke.runs.meter import Account, Meter, account
from madke.runs.options import DEFAULTS, RunOptions
from madke.runs.stopping import drained, until_limit, until_stopped

_log = logging.getLogger(__name__)

_MAX_TOKENS = 2048
_CHUNK = 500
"""Pools in memory at a time."""

POOLS = "(pools)"
"""Pays for the stages of pools that several arms share; no arm can have this name."""

LLM, SEARCH = "llm", ""
LOCAL = "hf/"
"""Prefix of rerankers in this process, which cost nothing."""


@dataclass(kw_only=True)
class PoolStages:
    """The models and searches of query stages and rerankers, wrapped in the call store."""

    wanted: Sequence[Knowledge]
    """The settings whose stages every pool gets."""
    models: Mapping[str, ChatModel]
    """By ``knowledge.rerank.model``; :data:`LLM` is the role ``retriever``, :data:`SEARCH` the sources."""
    seed: int | None = None
    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """What went wrong -> the reason for each pool."""

    async def add(self, record: PoolRecord) -> PoolRecord:
        """The record with all stages; those that it has already are kept."""
        for stage in dict.fromkeys(each.query for each in self.wanted if each.query != "none"):
            if stage not in record.queries:
                record = await self._with_queries(record, stage)
        for each in self.wanted:
            if each.rerank is not None:
                record = await self._with_ranking(record, each, each.rerank)
        return record

    async def _with_queries(self, record: PoolRecord, stage: Literal["rewrite", "decompose"]) -> PoolRecord:
        completion = await self._call(record, stage)
        queries, error = stages.read_queries(completion, stage, record.question)
        known = {passage.query for passage in record.passages}
        purpose = Purpose(question=record.id, stage="search", agent=RETRIEVER, round=1)
        asked = [service_request(purpose, query) for query in queries if query not in known]
        replies = await gather(self.models[SEARCH].complete(request) for request in asked)
        if failed := next((reply for reply in replies if reply.outcome != "ok"), None):
            queries, replies, error = (), [], f"a search failed: {failed.error}"
        added = [
            replace(passage, query=found.question)
            for reply in replies
            for found in [record_from_json(reply.text)]
            for passage in found.passages
        ]
        self._note(stage, error)
        further = FurtherQueries(by=self.models[LLM].name, queries=queries, error=error, usage=_usage(completion))
        return replace(record, passages=(*record.passages, *added), queries={**record.queries, stage: further})

    async def _with_ranking(self, record: PoolRecord, knowledge: Knowledge, rerank: Rerank) -> PoolRecord:
        found = candidates(record, knowledge.sources, knowledge.query, rerank.candidates)
        listwise = rerank.model == LLM
        scope = stages.scope_of(knowledge.sources, knowledge.query, rerank.candidates) if listwise else ""
        mine = [each for each in record.reranked if (each.model, each.scope) == (rerank.model, scope)]
        name = self.models[rerank.model].name
        ranking = mine[0] if mine else Reranking(model=rerank.model, by=name, scope=scope)
        scored = ranking.scores
        if todo := [passage for passage in found if (passage.source, passage.key) not in scored]:
            ranking = await (self._listed(record, ranking, todo) if listwise else self._scored(record, ranking, todo))
            self._note("rerank", ranking.error)
            if ranking.repaired:
                self.wrong["the rerank reply was repaired"].append("it was no permutation")
        elif mine:
            return record
        others = (each for each in record.reranked if each not in mine)
        return replace(record, reranked=(*others, ranking))

    async def _listed(self, record: PoolRecord, ranking: Reranking, found: Sequence[Passage]) -> Reranking:
        """One call that orders all passages; scores are reciprocal ranks."""
        completion = await self._call(record, "rerank", found)
        order, repaired, error = stages.read_order(completion, len(found))
        scores = [(found[n], 1 / (after + 1)) for after, n in enumerate(order)]
        ranked = _ranked(scores, found)
        return replace(ranking, passages=ranked, error=error, repaired=repaired, usage=_usage(completion))

    async def _scored(self, record: PoolRecord, ranking: Reranking, found: Sequence[Passage]) -> Reranking:
        """Scores of single passages, in addition to those that the ranking holds."""
        local = ranking.model.startswith(LOCAL)
        texts = (f"{p.title}\n{p.text}" if p.title else p.text for p in found)
        stage = "score" if local else "rerank"  # a service costs nothing
        purpose = Purpose(question=record.id, stage=stage, agent=ranking.model, round=1)
        completion = await self.models[ranking.model].complete(service_request(purpose, record.question, *texts))
        usage = StageUsage() if local else _usage(completion, ranking.usage)
        if completion.outcome != "ok":
            return replace(ranking, error=completion.error or completion.outcome, usage=usage)
        scores: list[float] = json.loads(completion.text)
        held = {(p.source, p.key): p for p in record.passages}
        older = [(held[p.source, p.key], p.score) for p in ranking.passages]
        both = [*older, *zip(found, scores, strict=True)]
        return replace(ranking, passages=_ranked(both, [p for p, _ in both]), usage=usage)

    async def _call(self, record: PoolRecord, stage: stages.Stage, passages: Sequence[Passage] = ()) -> Completion:
        purpose = Purpose(question=record.id, stage=stage, agent=RETRIEVER, round=1)
        return await self.models[LLM].complete(
            ChatRequest(
                messages=stages.messages(stage, record.question, passages),
                purpose=purpose,
                temperature=0.0,
                max_tokens=_MAX_TOKENS,
                seed=call_seed(self.seed, purpose),
                stage=stages.values(stage, record.question, passages),
            )
        )

    def _note(self, stage: str, error: str | None) -> None:
        if error is not None:
            self.wrong[f"{stage} failed, and the pool is the one without it"].append(" ".join(error.split()))

    def report(self, total: int) -> None:
        """Log what went wrong."""
        for what, reasons in self.wrong.items():
            _log.warning("%d of %d pools: %s (first: %s)", len(reasons), total, what, reasons[0])


def _ranked(scores: Iterable[tuple[Passage, float]], before: Sequence[Passage]) -> tuple[Ranked, ...]:
    places = {(passage.source, passage.key): place for place, passage in enumerate(before)}
    ordered = sorted(scores, key=lambda scored: -scored[1])
    return tuple(
        Ranked(source=p.source, key=p.key, score=score, before=places[p.source, p.key], after=after)
        for after, (p, score) in enumerate(ordered)
    )


def _usage(completion: Completion, before: StageUsage | None = None) -> StageUsage:
    """The usage of a call. Arms read it from the pool file, so for them it is not paid."""
    return counted(before or StageUsage(), replace(completion, paid=False), max(0, completion.attempts - 1))


def rerankers(wanted: Iterable[Knowledge]) -> list[str]:
    """The rerankers that are not the role ``retriever``."""
    named = (each.rerank.model for each in wanted if each.rerank is not None)
    return list(dict.fromkeys(model for model in named if model != LLM))


def priced_models(wanted: Iterable[Knowledge]) -> list[str]:
    """Names of the rerankers that can cost money, as calls name them."""
    return [name.partition("@")[0] for name in rerankers(wanted) if not name.startswith(LOCAL)]


def staged(knowledge: Knowledge | None) -> tuple[Knowledge, ...]:
    """The settings as the wanted ones; empty if pools need no stage."""
    return (knowledge,) if knowledge is not None and knowledge.staged else ()


def open_rerankers(wanted: Iterable[Knowledge], options: RunOptions) -> dict[str, ChatModel]:
    """Name -> reranker; an endpoint that cannot be reached is refused."""
    entries = read_models(options.models_file)
    opened: dict[str, ChatModel] = {}
    for name in rerankers(wanted):
        local = name.startswith(LOCAL)
        opened[name] = CrossEncoderReranker(name[len(LOCAL) :]) if local else open_rerank_endpoint(name, entries)
    probe(opened.values())
    return opened


def guarded(models: Mapping[str, ChatModel], guard: Guard) -> dict[str, ChatModel]:
    """The opened models of pool stages, wrapped; rerankers in this process are services."""
    return {name: guard.service(m) if name.startswith(LOCAL) else guard.model(m) for name, m in models.items()}


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
    async def open(self, guard: Guard) -> AsyncIterator[PoolStages]:
        """The stages, with their models open."""
        options = self.options
        opened = open_rerankers(self.wanted, options)
        if isinstance(self.retriever, str):
            at = options.base_url if has_endpoint(self.retriever) else None
            opened |= open_models({LLM: self.retriever}, base_url=at, models=read_models(options.models_file))
        models = guarded(opened, guard)
        if self.retriever is not None and not isinstance(self.retriever, str):
            models[LLM] = guard.model(self.retriever)
        if any(each.query != "none" for each in self.wanted):
            served = {source.name: served_by(source) for source in self.sources}
            models[SEARCH] = guard.service(LiveSearch(served, self.sources, max(self.k, *map(depth, self.wanted))))
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
        search: Callable[[], None] = lambda: None,
    ) -> None:
        """Write the pools of ``file`` with their stages to ``out``, which may be the same file.

        ``search`` writes ``file``, in a thread, once all models are open.
        Each finished call is in the store of ``own``, so the same call again makes only the missing ones.

        Raises:
            Unfinished: A limit is reached, or a model's calls all fail; ``out`` is then unchanged.
        """
        assert own.calls is not None
        options = self.options
        limits = Limits(options.concurrency, options.rpm, options.tpm, prefix=options.prefix)
        meter = Meter(total=0, budget=own.budget, limits=limits)
        with CallStore(own.calls) as store:
            own.budget.catch_up(store)
            async with self.open(Guard(limits=limits, meter=meter, store=store, payer=own.payer)) as pools:
                await asyncio.to_thread(search)

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
    **searching: Any,
) -> dict[str, SourceCounts]:
    """As :func:`madke.pools.building.build_pools`, with the query stage and the reranker of ``knowledge``.

    Their calls are in :func:`calls_beside`, so the same call again makes no finished one again.

    Raises:
        UserError: A source, a model or a price is missing.
        Unfinished: A limit is reached, or the calls of a model all fail; ``out`` is then not written.
    """
    if not knowledge.staged:
        return build_pools(questions, sources, k, out, progress=progress, **searching)
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
        search=lambda: counts.update(build_pools(questions, sources, k, found, progress=progress, **searching)),
    )
    try:
        finished(work)
    finally:
        found.unlink(missing_ok=True)
    return counts
