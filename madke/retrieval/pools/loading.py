"""The pool of a question, from a line of a pool file: chosen sources, no duplicates, limited and numbered."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.transcript import Retrieval
from madke.engine.settings import Knowledge, Rerank
from madke.retrieval.fusion import Method, fuse
from madke.retrieval.pools.pool_file import PoolRecord, Reranking, scope_of

_Keyed = tuple[Passage, set[str]]
"""A passage and its :attr:`madke.core.knowledge.Passage.dedup_keys`."""


def pool_of(record: PoolRecord, knowledge: Knowledge, *, sources: Sequence[str] | None = None) -> KnowledgePool:
    """The numbered pool of one question under a protocol's settings, optionally limited to ``sources``.

    Two passages are duplicates if their words or their URLs are equal; the first one is kept. In a fusion, ``rank`` and
    ``score`` come from the fusion, the other fields from the first source that found the passage. A failed reranking
    leaves :func:`rerank_candidates`.

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


def rerank_candidates(record: PoolRecord, sources: Sequence[str], query: str, limit: int) -> list[Passage]:
    """Up to ``limit`` passages of each source without duplicates: the first of every source, the second, ..."""
    seen: set[str] = set()
    lists = [_top(ranking(record, name, query), limit, seen) for name in sources]
    return [each[0] for row in zip_longest(*lists) for each in row if each is not None]


def _reranked(record: PoolRecord, sources: Sequence[str], knowledge: Knowledge, rerank: Rerank) -> KnowledgePool:
    query = knowledge.query
    found = rerank_candidates(record, sources, query, rerank.candidates)
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
