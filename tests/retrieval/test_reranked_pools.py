"""Pools of records with further queries and rerankings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Passage
from madke.core.transcript import StageUsage
from madke.engine.settings import Rerank
from madke.retrieval.pools.pool_file import (
    FurtherQueries,
    PoolRecord,
    Ranked,
    Reranking,
    record_from_json,
    record_to_json,
    scope_of,
)
from tests.support.pools import load_pool


def passage(source: str, key: str, rank: int, *, query: str | None = None, text: str = "") -> Passage:
    return Passage(
        source=source, key=key, title="", text=text or f"text {key}", score=9.0 - rank, rank=rank, query=query
    )


WIKI = tuple(passage("wiki", f"w{n}", n) for n in range(4))
WEB = tuple(passage("web", f"g{n}", n) for n in range(2))
SCORES = {"w0": 0.1, "w1": 0.9, "w2": 0.5, "w3": 0.7, "g0": 0.8, "g1": 0.2}
FURTHER = FurtherQueries(by="m", queries=("depth",), usage=StageUsage(calls=1, prompt_tokens=7))


def record(*passages: Passage, **fields: Any) -> PoolRecord:
    return PoolRecord(id="q", question="?", passages=passages, partial={}, sources={}, **fields)


def reranking(model: str = "hf/x", scores: Any = SCORES, **fields: Any) -> Reranking:
    places = {each.key: n for n, each in enumerate((*WIKI, *WEB))}
    ordered = sorted(scores, key=lambda key: -scores[key])
    ranked = tuple(
        Ranked(source="wiki" if key[0] == "w" else "web", key=key, score=scores[key], before=places[key], after=after)
        for after, key in enumerate(ordered)
    )
    return Reranking(model=model, by=f"{model} 1", passages=ranked, **fields)


def rerank(model: str = "hf/x", keep: int | None = 3, limit: int = 100) -> Rerank:
    return Rerank.model_validate({"model": model, "from": limit, "keep": keep})


def keys(pool: Any) -> list[str]:
    return [each.key for each in pool.passages]


def test_a_reranked_pool_has_the_best_passages_of_all_sources_with_both_ranks() -> None:
    pool = load_pool(record(*WIKI, *WEB, reranked=(reranking(),)), sources=("wiki", "web"), rerank=rerank())
    assert [(each.key, each.rank, each.before, each.score) for each in pool.passages] == [
        ("w1", 0, 2, 0.9),  # candidates: w0 g0 w1 g1 w2 w3
        ("g0", 1, 1, 0.8),
        ("w3", 2, 5, 0.7),
    ]
    assert pool.retrieval is not None
    assert not pool.retrieval.failed


def test_an_order_of_all_passages_holds_only_for_its_candidates() -> None:
    scope = scope_of(("wiki",), "none", 4)
    scores = {"w3": 1.0, "w2": 0.5, "w1": 0.3, "w0": 0.25}
    held = record(*WIKI, *WEB, reranked=(reranking("llm", scores, scope=scope, usage=StageUsage(calls=1)),))
    pool = load_pool(held, sources=("wiki",), rerank=rerank("llm", limit=4))
    assert keys(pool) == ["w3", "w2", "w1"]
    assert pool.usage == {"rerank": StageUsage(calls=1)}
    with pytest.raises(UserError, match=r"no reranking by 'llm' of 3 each of wiki.*it has: 4 each of wiki"):
        load_pool(held, sources=("wiki",), rerank=rerank("llm", limit=3))


def test_a_failed_reranking_leaves_the_order_and_says_why() -> None:
    held = record(*WIKI, *WEB, reranked=(replace(reranking(scores={}), error="HTTP 500"),))
    pool = load_pool(held, sources=("wiki", "web"), rerank=rerank())
    assert keys(pool) == ["w0", "g0", "w1"]
    assert pool.retrieval is not None
    assert pool.retrieval.failed == {"rerank": "HTTP 500"}


def test_a_missing_query_stage_is_refused() -> None:
    with pytest.raises(UserError, match=r"no query stage 'decompose'; build it with --query decompose"):
        load_pool(record(*WIKI, queries={"rewrite": FURTHER}), sources=("wiki",), query="decompose")


def test_rankings_of_all_queries_are_joined_without_duplicates() -> None:
    further = (passage("wiki", "w3", 0, query="depth"), passage("wiki", "new", 1, query="depth"))
    held = record(*WIKI, *further, queries={"rewrite": FURTHER})
    joined = load_pool(held, sources=("wiki",), query="rewrite", per_source=3)
    # w3 is fourth and first: 1/64 + 1/61 is more than 1/61 for w0.
    assert keys(joined) == ["w3", "w0", "w1"]
    assert joined.retrieval is not None
    assert joined.retrieval.queries == ("depth",)
    assert joined.usage == {"rewrite": FURTHER.usage}
    assert keys(load_pool(held, sources=("wiki",), per_source=3)) == ["w0", "w1", "w2"]


def test_a_line_holds_the_stages_and_a_record_without_them_is_as_before() -> None:
    full = record(*WIKI, passage("wiki", "x", 0, query="depth"), queries={"rewrite": FURTHER}, reranked=(reranking(),))
    assert record_from_json(record_to_json(full)) == full
    line = json.loads(record_to_json(record(*WIKI[:1])))
    assert list(line) == ["id", "question", "passages", "partial", "sources"]
    assert list(line["passages"][0]) == ["source", "key", "title", "text", "score", "rank"]
