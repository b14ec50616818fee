"""``eval/retrieval.py`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import script
from tests.support.corpus import write_corpus
from tests.support.installed import needs

needs("jnius_config", "wiki")

SCRIPT = Path(__file__).parent.parent / "eval" / "retrieval.py"


@pytest.fixture
def judged(tmp_path: Path) -> list[str]:
    rows = [("d", "q1", "lava in Arlen", "p0", 2), ("d", "q2", "lava in Arlen", "p49", 2), ("d", "q3", "x", "p1", 1)]
    questions = [{"dataset": d, "qid": qid, "question": text, "answers": ["a"]} for d, qid, text, _, _ in rows]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, questions)))
    lines = [f"{d}\t{qid}\t{passage}\t{rel}\t1" for d, qid, _, passage, rel in rows]
    (tmp_path / "qrels.tsv").write_text("\n".join(["dataset\tqid\tpassage_id\trel\thas_answer", *lines]))
    return ["--questions", str(tmp_path / "q.jsonl"), "--qrels", str(tmp_path / "qrels.tsv")]


def test_hits_are_counted_over_judged_questions(judged: list[str], tmp_path: Path) -> None:
    from madke.indexing.build import build_index

    build_index(write_corpus(tmp_path / "c.jsonl"), tmp_path / "index")

    done = script(SCRIPT, *judged, "--index", tmp_path / "index", "--k", "1,5")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\t")[1:3] == ["d", "n 2 (+1 unjudged)"]
    assert "hit@1  50.0" in done.stdout and "hit@5  50.0" in done.stdout


def test_questions_are_written_in_our_form(judged: list[str], tmp_path: Path) -> None:
    done = script(SCRIPT, *judged, "--write-questions", "d", "2", tmp_path / "out.jsonl")

    assert done.returncode == 0
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()][1] == {
        "id": "q2",
        "question": "lava in Arlen",
        "golden_answers": ["a"],
        "task": "short_answer",
        "metadata": {"dataset": "d", "gold_passages": ["p49"]},
    }


def test_bad_input_is_one_line(judged: list[str]) -> None:
    done = script(SCRIPT, *judged, "--index", "nowhere")

    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "nowhere" in done.stderr
