"""Relevance judgements, and measures of rankings against values worked out by hand."""

import gzip
from math import log2
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Passage
from madke.retrieval.pools import PoolRecord
from madke.scoring.retrieval import of_pools, read_qrels, retrieval, with_fusions
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


def record(id_: str, *passages: tuple[str, str, int, float], **fields: Any) -> PoolRecord:
    """The pool of a question. ``passages``: source, key, rank and score of each; ``sources``: those that were asked."""
    found = tuple(
        Passage(source=source, key=key, title="", text=key, score=score, rank=rank)
        for source, key, rank, score in passages
    )
    return PoolRecord(id=id_, question="?", passages=found, **{"partial": {}, "sources": {}, **fields})


def test_a_pool_file_gives_the_rankings_of_each_source_where_it_answered() -> None:
    both = {"wiki": "BM25", "web": "files"}
    records = [
        record("q1", ("wiki", "b", 1, 2.0), ("wiki", "a", 0, 3.0), ("web", "w", 0, 0.0), sources=both),
        record("q2", partial={"wiki": "timeout"}, sources=both),
        record("q3", ("wiki", "c", 0, 0.0), sources={"wiki": "BM25"}),
    ]
    found = of_pools(records)
    assert found == {"wiki": {"q1": {"a": 3.0, "b": 2.0}, "q3": {"c": 0.0}}, "web": {"q1": {"w": 0.0}, "q2": {}}}
    assert list(found["wiki"]["q1"]) == ["a", "b"]
    # A fusion is of the questions that all of several parts answered.
    assert [*with_fusions(found)["rank fusion"]] == ["q1"]
    assert [*with_fusions({"wiki": found["wiki"]})] == ["wiki"]
    # A file that is written by hand names no source that found nothing.
    by_hand = [record("q1", ("wiki", "a", 0, 0.0)), record("q2"), record("q3", partial={"wiki": "timeout"})]
    assert of_pools(by_hand) == {"wiki": {"q1": {"a": 0.0}, "q2": {}}}


# Files of judgements


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 p1 2\nq1 0 p2 0\n\nq2\t0\tp3\t1\n",
        "dataset\tqid\tpassage_id\trel\thas_answer\nnq\tq1\tp1\t2\t1\nnq\tq1\tp2\t0\t\nnq\tq2\tp3\t1\t0\n",
        "query-id\tcorpus-id\tscore\r\nq1\tp1\t2\r\nq1\tp2\t0\r\nq2\tp3\t1\r\n",
        "\ufeffqid\tpassage_id\trel\nq1\tp1\t2\nq1\tp2\t0\nq2\tp3\t1",
    ],
    ids=["TREC", "headings", "BEIR", "byte order mark"],
)
def test_each_form_gives_the_same_judgements(text: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text.encode()))
    judged = {"q1": {"p1": 2, "p2": 0}, "q2": {"p3": 1}}
    assert read_qrels(tmp_path / "plain") == read_qrels(tmp_path / "packed.gz") == judged


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "qrels: holds no judgements; expected TREC's four columns"),
        (b"q1 0 p1\n", "qrels:1: found 3 columns; expected TREC's four columns"),
        (b"qid\tpassage\trel\nq1\tp1\t1\n", "qrels:1: found 3 columns; .*headings qid, passage_id and rel"),
        (b"q1 0 p1 1\nq1 0 p2 yes\n", "qrels:2: found relevance 'yes', expected a whole number"),
        (b"q1 0 p1 1\nq1 0 p1 2\n", "qrels:2: .*passage 'p1' of question 'q1'"),
        (b"q1 0 p1 1\nq1 0 \xff 1\n", "qrels:2: is not UTF-8"),
    ],
)
def test_a_wrong_line_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_qrels(tmp_path / "qrels")
