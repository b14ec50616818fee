"""``madke score --grader``, and the scores of predictions from elsewhere."""

import csv
import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import madke, started
from tests.support.dataset import write_dataset
from tests.support.openai_server import chat, error, openai_server
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

pytestmark = pytest.mark.slow

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


def entry(id_: Any, answer: Any, **changes: Any) -> Any:
    return transcript(id_, said=[BAIKAL, BAIKAL], consensus=True, answer=answer, **changes)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    return write_run(tmp_path / "run", entry("q0", BAIKAL), entry("q1", "Baikal"), entry("q2", None))


@pytest.fixture
def grader(tmp_path: Path) -> Any:
    """``--grader`` and a model that finds everything right but q1's answer."""
    rules = [{"question": "q1", "reply": "Not the same.\n[False]"}, {"reply": "[True]"}]
    (tmp_path / "grader.yaml").write_text(json.dumps(rules))
    return "--grader", f"scripted/{tmp_path / 'grader.yaml'}"


@pytest.fixture
def predictions(tmp_path: Path) -> Any:
    """A file of predictions, and the options that say what it answers."""
    questions, _ = write_dataset(tmp_path, 3)
    file = tmp_path / "theirs.jsonl"
    lines = [
        {"id": "q0", "answer": BAIKAL},
        {"id": "q1", "output": "It is [Lake Tanganyika]."},
        {"id": "q2", "output": ""},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file, "--data", questions


def done(*args: Any, **env: Any) -> Any:
    finished = madke(*args, **env)
    assert finished.returncode == 0, finished.stderr
    return finished


def scores(finished: Any) -> Any:
    return [json.loads(line) for line in finished.stdout.splitlines()]


def test_grades_are_kept_and_shown_without_the_grader(run: Any, grader: Any) -> None:
    graded = done("score", run, *grader, "--json")
    (found,) = scores(graded)
    assert (found["metrics"]["grader"]["value"], found["metrics"]["grader"]["n"]) == (pytest.approx(1 / 3), 3)
    assert json.loads((run / "metrics.json").read_text())["metrics"] == found["metrics"]
    again = done("score", run)
    assert again.stderr == ""
    assert "grader" in again.stdout


def test_the_endpoint_is_asked_once_for_each_answer(run: Any) -> None:
    env = {"OPENAI_API_KEY": "sk-test-of-a-key"}
    with openai_server(chat("[True]")) as server:
        options = ("--grader", "openai/m", "--base-url", server.url, "--concurrency", "2")
        done("score", run, *options, **env)
        done("score", run, *options, **env)
        assert len(server.requests) == 2
    assert "sk-test" not in (run / "external.json").read_text()


def test_calls_that_fail_end_with_status_1_and_are_named(run: Any) -> None:
    with openai_server(
        lambda body, n: (
            error(400, "no thanks") if "<answer>Baikal<" in body["messages"][-1]["content"] else chat("[True]")
        )
    ) as server:
        finished = madke("score", run, "--grader", "openai/m", "--base-url", server.url, OPENAI_API_KEY="sk-test")
    assert finished.returncode == 1
    assert "grader has no score for 1 answers, which are excluded from its mean: 1 x " in finished.stderr
    assert "1 answer has no grade; the same command retries them" in finished.stderr
    assert "grader" in finished.stdout


def test_ctrl_c_keeps_the_grades_that_came(run: Any) -> None:
    hanging, freed = threading.Event(), threading.Event()

    def reply(body: Any, n: Any) -> Any:
        if n == 2:
            hanging.set()
            freed.wait(60)
        return chat("[True]")

    with openai_server(reply) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
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


def test_predictions_are_scored_graded_and_not_written_beside(predictions: Any, grader: Any, tmp_path: Path) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    (found,) = scores(done("score", *predictions, "--json"))
    assert found["correct"]["value"] == pytest.approx(1 / 3)
    assert (found["transcripts"], found["abstained"], found["unread"]) == (3, 0, {"unmarked": 1})
    assert {path.name for path in tmp_path.iterdir()} == before
    (found,) = scores(done("score", *predictions, *grader, "--json"))
    assert found["metrics"]["grader"]["value"] == pytest.approx(1 / 3)
    beside = {path.name for path in tmp_path.iterdir()} - before
    assert beside == {"theirs.jsonl.external.json", "theirs.jsonl.grades.sqlite"}
    (again,) = scores(done("score", *predictions, "--json"))
    assert again == found


def test_tables_as_files(run: Any, tmp_path: Path) -> None:
    table = tmp_path / "scores.csv"
    done("score", run, "--tables", table, "--tables", tmp_path / "scores.tex")
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert "run" in row.values()
    assert r"\begin{tabular}" in (tmp_path / "scores.tex").read_text()


@pytest.fixture
def of_two_datasets(tmp_path: Path) -> Any:
    """Two runs over the same questions: of two datasets, and of none."""

    def debates(answer: Any) -> Any:
        named = [entry(f"{n}", answer if n == "fever" else BAIKAL, metadata={"dataset": n}) for n in ("fever", "nq")]
        return [*named, entry("none", BAIKAL)]

    return write_run(tmp_path / "one", *debates(BAIKAL)), write_run(tmp_path / "two", *debates(TANGANYIKA))


def test_scores_by_dataset_as_json(of_two_datasets: Any) -> None:
    one, two = scores(done("score", *of_two_datasets, "--by-dataset", "--json"))
    assert list(one) == list(two) == ["", "fever", "nq"]
    assert [each["correct"]["value"] for each in two.values()] == [1.0, 0.0, 1.0]
    assert {each["questions"] for each in one.values()} == {1}
