"""Grades by a model: what is asked, what is kept, and what a missing grade is."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.models.store import CallStore
from madke.scoring.arms import Results, open_results
from madke.scoring.scored import NO_GRADE, Grader, ask_outside, external_values, scored_arm, scores_by_dataset
from tests.support.openai_server import chat, error, openai_server
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


def entry(id_: str, answer: str | None, **changes: Any) -> Transcript:
    fields = {"question": f"Which lake is the deepest, in survey {id_}?", **changes}
    return transcript(id_, said=[BAIKAL, BAIKAL], consensus=True, answer=answer, **fields)


def script(folder: Path, *rules: dict[str, str]) -> Grader:
    (folder / "grader.yaml").write_text(json.dumps(list(rules)))
    return Grader(model=f"scripted/{folder / 'grader.yaml'}")


def rule(reply: str, **purpose: Any) -> dict[str, str]:
    return {"reply": reply, **purpose}


def arm(folder: Path, *entries: Transcript) -> Results:
    return open_results([write_run(folder / "run", *entries)])[0]


def answer_in(body: dict[str, Any]) -> str:
    """The answer that a request on the wire asks to grade."""
    return re.findall(r"<answer>(.*)</answer>", body["messages"][-1]["content"])[-1]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def test_a_call_is_at_temperature_0_once_for_equal_answers_and_never_again(tmp_path: Path) -> None:
    entries = [entry("q0", BAIKAL), entry("q0", BAIKAL, repeat=1), entry("q0", TANGANYIKA, repeat=2)]
    results = arm(tmp_path, *entries, entry("q1", BAIKAL))
    with openai_server(lambda body, n: chat(f"[{answer_in(body) == BAIKAL}]")) as server:
        grader = Grader(model="openai/gpt-4o", base_url=server.url)
        assert ask_outside([results], [grader]) == 0
        assert len(server.requests) == 3
        assert {seen.body["temperature"] for seen in server.requests} == {0}
        ask_outside([results], [grader])
        assert len(server.requests) == 3
    assert external_values(results) == {"grader": {("q0", 0): 1.0, ("q0", 1): 1.0, ("q0", 2): 0.0, ("q1", 0): 1.0}}
    mean = scored_arm(results)[0].metrics["grader"]
    assert (mean.value, mean.n) == (pytest.approx(5 / 6), 2)
    kept = json.loads((results.path / "external.json").read_text())["grader"]
    assert kept["command"] == "openai/gpt-4o"


def test_an_abstained_answer_is_wrong_without_a_call_and_a_failed_question_has_no_grade(tmp_path: Path) -> None:
    entries = [entry("q0", BAIKAL), entry("q1", None), entry("q2", None, status="failed")]
    results = arm(tmp_path, *entries, entry("q3", None, golds=()))
    ask_outside([results], [script(tmp_path, rule("[True]"))])
    assert external_values(results)["grader"] == {("q0", 0): 1.0, ("q1", 0): 0.0}
    with CallStore(results.path / "grades.sqlite") as store:
        assert [call.purpose.question for call in store.calls()] == ["q0"]


def test_an_unreadable_reply_is_no_grade_and_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    results = arm(tmp_path, entry("q0", BAIKAL), entry("q1", BAIKAL), entry("q2", "x", golds=()))
    grader = script(tmp_path, rule("The same.\n[True]", question="q0"), rule("[True or False]"))
    assert ask_outside([results], [grader]) == 0
    with caplog.at_level(logging.WARNING):
        mean = scored_arm(results)[0].metrics["grader"]
    assert (mean.value, mean.n) == (1.0, 1)
    assert "no score for 2 answers" in caplog.text
    assert f"1 x {NO_GRADE}" in caplog.text
    assert "1 x no reference" in caplog.text


def test_a_failed_call_is_no_grade_and_is_asked_again(tmp_path: Path) -> None:
    results = arm(tmp_path, entry("q0", BAIKAL), entry("q1", TANGANYIKA))
    down = {TANGANYIKA}
    with openai_server(lambda body, n: error(400, "no") if answer_in(body) in down else chat("[True]")) as server:
        grader = Grader(model="openai/m", base_url=server.url)
        assert ask_outside([results], [grader]) == 1
        assert external_values(results)["grader"] == {("q0", 0): 1.0}
        down.clear()
        assert ask_outside([results], [grader]) == 0
        assert external_values(results)["grader"] == {("q0", 0): 1.0, ("q1", 0): 1.0}
        assert len(server.requests) == 3


def test_where_every_call_fails_the_old_grades_stay(tmp_path: Path) -> None:
    results = arm(tmp_path, entry("q0", BAIKAL))
    ask_outside([results], [script(tmp_path, rule("[True]"))])
    with openai_server(error(401, "no such key")) as server, pytest.raises(UserError, match="graded no answer"):
        ask_outside([results], [Grader(model="openai/m", base_url=server.url)])
    with pytest.raises(UserError, match=NO_GRADE):
        ask_outside([results], [script(tmp_path, rule("True or false?"))])
    assert external_values(results)["grader"] == {("q0", 0): 1.0}


def test_grades_of_other_answers_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    results = arm(tmp_path, entry("q0", BAIKAL))
    ask_outside([results], [script(tmp_path, rule("[True]"))])
    write_run(results.path, entry("q0", TANGANYIKA))
    with caplog.at_level(logging.WARNING):
        assert external_values(results) == {}
    assert "score them again with --grader MODEL" in caplog.text


def test_grades_of_predictions_stand_beside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "theirs.jsonl"
    file.write_text('{"id": "q0", "answer": "Baikal"}\n{"id": "q1", "answer": null}\n')
    questions = [Question(id=f"q{n}", question="Which?", answers=(BAIKAL,)) for n in range(2)]
    (results,) = open_results([file], questions)
    ask_outside([results], [script(tmp_path, rule("[True]"))])
    assert {path.name for path in tmp_path.iterdir()} >= {"theirs.jsonl.grades.sqlite", "theirs.jsonl.external.json"}
    assert external_values(results)["grader"] == {("q0", 0): 1.0, ("q1", 0): 0.0}


def test_a_run_is_scored_with_the_graders_co2_and_what_it_lacks(tmp_path: Path) -> None:
    entries = [entry("q0", BAIKAL), entry("q1", BAIKAL), entry("q2", TANGANYIKA)]
    results = arm(tmp_path, *entries)
    ask_outside([results], [script(tmp_path, rule("[True or False]", question="q1"), rule("[True]"))])
    scores = scored_arm(results)[0]
    graded = scores.debate["co2_judge_grader"]
    assert (graded.value, graded.n) == (1.0, 2)
    assert scores.ungraded == 1
    assert scores.parse_failures["grade"].value == pytest.approx(1 / 3)
    (alone,) = scores_by_dataset(results).values()
    assert alone.debate["co2_judge_grader"] == graded
