"""``madke report``: what it takes, what it writes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.report.run_folders import debate, write_run
from tests.support.cli import madke, refused

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    return write_run(tmp_path / "run", [debate("q0", [RIGHT, RIGHT]), debate("q1", [WRONG, WRONG])])


def test_the_page_of_runs_stands_in_the_first_of_them(tmp_path: Path, run: Any) -> None:
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


def test_figures_are_written_for_papers_too(tmp_path: Path, run: Any) -> None:
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


def test_the_debates_of_one_question_are_printed(run: Any) -> None:
    done = madke("report", run, "--question", "q1")
    assert "Final answer, by summarizer: [Lake Tanganyika]" in done.stdout
    assert not (run / "report.html").exists()
    assert "has no question 'q9'" in refused("report", run, "--question", "q9")
    for option in (
        ("--out", run / "x.html"),
        ("--figures", "pdf"),
        ("--tables", "csv"),
        ("--answers", run / "a"),
    ):
        assert "--question writes no files" in refused("report", run, "--question", "q1", *option)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    assert "is not a run directory" in refused("report", tmp_path)
    assert not (tmp_path / "report.html").exists()
