"""Measures of rankings against values worked out by hand, and fitted weights."""

from __future__ import annotations

from math import log2

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Passage
from madke.retrieval.pools import PoolRecord
from madke.scoring.retrieval import of_pools, retrieval, with_fusions
from tests.support.installed import needs

needs("ir_measures", "retrieval")

QRELS = {"q1": {"a": 2, "b": 1}, "q2": {"c": 2}, "q3": {"d": 0}}
RANKINGS = {"q1": {"x": 3.0, "b": 2.0, "a": 1.0}, "q2": {"y": 1.0}, "q3": {"d": 1.0}, "q4": {"a": 1.0}}


def test_measures_are_means_over_the_questions_with_a_relevant_passage() -> None:
    found = retrieval("bm25", RANKINGS, QRELS, depths=[1, 2, 3])
    assert (found.name, found.n, found.depth) == ("bm25", 2, 3)
    of_q1 = {
        "hit@1": 0,
        "hit@2": 1,
        "hit@3": 1,
        "recall@1": 0,
        "recall@2": 0.5,
        "recall@3": 1,
        "nDCG@1": 0,
        "nDCG@2": (1 / log2(3)) / (2 + 1 / log2(3)),
        "nDCG@3": (1 / log2(3) + 2 / log2(4)) / (2 + 1 / log2(3)),
        "MRR": 1 / 2,
    }
    assert {name: mean.value for name, mean in found.measures.items()} == pytest.approx(
        {name: value / 2 for name, value in of_q1.items()}
    )
    assert found.measures["MRR"].low == 0
    assert found.measures["MRR"].high == 0.5


def test_a_question_named_after_its_dataset_has_the_judgements_of_its_id() -> None:
    found = retrieval("bm25", {"nq/q2": {"c": 1.0}}, QRELS, depths=[1])
    assert found.measures["hit@1"].value == 1


def test_only_passages_of_the_lowest_relevance_or_more_are_hits() -> None:
    found = retrieval("bm25", RANKINGS, QRELS, depths=[2, 3], least=2).measures
    assert (found["hit@2"].value, found["hit@3"].value, found["recall@3"].value) == (0, 0.5, 0.5)
    assert found["MRR"].value == pytest.approx(1 / 6)


def test_equal_scores_keep_the_retrievers_order() -> None:
    # trec_eval alone would order equal scores by key, the last first.
    rankings = {"q1": {"a": 0.0, "z": 0.0, "m": 0.0}}
    assert retrieval("files", rankings, QRELS, depths=[1]).measures["MRR"].value == 1


def test_judgements_of_other_questions_are_refused() -> None:
    with pytest.raises(UserError, match="none of the 1 questions of 'bm25' has a relevant passage"):
        retrieval("bm25", {"9": {"a": 1.0}}, QRELS, depths=[5])


def passage(source: str, key: str, rank: int, score: float = 0.0) -> Passage:
    return Passage(source=source, key=key, title="", text=key, score=score, rank=rank)


def test_a_pool_file_gives_the_rankings_of_each_source() -> None:
    records = [
        PoolRecord(
            id="q1",
            question="?",
            passages=(passage("wiki", "b", 1, 2.0), passage("wiki", "a", 0, 3.0), passage("web", "w", 0)),
            partial={},
            sources={"wiki": "BM25", "web": "files"},
        ),
        PoolRecord(
            id="q2", question="?", passages=(), partial={"wiki": "timeout"}, sources={"wiki": "BM25", "web": "files"}
        ),
        PoolRecord(id="q3", question="?", passages=(passage("wiki", "c", 0),), partial={}, sources={"wiki": "BM25"}),
    ]
    found = of_pools(records)
    assert found == {"wiki": {"q1": {"a": 3.0, "b": 2.0}, "q3": {"c": 0.0}}, "web": {"q1": {"w": 0.0}, "q2": {}}}
    assert list(found["wiki"]["q1"]) == ["a", "b"]


def test_a_source_that_found_nothing_counts_in_a_hand_written_file() -> None:
    records = [
        PoolRecord(id="q1", question="?", passages=(passage("wiki", "a", 0),), partial={}, sources={}),
        PoolRecord(id="q2", question="?", passages=(), partial={}, sources={}),
        PoolRecord(id="q3", question="?", passages=(), partial={"wiki": "timeout"}, sources={}),
    ]
    assert of_pools(records) == {"wiki": {"q1": {"a": 0.0}, "q2": {}}}


def test_fusions_stand_next_to_their_parts_where_all_parts_answered() -> None:
    parts = {"a": {"q1": {"x": 3.0, "y": 0.0}, "q2": {}}, "b": {"q1": {"y": 9.0}}}
    found = with_fusions(parts)
    assert list(found) == ["a", "b", "rank fusion", "a+b"]
    assert list(found["rank fusion"]) == list(found["a+b"]) == ["q1"]
    assert list(found["rank fusion"]["q1"]) == ["y", "x"]
    assert with_fusions({"a": parts["a"]}) == {"a": parts["a"]}
