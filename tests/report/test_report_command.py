"""``madke report``: what it takes, what it writes, and what other tools read from its files."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.transcript import PoolEntry, Transcript
from madke.report.export import COLUMNS, write_answers
from tests.report.run_folders import debate, write_run
from tests.support import run_folder
from tests.support.cli import madke, refused
from tests.support.transcripts import arm, transcript

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", [debate("q0", [RIGHT, RIGHT]), debate("q1", [WRONG, WRONG])])


def test_the_page_of_runs_stands_in_the_first_of_them(tmp_path: Path, run: Path) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    done = madke("report", run, other, "--tables", "csv", "--tables", "tex", "--answers", tmp_path / "answers.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"report: {run / 'report.html'}"
    assert (run / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {path.name for path in (run / "tables").iterdir()} == {
        f"{name}.{form}" for name in ("scores", "stages", "tests") for form in ("csv", "tex")
    }
    assert (tmp_path / "answers.jsonl").read_text().count("\n") == 4
    assert not (other / "report.html").exists()


def test_figures_are_written_for_papers_too(tmp_path: Path, run: Path) -> None:
    pytest.importorskip("matplotlib")
    other = write_run(tmp_path / "other", [debate("q0", ["Lake Baikal"] * 2)])
    done = madke("report", run, other, "--out", tmp_path / "page.html", "--figures", "pdf", figures=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").is_file()
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".pdf"}


def test_an_experiment_is_all_of_its_arms_and_its_reference_comes_first(tmp_path: Path) -> None:
    arms = [{"name": "one"}, {"name": "two"}, {"name": "later"}]
    published = {"gpt-9": {"two": {"all": {"em": 0.5}}}}
    recipe = {"title": "Lakes", "source": "a test", "arms": arms, "reference": "two", "published": published}
    record = {"format": 2, "recipe": recipe, "questions": {}, "pools": {}, "sources": {}}
    (tmp_path / "experiment.json").write_text(json.dumps(record))
    assert "without a started arm" in refused("report", tmp_path)
    for name in ("one", "two"):
        write_run(tmp_path / "arms" / name, [debate("q0", [RIGHT, RIGHT])])
    done = madke("report", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<th scope="row"><a class="name"[^>]*>(\w+)<', page)[:2] == ["two", "one"]
    assert 'href="#summary">Lakes</a>' in page
    assert "Published figures and ours" in page


def test_the_debates_of_one_question_are_printed(run: Path) -> None:
    done = madke("report", run, "--question", "q1")
    assert "Final answer, by summarizer: [Lake Tanganyika]" in done.stdout
    assert not (run / "report.html").exists()
    assert "has no question 'q9'" in refused("report", run, "--question", "q9")
    for option in (("--out", run / "x.html"), ("--figures", "pdf"), ("--tables", "csv"), ("--answers", run / "a")):
        assert "--question writes no files" in refused("report", run, "--question", "q1", *option)


# Files for other tools

POOL = (
    PoolEntry(n=0, source="wiki", key="p 1", title="Lake Baikal"),
    PoolEntry(n=1, source="web", key="p2", title="Lakes"),
    PoolEntry(n=2, source="web", key="p3", title="Asked", asked_by="Debater 1", query="depth", round=1),
)


def pooled(id_: str = "q0", answer: str | None = "Lake Baikal", **changes: Any) -> Transcript:
    made = transcript(id_, said=["Lake Baikal", "Tanganyika"], consensus=False, answer=answer, pool=POOL)
    return replace(made, metadata={"gold_passages": ["p2", "p9"]}, **changes)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return run_folder.write_run(tmp_path / "first", pooled(), pooled(repeat=1), repeats=2)


def report(*arguments: object) -> None:
    done = madke("report", *arguments)
    assert done.returncode == 0, done.stderr


def test_answers_as_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    write_answers(
        [arm("one", [pooled(), pooled("q1", None)]), arm("two", [pooled(answer="x", repeat=1, agreement=None)])], file
    )
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["run"], row["id"], row["repeat"], row["answer"], row["correct"], row["status"]) for row in rows] == [
        ("one", "q0", 0, "Lake Baikal", 1.0, "ok"),
        ("one", "q1", 0, None, 0.0, "abstained"),
        ("two", "q0", 1, "x", 0.0, "ok"),
    ]
    assert (rows[0]["gold"], rows[0]["question"]) == (["Lake Baikal"], "Which lake is the deepest?")


def test_pandas_reads_the_answers(first: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    file = tmp_path / "answers.parquet"
    report(first, "--out", tmp_path / "page.html", "--answers", file)
    table = pandas.read_parquet(file)
    assert list(table) == list(COLUMNS)
    assert list(table["correct"]) == [1.0, 1.0]
    assert list(table["repeat"]) == [0, 1]
    assert [list(each) for each in table["supporters"]] == [["Debater 1"]] * 2


def test_trec_runs_and_judgements(first: Path, tmp_path: Path) -> None:
    report(first, "--trec", tmp_path / "out")
    ranking, judgements = tmp_path / "out" / "first.run.txt", tmp_path / "out" / "qrels.txt"
    assert ranking.read_text(encoding="utf-8") == "q0 Q0 p%201 1 2 first\nq0 Q0 p2 2 1 first\n"
    assert judgements.read_text(encoding="utf-8") == "q0 0 p2 1\nq0 0 p9 1\n"
    assert "an export writes no page" in refused("report", first, "--trec", first / "trec", "--out", "page.html")
    assert "no such run" in refused("report", first / "none", "--trec", first)
