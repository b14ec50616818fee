"""No command writes over what it reads, or over what a run keeps: it says so, and asks nobody before."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from madke._util.files import fingerprint
from madke.cli.flags import refuse_overwriting
from madke.core.errors import UserError
from tests.data.published import write
from tests.support.cli import madke, refused

QUESTIONS = [{"id": f"q{n}", "question": "Which lake is the deepest?", "golden_answers": ["Baikal"]} for n in range(2)]
RECIPE = """
title: One and the same
source: a test
arms:
  - {name: plain, protocol: cot}
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run, an experiment of one arm, and answers from elsewhere; all of them graded, which is paid for."""
    folder = tmp_path_factory.mktemp("played")
    questions = write(folder / "q.jsonl", QUESTIONS)
    script = folder / "script.yaml"
    script.write_text('- {stage: grade, reply: "[True]"}\n- {reply: "It is [Baikal]."}\n')
    (folder / "recipe.yaml").write_text(RECIPE)
    write(folder / "a.jsonl", [{"id": "q0", "answer": "Baikal"}])
    model = ("--model", f"scripted/{script}")
    grader = ("--grader", f"scripted/{script}")
    for args in (
        ("run", questions, "--protocol", "cot", *model, "--out", folder / "run"),
        ("ablate", folder / "recipe.yaml", "--data", questions, *model, "--out", folder / "experiment"),
        ("score", folder / "run", *grader),
        ("score", folder / "a.jsonl", "--data", questions, *grader),
    ):
        done = madke(*args)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(played: Any, tmp_path: Path) -> Any:
    """A copy that a test may spoil."""
    return shutil.copytree(played, tmp_path / "copy")


def left_alone(folder: Any, *args: Any) -> Any:
    """What is said about a refused command, which has changed nothing in the folder."""
    before = {path: fingerprint(path) for path in folder.rglob("*") if path.is_file()}
    said = refused(*args)
    assert {path: fingerprint(path) for path in folder.rglob("*") if path.is_file()} == before
    return said


@pytest.mark.slow
def test_nothing_that_a_run_or_an_experiment_keeps_can_be_an_output(played: Any) -> None:
    kept = [
        *(played / "run").iterdir(),
        *(played / "experiment").iterdir(),
        *(played / "experiment/arms/plain").iterdir(),
    ]
    files = [path for path in kept if path.is_file()]
    assert {"calls.sqlite", "grades.sqlite", "external.json", "lock"} <= {path.name for path in files}
    for path in files:
        with pytest.raises(UserError, match="--out would overwrite"):
            refuse_overwriting({"--out": path}, ())
    refuse_overwriting({"--out": played / "run" / "own.html"}, [played / "run"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "report run --out run/calls.sqlite",
        "report run --out x.html --answers x.html",
        "report experiment --answers experiment/arms/plain/transcripts.jsonl",
        "report a.jsonl --data q.jsonl --out a.jsonl.grades.sqlite",
        "report run --tables csv --answers run/tables/scores.csv",
        "score a.jsonl --data q.jsonl --tables t.csv --tables t.csv",
        "score run --calibrate run/run.json",
        "pool build q.jsonl --sources google=web.jsonl --out web.jsonl",
        "pool build q.jsonl --sources google=web.jsonl --out run/transcripts.jsonl",
    ],
)
def test_each_command_refuses_before_it_does_anything(folder: Any, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    write(folder / "web.jsonl", [{"query": "Which lake is the deepest?", "results": []}])
    said = left_alone(folder, *line.split())
    assert "would overwrite" in said or "are the same file" in said


@pytest.mark.slow
def test_what_runs_are_scored_and_shown_in_is_written_as_before(folder: Any) -> None:
    run = folder / "run"
    for args in (("report", run, "--out", run / "report.html"), ("score", run)):
        for _ in range(2):
            done = madke(*args, "--tables", "csv" if args[0] == "report" else run / "t.csv")
            assert done.returncode == 0, done.stderr
