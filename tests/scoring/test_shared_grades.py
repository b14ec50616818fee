"""Grades of several arms and graders: each prompt is paid once, within a limit, and graders are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.report.human_grades import grader_agreement
from madke.scoring.arms import Results, open_results
from madke.scoring.scored import Grader, ask_outside, external_values, graders_of
from tests.scoring.test_grades import answer_in
from tests.support.cli import madke, refused
from tests.support.openai_server import chat, openai_server
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def debates(answers: dict[str, str]) -> list[Transcript]:
    return [transcript(id_, said=[said, said], consensus=True, answer=said) for id_, said in answers.items()]


def arms(folder: Path, **runs: dict[str, str]) -> list[Results]:
    return open_results([write_run(folder / name, *debates(answers)) for name, answers in runs.items()])


def grading(body: dict[str, Any], _: int) -> Any:
    return chat(f"[{answer_in(body) == BAIKAL}]")


def test_an_answer_that_arms_share_is_one_call(tmp_path: Path) -> None:
    one, two = arms(tmp_path, one={"q0": BAIKAL, "q1": TANGANYIKA}, two={"q0": BAIKAL, "q1": BAIKAL})
    with openai_server(grading) as server:
        grader = Grader(model="openai/gpt-4o", base_url=server.url)
        assert ask_outside([one, two], [grader]) == 0
        # The questions have the same text and references, so two answers are two prompts.
        assert len(server.requests) == 2
        assert external_values(two)["grader"] == {("q0", 0): 1.0, ("q1", 0): 1.0}
        assert external_values(one)["grader"] == {("q0", 0): 1.0, ("q1", 0): 0.0}
        ask_outside([one, two], [grader])
        assert len(server.requests) == 2
        ask_outside([two], [Grader(model="openai/other", base_url=server.url)])
        assert len(server.requests) == 3  # another grader has grades of its own


def test_grading_stops_at_the_cost_limit_and_goes_on_with_a_higher_one(tmp_path: Path) -> None:
    answers = {f"q{n}": f"Lake {n}" for n in range(6)}
    (one,) = arms(tmp_path, one=answers)
    (tmp_path / "prices.yaml").write_text("openai/gpt-4o: {prompt: 1000000, completion: 0}\n")
    with openai_server(grading) as server:
        options = ["--grader", "openai/gpt-4o", "--base-url", server.url, "--concurrency", "1"]
        options += ["--prices", str(tmp_path / "prices.yaml")]
        done = madke("score", one.path, *options, "--max-cost", "1")
        assert done.returncode in (1, 2), done.stderr
        assert "--max-cost" in done.stderr or "no grade" in done.stderr
        few = len(server.requests)
        assert 0 < few < 6
        assert madke("score", one.path, *options).returncode == 0
        assert len(server.requests) == 6


def test_a_cost_limit_needs_the_price_of_the_grader(tmp_path: Path) -> None:
    (one,) = arms(tmp_path, one={"q0": BAIKAL})
    assert "--max-cost needs the price" in refused("score", one.path, "--grader", "openai/gpt-4o", "--max-cost", "1")
    assert "--max-cost need --grader" in refused("score", one.path, "--max-cost", "1")


def test_two_graders_are_compared_and_the_first_is_the_score(tmp_path: Path) -> None:
    answers = {"q0": BAIKAL, "q1": TANGANYIKA, "q2": BAIKAL + "!", "q3": TANGANYIKA + "?"}
    (one,) = arms(tmp_path, one=answers)

    def two(body: dict[str, Any], _: int) -> Any:
        right = answer_in(body).startswith(BAIKAL)
        return chat(f"[{right or body['model'] == 'kind'}]")

    with openai_server(two) as server:
        ask_outside([one], graders_of("openai/strict, openai/kind", base_url=server.url))
    found = external_values(one)
    assert [*found] == ["grader", "grader:openai/kind"]
    assert sum(found["grader"].values()) == 2
    # A grader that calls everything right agrees no better than chance.
    assert [*map(str, grader_agreement([one]))] == ["openai/strict and openai/kind, right: kappa 0.00, n = 4"]


@pytest.mark.parametrize("models", ["", "a,", "openai/a,openai/a"])
def test_graders_are_different_models(models: str) -> None:
    with pytest.raises(UserError, match="--grader"):
        graders_of(models)
