"""Grades by models: what is asked and paid once, what is kept, what a missing grade is, and two graders compared."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.models.store import CallStore
from madke.report.human_grades import grader_agreement
from madke.scoring.arms import Results, open_results
from madke.scoring.scored import (
    NO_GRADE,
    Grader,
    ask_outside,
    external_values,
    graders_of,
    scored_arm,
    scores_by_dataset,
)
from tests.support.cli import madke, refused
from tests.support.openai_server import chat, error, openai_server
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def entry(id_: str, answer: str | None, **changes: Any) -> Transcript:
    fields = {"question": f"Which lake is the deepest, in survey {id_}?", **changes}
    return transcript(id_, said=[BAIKAL, BAIKAL], consensus=True, answer=answer, **fields)


def arm(folder: Path, *entries: Transcript) -> Results:
    (results,) = open_results([write_run(folder, *entries)])
    return results


def script(folder: Path, *replies: dict[str, str]) -> Grader:
    """A grader that needs no endpoint."""
    (folder / "grader.yaml").write_text(json.dumps(replies))
    return Grader(model=f"scripted/{folder / 'grader.yaml'}")


def answer_in(body: dict[str, Any]) -> str:
    """The answer that a request on the wire asks to grade."""
    return re.findall(r"<answer>(.*)</answer>", body["messages"][-1]["content"])[-1]


def only_baikal(body: dict[str, Any], _: int) -> Any:
    return chat(f"[{answer_in(body) == BAIKAL}]")


def test_equal_answers_of_repeats_and_arms_are_one_call_at_temperature_0_and_never_asked_again(tmp_path: Path) -> None:
    entries = [entry("q0", BAIKAL), entry("q0", BAIKAL, repeat=1), entry("q0", TANGANYIKA, repeat=2)]
    one, two = arm(tmp_path / "one", *entries, entry("q1", BAIKAL)), arm(tmp_path / "two", entry("q0", BAIKAL))
    later = arm(tmp_path / "later", entry("q1", BAIKAL))
    with openai_server(only_baikal) as server:
        grader = Grader(model="openai/gpt-4o", base_url=server.url)
        assert ask_outside([one, two], [grader]) == 0
        assert ask_outside([later, one, two], [grader]) == 0
        assert len(server.requests) == 3
        assert {seen.body["temperature"] for seen in server.requests} == {0}
        ask_outside([two], [Grader(model="openai/other", base_url=server.url)])
        assert len(server.requests) == 4, "another grader has grades of its own"
    assert external_values(one) == {"grader": {("q0", 0): 1.0, ("q0", 1): 1.0, ("q0", 2): 0.0, ("q1", 0): 1.0}}
    assert external_values(two) == {"grader": {("q0", 0): 1.0}}
    mean = scored_arm(one)[0].metrics["grader"]
    assert (mean.value, mean.n) == (pytest.approx(5 / 6), 2)
    assert json.loads((one.path / "external.json").read_text())["grader"]["command"] == "openai/gpt-4o"


def test_an_abstained_answer_is_wrong_without_a_call_and_a_failed_question_has_no_grade(tmp_path: Path) -> None:
    entries = [entry("q0", BAIKAL), entry("q1", None), entry("q2", None, status="failed")]
    results = arm(tmp_path / "run", *entries, entry("q3", None, golds=()))
    ask_outside([results], [script(tmp_path, {"reply": "[True]"})])
    assert external_values(results)["grader"] == {("q0", 0): 1.0, ("q1", 0): 0.0}
    with CallStore(results.path / "grades.sqlite") as store:
        assert [call.purpose.question for call in store.calls()] == ["q0"]


def test_an_unreadable_reply_is_no_grade_and_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entries = [entry("q0", BAIKAL), entry("q1", BAIKAL), entry("q2", TANGANYIKA), entry("q3", "x", golds=())]
    results = arm(tmp_path / "run", *entries)
    grader = script(tmp_path, {"reply": "[True or False]", "question": "q1"}, {"reply": "The same.\n[True]"})
    assert ask_outside([results], [grader]) == 0
    with caplog.at_level(logging.WARNING):
        scores, _ = scored_arm(results)
    assert "no score for 2 answers" in caplog.text
    assert f"1 x {NO_GRADE}" in caplog.text
    assert "1 x no reference" in caplog.text
    assert (scores.metrics["grader"].value, scores.metrics["grader"].n) == (1.0, 2)
    assert (scores.ungraded, scores.parse_failures["grade"].value) == (1, pytest.approx(1 / 3))
    graded = scores.debate["co2_judge_grader"]
    assert (graded.value, graded.n) == (1.0, 2)
    (alone,) = scores_by_dataset(results).values()
    assert alone.debate["co2_judge_grader"] == graded


def test_a_failed_call_is_no_grade_and_is_asked_again(tmp_path: Path) -> None:
    results = arm(tmp_path / "run", entry("q0", BAIKAL), entry("q1", TANGANYIKA))
    down = {TANGANYIKA}
    with openai_server(lambda body, n: error(400, "no") if answer_in(body) in down else chat("[True]")) as server:
        grader = Grader(model="openai/m", base_url=server.url)
        assert ask_outside([results], [grader]) == 1
        assert external_values(results)["grader"] == {("q0", 0): 1.0}
        down.clear()
        assert ask_outside([results], [grader]) == 0
        assert external_values(results)["grader"] == {("q0", 0): 1.0, ("q1", 0): 1.0}
        assert len(server.requests) == 3


def test_grades_stay_where_every_call_fails_and_go_with_the_answers(tmp_path: Path) -> None:
    results = arm(tmp_path / "run", entry("q0", BAIKAL))
    ask_outside([results], [script(tmp_path, {"reply": "[True]"})])
    with openai_server(error(401, "no such key")) as server, pytest.raises(UserError, match="graded no answer"):
        ask_outside([results], [Grader(model="openai/m", base_url=server.url)])
    with pytest.raises(UserError, match=NO_GRADE):
        ask_outside([results], [script(tmp_path, {"reply": "True or false?"})])
    assert external_values(results)["grader"] == {("q0", 0): 1.0}
    write_run(results.path, entry("q0", TANGANYIKA))
    assert external_values(results) == {}


def test_grading_stops_at_the_cost_limit_and_goes_on_with_a_higher_one(tmp_path: Path) -> None:
    one = arm(tmp_path / "one", *(entry(f"q{n}", f"Lake {n}") for n in range(6)))
    (tmp_path / "prices.yaml").write_text("openai/gpt-4o: {prompt: 1000000, completion: 0}\n")
    with openai_server(only_baikal) as server:
        options = ["--grader", "openai/gpt-4o", "--base-url", server.url, "--concurrency", "1"]
        options += ["--prices", str(tmp_path / "prices.yaml")]
        done = madke("score", one.path, *options, "--max-cost", "1")
        assert (done.returncode, "for 5 answers, which are excluded from its mean: 5 x --max-cost" in done.stderr) == (
            1,
            True,
        )
        assert 0 < len(server.requests) < 6
        assert madke("score", one.path, *options).returncode == 0
        assert len(server.requests) == 6
    assert "--max-cost needs the price" in refused("score", one.path, "--grader", "openai/other", "--max-cost", "1")
    assert "--max-cost need --grader" in refused("score", one.path, "--max-cost", "1")


def test_two_graders_are_compared_and_the_first_is_the_score(tmp_path: Path) -> None:
    answers = BAIKAL, TANGANYIKA, f"{BAIKAL}!", f"{TANGANYIKA}?"
    one = arm(tmp_path / "one", *(entry(f"q{n}", answer) for n, answer in enumerate(answers)))

    def strict_or_kind(body: dict[str, Any], _: int) -> Any:
        return chat(f"[{answer_in(body).startswith(BAIKAL) or body['model'] == 'kind'}]")

    with openai_server(strict_or_kind) as server:
        graders = ("--grader", "openai/strict, openai/kind", "--base-url", server.url)
        assert "kappa" in madke("score", one.path, *graders).stdout
    found = external_values(one)
    assert [*found] == ["grader", "grader:openai/kind"]
    assert sum(found["grader"].values()) == 2
    # A grader that calls everything right agrees no better than chance.
    assert [*map(str, grader_agreement([one]))] == ["openai/strict and openai/kind, right: kappa 0.00, n = 4"]


@pytest.mark.parametrize("models", ["a,", "openai/a,openai/a"])
def test_graders_are_different_models(models: str) -> None:
    with pytest.raises(UserError, match="--grader"):
        graders_of(models)
