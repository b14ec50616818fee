"""``madke support`` and ``madke calibrate`` as a user runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from madke.data.rag_answers import read_rag_answers
from tests.support.cli import madke

QUESTIONS = Path(__file__).parents[2] / "eval" / "samples" / "questions.jsonl"
JUDGE = """
import json, sys
open(sys.argv[1], "a").write("asked\\n")
for line in sys.stdin:
    pair = json.loads(line)
    print(float(pair["candidate"].removeprefix("The answer is ").rstrip(".").lower() in pair["source"].lower()))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("support") / "run"
    assert madke("run", QUESTIONS, "--limit", 24, "-p", "rag", "--out", folder, timeout=600).returncode == 0
    return folder


@pytest.fixture
def judge(tmp_path: Path) -> str:
    (tmp_path / "judge.py").write_text(JUDGE, encoding="utf-8")
    return f"{sys.executable} {tmp_path / 'judge.py'} {tmp_path / 'asked'}"


def scores(*arguments: Any) -> dict[str, Any]:
    done = madke("support", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["scores"]
    return found


def test_exported_answers_have_the_same_figures_as_their_run_and_are_not_judged_again(
    run: Path, judge: str, tmp_path: Path
) -> None:
    answers, cache = tmp_path / "answers.jsonl", tmp_path / "judged.sqlite"
    ours = scores(run, "--entailment", judge, "--export", answers, "--cache", cache)
    asked = (tmp_path / "asked").read_text()
    assert ours["ALCE precision"]["value"] > 0.3
    theirs = scores(answers, "--pools", run / "pools.jsonl", "--entailment", judge, "--cache", cache)
    assert ours == theirs
    assert (tmp_path / "asked").read_text() == asked, "the judge is asked once for each pair"


def test_answers_are_in_the_form_of_trec_rag(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    assert madke("support", run, "--export", out).returncode == 0
    for line in out.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        assert [*record] == ["run_id", "topic_id", "topic", "references", "response_length", "answer"]
        places = {n for sentence in record["answer"] for n in sentence["citations"]}
        assert places <= set(range(len(record["references"])))
        assert len(record["references"]) <= 20
        assert record["response_length"] == sum(len(sentence["text"].split()) for sentence in record["answer"])


def test_the_forms_of_2025_and_of_named_documents_are_read(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    about = {"run_id": "r", "narrative_id": 7, "narrative": "Why?"}
    answer = [{"text": "So.", "citations": ["d2", "gone"]}, {"text": "And so.", "citations": [0, 5, -1]}]
    file.write_text(json.dumps({"metadata": about, "references": ["d1", "d2"], "answer": answer}) + "\n")
    (found,) = read_rag_answers(file)
    assert (found.run, found.id, found.question) == ("r", "7", "Why?")
    assert [sentence.citations for sentence in found.sentences] == [(1, 2), (0, 5, 2)], "2 and 5 are out of range"


@pytest.mark.parametrize("line", ["{}", "[]", "5", '{"topic_id": 1, "references": [], "answer": [{"text": "a"}]}', "{"])
def test_other_forms_are_refused_with_their_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(line + "\n")
    done = madke("support", file, "--export", tmp_path / "out.jsonl")
    assert done.returncode == 2
    assert "answers.jsonl" in done.stderr
    assert "expected an object with" in done.stderr


def test_nuggets_are_scored(run: Path, judge: str, tmp_path: Path) -> None:
    first = next(iter(read_rag_answers_of(run, tmp_path)))
    nuggets = tmp_path / "nuggets.jsonl"
    rows = [
        {"text": "x", "importance": "vital", "assignment": "support"},
        {"text": "y", "importance": "okay", "assignment": "partial_support"},
    ]
    nuggets.write_text(json.dumps({"qid": first.id, "nuggets": rows}) + "\n")
    found = scores(run, "--entailment", judge, "--nuggets", nuggets, "--cache", tmp_path / "judged.sqlite")
    assert (found["nuggets strict vital"]["value"], found["nuggets all"]["value"]) == (1.0, 0.75)
    assert found["nuggets all"]["n"] == 1


def read_rag_answers_of(run: Path, folder: Path) -> Any:
    out = folder / "of-run.jsonl"
    assert madke("support", run, "--export", out).returncode == 0
    return read_rag_answers(out)


def test_a_calibration_is_written_and_refused_where_it_cannot_hold(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "calibration.json"
    done = madke("calibrate", run, "--signals", "support", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "too few questions" in done.stdout
    assert out.exists()
    tested = madke("calibrate", run, "--calibration", out, "--json")
    assert tested.returncode == 0
    assert json.loads(tested.stdout)
    refused = madke("run", QUESTIONS, "--out", tmp_path / "new", "--error-at-most", "1%", "--calibration", out)
    assert refused.returncode == 2
    assert "cannot show an error of at most 1 %" in refused.stderr
    assert not (tmp_path / "new").exists()
    assert "unknown signal" in madke("calibrate", run, "--signals", "mood").stderr
