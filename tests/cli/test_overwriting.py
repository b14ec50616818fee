"""No command writes over what it reads, or over what a run keeps: it says so, and asks nobody before."""

from pathlib import Path

import pytest

from madke._util.files import fingerprint
from madke.cli.flags import refuse_overwriting
from madke.core.errors import UserError
from tests.data.published import write
from tests.support.cli import madke, refused

pytestmark = pytest.mark.slow

LAKE = "Which lake is the deepest?"
RECIPE = {"title": "One and the same", "source": "a test", "arms": [{"name": "plain", "protocol": "cot"}]}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, an experiment of one arm, and answers from elsewhere; all of them graded, which is paid for."""
    folder = tmp_path_factory.mktemp("played")
    questions = [{"id": f"q{n}", "question": LAKE, "golden_answers": ["Baikal"]} for n in range(2)]
    write(folder / "q.jsonl", questions)
    write(folder / "script.yaml", '- {stage: grade, reply: "[True]"}\n- {reply: "It is [Baikal]."}\n')
    write(folder / "recipe.yaml", RECIPE)
    write(folder / "a.jsonl", {"id": "q0", "answer": "Baikal"})
    write(folder / "web.jsonl", {"query": LAKE, "results": []})
    for line in (
        "run q.jsonl --protocol cot --model scripted/script.yaml --out run",
        "ablate recipe.yaml --data q.jsonl --model scripted/script.yaml --out experiment",
        "score run --grader scripted/script.yaml",
        "score a.jsonl --data q.jsonl --grader scripted/script.yaml",
    ):
        done = madke(*line.split(), cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_nothing_that_a_run_or_an_experiment_keeps_can_be_an_output(played: Path) -> None:
    folders = (played / "run", played / "experiment", played / "experiment" / "arms" / "plain")
    files = [path for folder in folders for path in folder.iterdir() if path.is_file()]
    assert {"calls.sqlite", "grades.sqlite", "external.json", "lock"} <= {path.name for path in files}
    for path in files:
        with pytest.raises(UserError, match="--out would overwrite"):
            refuse_overwriting({"--out": path}, ())
    refuse_overwriting({"--out": played / "run" / "own.html"}, [played / "run"])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("report run --out run/calls.sqlite", "would overwrite"),
        ("report run --out x.html --answers x.html", "are the same file"),
        ("report experiment --answers experiment/arms/plain/transcripts.jsonl", "would overwrite"),
        ("report a.jsonl --data q.jsonl --out a.jsonl.grades.sqlite", "would overwrite"),
        ("score a.jsonl --data q.jsonl --tables t.csv --tables t.csv", "are the same file"),
        ("score run --calibrate run/run.json", "would overwrite"),
        ("pool build q.jsonl --sources google=web.jsonl --out web.jsonl", "would overwrite"),
    ],
)
def test_each_command_refuses_before_it_does_anything(played: Path, line: str, reason: str) -> None:
    before = {path: fingerprint(path) for path in played.rglob("*") if path.is_file()}
    assert reason in refused(*line.split(), cwd=played)
    assert {path: fingerprint(path) for path in played.rglob("*") if path.is_file()} == before


def test_what_runs_are_scored_and_shown_in_is_written_again(played: Path) -> None:
    for line in ("report run --out run/report.html --tables csv", "score run --tables run/t.csv"):
        for _ in range(2):
            done = madke(*line.split(), cwd=played)
            assert done.returncode == 0, done.stderr
