"""``madke score``: programs and models outside that judge answers, predictions from elsewhere, and tables."""

import json
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from madke.core.transcript import Transcript
from tests.data.published import write
from tests.support.cli import madke, refused, started
from tests.support.dataset import write_dataset
from tests.support.openai_server import Reply, chat, openai_server
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

pytestmark = pytest.mark.slow

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"
KEY = "sk-test-of-a-key"
Scorer = Callable[[str, str], tuple[str, str]]


def entry(id_: str, answer: str | None, **changes: Any) -> Transcript:
    return transcript(id_, said=[BAIKAL, BAIKAL], consensus=True, answer=answer, **changes)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", entry("q0", BAIKAL), entry("q1", TANGANYIKA))


@pytest.fixture
def scorer(tmp_path: Path) -> Scorer:
    """A function that makes ``--scorer`` and its value, of a script's body."""

    def make(name: str, body: str) -> tuple[str, str]:
        script = tmp_path / f"{name} scorer.py"
        script.write_text(f"import json, os, sys\nasked = [json.loads(line) for line in sys.stdin]\n{body}")
        return "--scorer", f"{name}={shlex.quote(sys.executable)} {shlex.quote(str(script))}"

    return make


LENGTHS = "for a in asked: print(len(a['candidate']))"


def metrics(run: Path) -> dict[str, Any]:
    return json.loads((run / "metrics.json").read_text())["metrics"]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def done(*args: object, **env: Any) -> CompletedProcess[str]:
    finished = madke(*args, **env)
    assert finished.returncode == 0, finished.stderr
    return finished


def scores(finished: CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in finished.stdout.splitlines()]


def test_the_mean_of_a_program_stands_in_table_details_json_and_file(run: Path, scorer: Scorer) -> None:
    shown = done("score", run, "--details", *scorer("len", LENGTHS))
    assert shown.stderr == ""
    table, _ = shown.stdout.split(f"{run}\n")
    assert "len: on the scorer's scale, not in percent" in table
    assert " 13 (11 to 15) " in table
    (found,) = scores(done("score", run, "--json"))
    assert found["metrics"]["len"] == metrics(run)["len"] == {"value": 13.0, "low": 11.0, "high": 15.0, "n": 2}
    assert metrics(run)["em"]["value"] == 0.5


def test_a_program_gets_question_answer_and_golds_of_every_answer_in_one_batch(tmp_path: Path, scorer: Scorer) -> None:
    run = write_run(
        tmp_path / "run",
        entry("q1", TANGANYIKA, golds=()),
        entry("q0", BAIKAL, question="Which?", golds=(BAIKAL, "Baikal")),
        entry("abstained", None),
        entry("failed", None, status="failed"),
    )
    seen = tmp_path / "seen.json"
    option, command = scorer("comet", f"json.dump(asked, open({str(seen)!r}, 'x'))\nprint(-0.5)\nprint(0.25)")
    done("score", run, option, f"{command} --token hf-very-secret", HF_TOKEN="hf-very-secret")
    assert json.loads(seen.read_text()) == [
        {"source": "Which?", "candidate": BAIKAL, "references": [BAIKAL, "Baikal"]},
        {"source": "Which lake is the deepest?", "candidate": TANGANYIKA, "references": []},
    ]
    assert (metrics(run)["comet"]["value"], metrics(run)["comet"]["n"]) == (-0.125, 2)
    kept = json.loads((run / "external.json").read_text())["comet"]
    assert kept["scores"] == [{"id": "q0", "repeat": 0, "score": -0.5}, {"id": "q1", "repeat": 0, "score": 0.25}]
    assert kept["command"].endswith("comet scorer.py' --token ***")


def test_scores_are_kept_while_the_answers_are_the_same_in_any_order(run: Path, scorer: Scorer) -> None:
    done("score", run, *scorer("len", LENGTHS), *scorer("two", "for a in asked: print(2)"))
    done("score", run, *scorer("two", "for a in asked: print(3)"))
    write_run(run, entry("q1", TANGANYIKA), entry("q0", BAIKAL), entry("q2", None))
    assert done("score", run).stderr == ""
    assert (metrics(run)["len"]["value"], metrics(run)["two"]["value"]) == (13, 3)


