"""Rerankers over real passages and questions: an oracle puts every gold passage that was found first."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.question import Question
from madke.engine.protocol_parts import Knowledge, Rerank
from madke.retrieval.indexes.build import build_index
from madke.retrieval.named import open_source
from madke.retrieval.pools.pool_file import PoolRecord, read_pools
from madke.runs.pools import build_pool_file
from madke.runs.request import RunOptions
from tests.support.openai_server import Reply, openai_server
from tests.support.pools import load_pool
from tests.support.tiny_reranker import save_tiny_reranker

pytestmark = pytest.mark.slow

CANDIDATES = 100


def slice_of(data: Path, folder: Path) -> tuple[Path, list[Question], dict[str, set[str]]]:
    """A BM25 index of 4,000 passages, 60 questions, and the gold passages of each."""
    gold: dict[str, set[str]] = {}
    with (data / "wiki_passages" / "qrels.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["rel"] == "2":
                gold.setdefault(row["qid"], set()).add(row["passage_id"])
    lines = (data / "wiki_passages" / "questions.jsonl").read_text().splitlines()
    asked = [item for item in map(json.loads, lines) if item["dataset"].startswith("hotpot") and item["qid"] in gold]
    questions = [Question(id=item["qid"], question=item["question"]) for item in asked[:60]]
    wanted = set().union(*(gold[question.id] for question in questions))
    corpus = folder / "corpus.jsonl"
    with gzip.open(data / "wiki_passages" / "psgs_100k.tsv.gz", "rt", newline="") as file, corpus.open("w") as out:
        for n, row in enumerate(csv.DictReader(file, delimiter="\t")):
            if row["id"] in wanted or n % 30 == 0:
                out.write(json.dumps(row) + "\n")
    build_index(corpus, folder / "bm25", "bm25")
    return folder / "bm25", questions, gold


def hits(records: dict[str, PoolRecord], gold: dict[str, set[str]], k: int, rerank: Rerank | None = None) -> float:
    """The share of questions with all gold passages among the first ``k``: HotpotQA needs two."""
    pools = {id_: load_pool(record, sources=("wiki",), per_source=k, rerank=rerank) for id_, record in records.items()}
    return sum(gold[id_] <= {each.key for each in pool.passages} for id_, pool in pools.items()) / len(pools)


def test_an_oracle_reaches_what_the_search_found_and_a_tiny_model_scores_every_passage(
    shared_data: Path, tmp_path: Path
) -> None:
    index, questions, gold = slice_of(shared_data, tmp_path)
    source = open_source("wiki", str(index))
    of_question = {question.question: gold[question.id] for question in questions}
    texts: dict[str, str] = {}

    def oracle(body: dict[str, Any], n: int) -> Reply:
        named = of_question[body["query"]]
        results = [{"index": at, "relevance_score": texts[text] in named} for at, text in enumerate(body["documents"])]
        return 200, {}, {"results": results}

    def built(model: str) -> dict[str, PoolRecord]:
        out = tmp_path / f"{model.partition('/')[0].partition('@')[0]}.jsonl"
        knowledge = Knowledge.model_validate({"sources": ["wiki"], "rerank": {"model": model, "from": CANDIDATES}})
        build_pool_file(questions, [source], CANDIDATES, out, knowledge, options=RunOptions(concurrency=8))
        return read_pools(out)

    for hit in source.search([question.question for question in questions], CANDIDATES):  # type: ignore[union-attr]
        texts |= {f"{p.title}\n{p.text}" if p.title else p.text: p.key for p in hit.passages}
    with openai_server(oracle) as server:
        model = f"oracle@{server.url}"
        records = built(model)
    assert hits(records, gold, 5) < hits(records, gold, CANDIDATES)
    assert hits(records, gold, 5, Rerank(model=model)) == hits(records, gold, CANDIDATES)

    words = " ".join(texts).split()[:2000]
    tiny = f"hf/{save_tiny_reranker(tmp_path / 'tiny', [word.lower() for word in words if word.isalpha()])}"
    records = built(tiny)
    assert hits(records, gold, CANDIDATES, Rerank(model=tiny)) == hits(records, gold, CANDIDATES)
    orders = {tuple(ranked.before for ranked in record.reranked[0].passages) for record in records.values()}
    assert len(orders) > 50
    assert {len(order) for order in orders} == {CANDIDATES}
