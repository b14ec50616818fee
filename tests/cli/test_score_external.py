"""``madke score --scorer``: what a program outside says of a run's answers, kept while they are the run's answers."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import madke, refused
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

pytestmark = pytest.mark.slow

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


def entry(id_: Any, answer: Any, **changes: Any) -> Any:
    return transcript(id_, said=[BAIKAL, BAIKAL], consensus=True, answer=answer, **changes)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    return write_run(tmp_path / "run", entry("q0", BAIKAL), entry("q1", TANGANYIKA))


@pytest.fixture
def scorer(tmp_path: Path) -> Any:
    """A function that makes ``--scorer`` and its value, of a script's body."""

    def make(name: Any, body: Any) -> Any:
        script = tmp_path / f"{name} scorer.py"
        script.write_text(f"import json, os, sys\nasked = [json.loads(line) for line in sys.stdin]\n{body}")
        return "--scorer", f"{name}={shlex.quote(sys.executable)} {shlex.quote(str(script))}"

    return make


LENGTHS = "for a in asked: print(len(a['candidate']))"


def metrics(run: Any) -> Any:
    return json.loads((run / "metrics.json").read_text())["metrics"]


def files(folder: Any) -> Any:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def done(*args: Any, **env: Any) -> Any:
    finished = madke(*args, **env)
    assert finished.returncode == 0, finished.stderr
    return finished


def test_the_mean_stands_in_table_details_json_and_file(run: Any, scorer: Any) -> None:
    shown = done("score", run, "--details", *scorer("len", LENGTHS))
    assert shown.stderr == ""
    table, _ = shown.stdout.split(f"{run}\n")
    assert "len: on the scorer's scale, not in percent" in table
    assert " 13 (11 to 15) " in table
    (line,) = done("score", run, "--json").stdout.splitlines()
    expected = {"value": 13.0, "low": 11.0, "high": 15.0, "n": 2}
    assert json.loads(line)["metrics"]["len"] == metrics(run)["len"] == expected
    assert metrics(run)["em"]["value"] == 0.5


def test_a_batch_holds_question_answer_and_golds_of_every_answer(tmp_path: Path, scorer: Any) -> None:
    run = write_run(
        tmp_path / "run",
        entry("q1", TANGANYIKA, golds=()),
        entry("q0", BAIKAL, question="Which?", golds=(BAIKAL, "Baikal")),
        entry("abstained", None),
        entry("failed", None, status="failed"),
    )
    seen = tmp_path / "seen.json"
    body = f"json.dump(asked, open({str(seen)!r}, 'x'))\nprint(-0.5)\nprint(0.25)"
    done("score", run, *scorer("comet", body))
    assert json.loads(seen.read_text()) == [
        {"source": "Which?", "candidate": BAIKAL, "references": [BAIKAL, "Baikal"]},
        {"source": "Which lake is the deepest?", "candidate": TANGANYIKA, "references": []},
    ]
    assert (metrics(run)["comet"]["value"], metrics(run)["comet"]["n"]) == (-0.125, 2)
    kept = json.loads((run / "external.json").read_text())["comet"]
    assert kept["scores"] == [{"id": "q0", "repeat": 0, "score": -0.5}, {"id": "q1", "repeat": 0, "score": 0.25}]
    assert kept["command"].endswith("comet scorer.py'")


def test_scores_are_kept_while_the_answers_are_the_same_in_any_order(run: Any, scorer: Any) -> None:
    done("score", run, *scorer("len", LENGTHS), *scorer("two", "for a in asked: print(2)"))
    done("score", run, *scorer("two", "for a in asked: print(3)"))
    write_run(run, entry("q1", TANGANYIKA), entry("q0", BAIKAL), entry("q2", None))
    assert done("score", run).stderr == ""
    assert (metrics(run)["len"]["value"], metrics(run)["two"]["value"]) == (13, 3)


@pytest.mark.parametrize(
    "changed",
    [entry("q1", "Baikal"), entry("q1", None), entry("q1", TANGANYIKA, golds=("x",)), entry("q2", TANGANYIKA)],
)
def test_scores_of_other_answers_are_left_out_with_a_line(run: Any, scorer: Any, changed: Any) -> None:
    done("score", run, *scorer("len", LENGTHS))
    write_run(run, entry("q0", BAIKAL), changed)
    shown = done("score", run)
    assert "external.json: the scores by 'len' are ignored, because the run's answers changed" in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert "len" not in shown.stdout
    assert "len" not in metrics(run)
    assert done("score", run, *scorer("len", LENGTHS)).stderr == ""
    assert "len" in metrics(run)


def test_keys_in_a_command_are_not_kept(run: Any, scorer: Any) -> None:
    option, command = scorer("len", LENGTHS)
    done("score", run, option, f"{command} --token hf-very-secret", HF_TOKEN="hf-very-secret")
    kept = (run / "external.json").read_text()
    assert "--token ***" in kept
    assert "secret" not in kept


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("comet", "--scorer 'comet': expected NAME=COMMAND"),
        ("=cat", "--scorer '=cat': expected NAME=COMMAND"),
        ("a b=cat", "expected NAME=COMMAND with a NAME of letters, digits"),
        ("f1=cat", "f1 is a built-in value; choose another name"),
        ("Rounds=cat", "Rounds is a built-in value; choose another name"),
        ("BLEU=cat", "BLEU is a built-in value"),
        ("grader=cat", "grader is a built-in value"),
        ("comet=", "expected a command line, found an empty string"),
        ("comet='", "No closing quotation"),
        ("comet=no-such-program", "scorer 'no-such-program': cannot be started"),
    ],
)
def test_a_broken_option(run: Any, option: str, said: str) -> None:
    before = files(run)
    assert said in refused("score", run, "--scorer", option)
    assert files(run) == before


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit('no checkpoint')", "ended with status 1; its last line on stderr: 'no checkpoint'"),
        ("print(1)", "printed 1 lines for 2 items"),
        ("print(1); print('nan')", "line 2 of its output is 'nan'"),
    ],
)
def test_a_command_that_fails_leaves_everything_as_it_was(run: Any, scorer: Any, body: str, said: str) -> None:
    done("score", run, *scorer("len", LENGTHS))
    before = files(run)
    assert said in refused("score", run, *scorer("len", body))
    assert files(run) == before