@pytest.mark.parametrize("changed", [entry("q1", "Baikal"), entry("q1", TANGANYIKA, golds=("x",))])
def test_scores_of_other_answers_are_left_out_with_a_line(run: Path, scorer: Scorer, changed: Transcript) -> None:
    done("score", run, *scorer("len", LENGTHS))
    write_run(run, entry("q0", BAIKAL), changed)
    shown = done("score", run)
    assert "external.json: the scores by 'len' are ignored, because the run's answers changed" in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert "len" not in shown.stdout
    assert "len" not in metrics(run)
    assert done("score", run, *scorer("len", LENGTHS)).stderr == ""
    assert "len" in metrics(run)


def test_a_program_that_fails_or_is_none_leaves_everything_as_it_was(run: Path, scorer: Scorer) -> None:
    done("score", run, *scorer("len", LENGTHS))
    before = files(run)
    assert "printed 1 lines for 2 items" in refused("score", run, *scorer("len", "print(1)"))
    assert "--scorer 'comet': expected NAME=COMMAND" in refused("score", run, "--scorer", "comet")
    assert "a NAME of letters, digits" in refused("score", run, "--scorer", "a b=cat")
    assert "Rounds is a built-in value; choose another name" in refused("score", run, "--scorer", "Rounds=cat")
    assert files(run) == before


def grading(body: dict[str, Any], n: int) -> Reply:
    """Everything is right but Lake Tanganyika."""
    wrong = f"<answer>{TANGANYIKA}<" in body["messages"][-1]["content"]
    return chat("Not the same.\n[False]" if wrong else "[True]")


def test_the_grader_is_asked_once_for_each_answer_and_its_grades_are_shown_without_it(run: Path) -> None:
    with openai_server(grading) as server:
        options = ("--grader", "openai/m", "--base-url", server.url, "--concurrency", "2", "--json")
        (found,) = scores(done("score", run, *options, OPENAI_API_KEY=KEY))
        assert scores(done("score", run, *options, OPENAI_API_KEY=KEY)) == [found]
        assert len(server.requests) == 2
    assert (found["metrics"]["grader"]["value"], found["metrics"]["grader"]["n"]) == (0.5, 2)
    assert metrics(run) == found["metrics"]
    assert KEY not in (run / "external.json").read_text()
    again = done("score", run)
    assert again.stderr == ""
    assert "grader" in again.stdout


def test_ctrl_c_keeps_the_grades_that_came(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, freed = threading.Event(), threading.Event()

    def reply(body: dict[str, Any], n: int) -> Reply:
        if n == 2:
            hanging.set()
            freed.wait(60)
        return chat("[True]")

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with openai_server(reply) as server:
        options = ("score", run, "--grader", "openai/m", "--base-url", server.url, "--concurrency", "1")
        with started(*options) as process:
            assert hanging.wait(60)
            process.send_signal(signal.SIGINT)
            assert any("stopping; waiting for 1 call in flight" in line for line in process.stderr)
            freed.set()
            _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "the same command resumes" in said
        assert not (run / "external.json").exists()
        done(*options)
        assert len(server.requests) == 2, "the grade that was under way came home"


def test_predictions_are_scored_graded_and_not_written_beside(tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 3)
    answers = [{"answer": BAIKAL}, {"output": "It is [Lake Tanganyika]."}, {"output": ""}]
    theirs = write(tmp_path / "theirs.jsonl", [{"id": f"q{n}", **answer} for n, answer in enumerate(answers)])
    predictions = (theirs, "--data", questions)
    script = write(tmp_path / "grader.yaml", [{"question": "q1", "reply": "[False]"}, {"reply": "[True]"}])
    before = set(tmp_path.iterdir())
    (found,) = scores(done("score", *predictions, "--json"))
    assert found["correct"]["value"] == pytest.approx(1 / 3)
    assert (found["transcripts"], found["abstained"], found["unread"]) == (3, 0, {"unmarked": 1})
    assert set(tmp_path.iterdir()) == before
    (found,) = scores(done("score", *predictions, "--grader", f"scripted/{script}", "--json"))
    assert found["metrics"]["grader"]["value"] == pytest.approx(1 / 3)
    beside = {path.name for path in set(tmp_path.iterdir()) - before}
    assert beside == {"theirs.jsonl.external.json", "theirs.jsonl.grades.sqlite"}
    assert scores(done("score", *predictions, "--json")) == [found]
