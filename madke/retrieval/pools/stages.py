"""Query stages and rerankers: prompts, calls and replies, from the record of a pool to the record with its stages.

Like sources, rerankers are :class:`madke.core.chat.ChatModel` objects here.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from madke._util.assets import asset
from madke._util.concurrency import gather
from madke._util.yaml_file import read_mapping
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose, call_seed
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.core.stage import ShownPassage
from madke.core.stage import Stage as CallStage
from madke.core.transcript import StageUsage
from madke.engine.parse import parse_ranking, parse_searches, without_reasoning
from madke.engine.reading import without_tags
from madke.engine.scene import usage_with_call
from madke.engine.settings import RETRIEVER, Knowledge, Rerank
from madke.models.services import service_request
from madke.retrieval.pools.pool_file import (
    FurtherQueries,
    PoolRecord,
    Ranked,
    Reranking,
    record_from_json,
    rerank_candidates,
    scope_of,
)

_log = logging.getLogger(__name__)

PoolStage = Literal["rewrite", "decompose", "rerank"]

_LIMITS = {"rewrite": 1, "decompose": 4}
"""Maximum number of further queries."""
_MAX_TOKENS = 2048
LLM, SEARCH = "llm", ""
LOCAL = "hf/"
"""Prefix of rerankers in this process, which cost nothing."""


@cache
def _prompts() -> dict[str, dict[str, str]]:
    """Stage -> its wording: ``system``, ``instruction`` and ``closing``."""
    return read_mapping(asset("prompts", "retrieval", "stages.yaml"))


def messages(stage: PoolStage, question: str, passages: Sequence[Passage] = ()) -> tuple[Message, ...]:
    """The prompt of a stage, in the layout of the templates: a passage is one line, numbered from 0."""
    prompt = _prompts()[stage]
    titles = [f" - {passage.title}" if passage.title else "" for passage in passages]
    lines = [_on_one_line(f"Knowledge {n}{titles[n]}: {passage.text}") for n, passage in enumerate(passages)]
    knowledge = ["\n".join(("<knowledge>", *lines, "</knowledge>"))] if lines else []
    parts = (prompt["instruction"], *knowledge, f"Question: {_on_one_line(question)}", prompt["closing"])
    return Message(role="system", content=prompt["system"]), Message(role="user", content="\n\n".join(parts))


def values(stage: PoolStage, question: str, passages: Sequence[Passage] = ()) -> CallStage:
    """What the prompt of a stage shows, for stand-ins of a language model."""
    shown = (ShownPassage(n, *(" ".join(t.split()) for t in (p.title, p.text))) for n, p in enumerate(passages))
    return CallStage(name=stage, question=Question(question=question), passages=tuple(shown))


def _on_one_line(text: str) -> str:
    return without_tags(" ".join(text.split()), ("knowledge",))


def read_queries(completion: Completion, stage: PoolStage, question: str) -> tuple[tuple[str, ...], str | None]:
    """The further queries in a reply, without the question itself, and the error if there are none."""
    if completion.outcome != "ok":
        return (), completion.error or completion.outcome
    found = parse_searches(without_reasoning(completion.text), limit=_LIMITS[stage]).value
    queries = tuple(query for query in found if query.casefold() != " ".join(question.split()).casefold())
    return queries, None if found else "the reply holds no query"


def read_order(completion: Completion, size: int) -> tuple[tuple[int, ...], bool, str | None]:
    """The order of ``size`` passages in a reply, whether it was repaired, and the error if there is none."""
    if completion.outcome != "ok":
        return (), False, completion.error or completion.outcome
    parsed = parse_ranking(without_reasoning(completion.text), size=size)
    return parsed.value, parsed.rule == "repaired", None if parsed.value else "the reply holds no ranking"


@dataclass(kw_only=True)
class PoolStages:
    """The models and searches of query stages and rerankers, wrapped in the call store."""

    wanted: Sequence[Knowledge]
    """The settings whose stages every pool gets."""
    models: Mapping[str, ChatModel]
    """By ``rerank.model``; :data:`LLM` is the role ``retriever``, :data:`SEARCH` the sources."""
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
        queries, error = read_queries(completion, stage, record.question)
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
        found = rerank_candidates(record, knowledge.sources, knowledge.query, rerank.candidates)
        listwise = rerank.model == LLM
        scope = scope_of(knowledge.sources, knowledge.query, rerank.candidates) if listwise else ""
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
        order, repaired, error = read_order(completion, len(found))
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

    async def _call(self, record: PoolRecord, stage: PoolStage, passages: Sequence[Passage] = ()) -> Completion:
        purpose = Purpose(question=record.id, stage=stage, agent=RETRIEVER, round=1)
        return await self.models[LLM].complete(
            ChatRequest(
                messages=messages(stage, record.question, passages),
                purpose=purpose,
                temperature=0.0,
                max_tokens=_MAX_TOKENS,
                seed=call_seed(self.seed, purpose),
                stage=values(stage, record.question, passages),
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
    return usage_with_call(before or StageUsage(), replace(completion, paid=False), max(0, completion.attempts - 1))
