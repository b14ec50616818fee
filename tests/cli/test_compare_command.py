"""``madke compare``: what a reader and a script get, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from madke.tasks import get_task
from tests.data.published import write
from tests.support.cli import madke, refused
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

BAIKAL = "Lake Baikal"


@pytest.fixture
def runs(tmp_path: Path) -> Any:
    """A function that writes run directories: name -> the answers to q0, q1, ..."""

    def made(**answers: Any) -> Any:
        return [write_run(tmp_path / name, *debates(given)) for name, given in answers.items()]

    return made


def debates(answers: Any, **changes: Any) -> Any:
    return [
        transcript(f"q{n}", said=[answer, BAIKAL], consensus=answer == BAIKAL, answer=answer, **changes)
        for n, answer in enumerate(answers)
    ]


def compared(*arguments: Any) -> Any:
    done = madke("compare", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_runs_as_tables_of_all_questions_or_those_that_differ(runs: Any) -> None:
    paths = runs(one=[BAIKAL, "x", BAIKAL, "z"], two=[BAIKAL, "y", "x"])
    done = madke("compare", *paths)
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip()]
    rows = {line.split()[0]: line for line in lines}
    assert rows["q0"].endswith("+ Lake Baikal (1) + Lake Baikal (1) Lake Baikal")
    assert rows["q1"].endswith("- x (1) - y (1) Lake Baikal")
    assert "questions in all runs: 3; shown: 3; only in one: 1" in done.stdout
    assert "one two EM % 3 -33.3 [-86 to +46] 1.000 66.7 33.3 1 0 13" in lines
    assert "No difference found between one and two: one is ahead by 33.3 points of match" in " ".join(lines)
    assert "Unequal cost" not in done.stdout
    narrowed = madke("compare", *paths, "--only-different").stdout
    assert [line.split()[0] for line in narrowed.splitlines() if line.startswith(" q")] == ["q1", "q2"]
    assert "questions in all runs: 3; shown: 2; only in one: 1\n" in narrowed


def test_a_script_gets_all_of_it_as_one_object(runs: Any) -> None:
    found = compared(*runs(one=[BAIKAL, "x", BAIKAL], two=["x", None, "y"]))
    first, second, _ = found["questions"]
    assert (first["id"], first["answers"], second["id"]) == ("q0", [BAIKAL], "q1")
    assert [(of["run"], of["answer"], of["correct"]) for of in first["runs"]] == [
        ("one", BAIKAL, 1.0),
        ("two", "x", 0.0),
    ]
    assert second["runs"][1]["status"] == "abstained"
    tests = {test["metric"]: test for test in found["tests"]}
    assert list(tests) == [*get_task("short_answer").metrics]
    assert (tests["em"]["p"], tests["em"]["p_holm"], tests["em"]["n"]) == (0.5, 0.5, 3)
    assert tests["em"]["discordant"] == {"both": 0, "only_left": 2, "only_right": 0, "neither": 1}
    assert found["scores"]["one"]["correct"]["n"] == 3


def test_predictions_of_another_system_are_an_arm(runs: Any, tmp_path: Path) -> None:
    (one,) = runs(one=[BAIKAL, "x"])
    asked = [{"id": f"q{n}", "question": "Which lake is the deepest?", "golden_answers": [BAIKAL]} for n in range(2)]
    questions = write(tmp_path / "questions.jsonl", asked)
    predictions = write(tmp_path / "other.jsonl", [{"id": f"q{n}", "answer": BAIKAL} for n in range(2)])
    found = compared(one, predictions, "--data", questions, "--task", "short_answer")
    assert {(test["left"], test["right"]) for test in found["tests"]} == {("one", "other.jsonl")}
    assert found["tests"][0]["discordant"]["only_right"] == 1
    assert "needs --data" in refused("compare", one, predictions, "--task", "short_answer")


def test_what_cannot_be_compared(runs: Any) -> None:
    one, two = runs(one=[BAIKAL], two=[BAIKAL])
    write_run(two, *debates([BAIKAL], question="Which river is the longest?"))
    assert "no question is in all of one, two; compare runs over the same questions" in refused("compare", one, two)
    assert "expected two or more runs, found 1" in refused("compare", one)
    assert "expected two or more runs, found 1" in refused("compare", one, one.parent / "." / one.name)
