"""Files of relevance judgements."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.scoring.retrieval import read_qrels

JUDGED = {"q1": {"p1": 2, "p2": 0}, "q2": {"p3": 1}}


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 p1 2\nq1 0 p2 0\n\nq2\t0\tp3\t1\n",
        "dataset\tqid\tpassage_id\trel\thas_answer\nnq\tq1\tp1\t2\t1\nnq\tq1\tp2\t0\t\nnq\tq2\tp3\t1\t0\n",
        "query-id\tcorpus-id\tscore\r\nq1\tp1\t2\r\nq1\tp2\t0\r\nq2\tp3\t1\r\n",
        "dataset\tqid\tpassage_id\trel\tscore\n\tq1\tp1\t2\t\n\tq1\tp2\t0\t7\n\tq2\tp3\t1\t\n",
        "\ufeffqid\tpassage_id\trel\nq1\tp1\t2\nq1\tp2\t0\nq2\tp3\t1",
    ],
    ids=["TREC", "headings", "BEIR", "empty cells", "byte order mark"],
)
def test_each_form_gives_the_same_judgements(text: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text.encode()))
    assert read_qrels(tmp_path / "plain") == read_qrels(tmp_path / "packed.gz") == JUDGED


def test_a_passage_key_may_have_spaces_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("qid\tpassage_id\trel\nq\tguide.pdf, p. 3\t1\n")
    assert read_qrels(tmp_path / "qrels") == {"q": {"guide.pdf, p. 3": 1}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "qrels: holds no judgements; expected TREC's four columns"),
        (b"q1 0 p1\n", "qrels:1: found 3 columns; expected TREC's four columns"),
        (b"qid\tpassage_id\trel\nq1\tp1\n", "qrels:2: found 2 columns"),
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
