"""``eval/retrieval.py`` as a user runs it, and the judgements of the sample."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from madke.scoring.retrieval import read_qrels
from tests.support.cli import script

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "eval" / "retrieval.py"


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    rows = [("d", "q1", "p0", 2), ("d", "q2", "p49", 2), ("d", "q3", "p1", 1)]
    questions = [{"dataset": d, "qid": qid, "question": f"Where is {qid}?", "answers": ["a"]} for d, qid, _, _ in rows]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, questions)))
    lines = [f"{d}\t{qid}\t{passage}\t{rel}\t1" for d, qid, passage, rel in rows]
    (tmp_path / "qrels.tsv").write_text("\n".join(["dataset\tqid\tpassage_id\trel\thas_answer", *lines]))
    return tmp_path


def test_every_fusion_is_measured_over_the_judged_questions_of_each_pool_file(judged: Path) -> None:
    def passages(source: str, scores: dict[str, float]) -> list[dict[str, object]]:
        return [{"source": source, "key": key, "text": key, "score": score} for key, score in scores.items()]

    first, second = passages("a", {"x": 9.0, "p0": 1.0, "y": 0.0}), passages("b", {"p0": 0.9, "x": 0.2, "z": 0.0})
    wrong = passages("a", {f"x{n}": 9.0 - n for n in range(5)} | {"p49": 0.0})
    pools = [("q1", first + second), ("q2", wrong), ("q3", first)]
    lines = [json.dumps({"id": qid, "question": "?", "passages": found}) for qid, found in pools]
    (judged / "pools.jsonl").write_text("\n".join(lines))

    done = script(SCRIPT, "fusions", judged / "pools.jsonl", "--qrels", judged / "qrels.tsv", "--relevance", 2)

    assert (done.returncode, done.stderr) == (0, "")
    cells = (re.sub(r" \[.*?\]| ±\S+", "", line).split("|") for line in done.stdout.splitlines())
    rows = {name.strip(): figures for _, name, figures, *_ in cells}
    assert rows["a"].split()[::2] == ["50.0", "100.0"]
    assert rows["b"].split()[::2] == ["50.0", "50.0"]
    assert rows["reciprocal rank, 60"].split()[::2] == ["50.0", "100.0"]
    assert rows["sum, min-max, weight 1"].split()[::2] == ["50.0", "100.0"]
    assert rows["oracle over the first 100 of each"].split()[::2] == ["100.0", "100.0"]


def test_questions_are_written_in_our_form(judged: Path) -> None:
    done = script(SCRIPT, "questions", judged / "q.jsonl", judged / "qrels.tsv", "d", "2", judged / "out.jsonl")

    assert done.returncode == 0
    assert [json.loads(line) for line in (judged / "out.jsonl").read_text().splitlines()][1] == {
        "id": "q2",
        "question": "Where is q2?",
        "golden_answers": ["a"],
        "task": "short_answer",
        "metadata": {"dataset": "d", "gold_passages": ["p49"]},
    }


def test_bad_input_is_one_line(judged: Path) -> None:
    done = script(SCRIPT, "fusions", judged / "none.jsonl", "--qrels", judged / "qrels.tsv")

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "none.jsonl" in done.stderr


def test_the_judgements_of_the_sample_are_those_of_its_questions() -> None:
    lines = (ROOT / "eval" / "samples" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    gold = {line["id"]: set(line["metadata"]["gold_passages"]) for line in map(json.loads, lines)}

    assert {
        question: set(keys) for question, keys in read_qrels(ROOT / "eval" / "samples" / "qrels.tsv").items()
    } == gold
