"""Searches during a debate and for further queries: sources as a model, so that the call store keeps their results."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence

from madke.core.chat import ChatModel, ChatRequest, Completion, Purpose
from madke.core.errors import UserError
from madke.core.knowledge import Hits, Source
from madke.core.question import Question
from madke.engine.scene import Retrieve
from madke.engine.settings import Knowledge
from madke.models.batching import Batching
from madke.models.services import failed_call, service_request
from madke.retrieval.pools.building import retrieve
from madke.retrieval.pools.loading import pool_of
from madke.retrieval.pools.pool_file import PoolRecord, record_from_json, record_to_json

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
    plain = knowledge.model_copy(update={"query": "none", "rerank": None})

    async def search(query: str, purpose: Purpose) -> Hits:
        completion = await model.complete(service_request(purpose, query))
        if completion.outcome != "ok":
            return Hits(error=completion.error)
        sources = (knowledge.per_debater_sources or {}).get(purpose.agent, knowledge.sources)
        pool = pool_of(record_from_json(completion.text), plain, sources=sources)
        failed = len(pool.partial) == len(sources)
        return Hits(error=_reasons(pool.partial)) if failed else Hits(passages=pool.passages)

    return search


def _reasons(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{source}: {reason}" for source, reason in failures.items())
