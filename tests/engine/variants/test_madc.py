"""``madc`` against Zhang et al.; the orders themselves are tested in ``test_order``."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.tasks import TASKS
from madke.variants import load_variant
from tests.support.debates import asked, failing, own_and_others, play, shown

NAMES = [f"Debater {n}" for n in range(1, 11)]
FIRST = ["Lake Chad"] * 2 + ["Lake Baikal"] * 3 + ["Lake Como"] + ["Lake Geneva"] * 4
"""What the ten hold in round 1: the order of round 2 is Como, Chad, Baikal, Geneva."""


def debating(first: list[str] = FIRST, then: str = "Lake Baikal") -> Callable[..., Any]:
    def reply(request: ChatRequest) -> str:
        n = request.purpose.round
        answer = first[NAMES.index(request.purpose.agent)] if n == 1 else then
        return f"{request.purpose.agent} in round {n}: the answer is ({answer})."

    return reply


@pytest.mark.parametrize(("debaters", "rounds"), [(10, 2), (10, 3), (4, 2), (2, 4)])
def test_a_question_takes_n_times_r_calls(debaters: int, rounds: int) -> None:
    settings = {"debaters": debaters, "rounds": rounds}
    transcript, model = play("madc", debating(), settings=settings)
    assert model.calls == debaters * rounds
    assert (transcript.stop_reason, transcript.final.by) == ("rounds", "majority")


def test_without_settings_ten_agents_debate_once() -> None:
    assert play("madc", debating())[1].calls == 20


def test_the_first_round_shows_four_worked_examples_and_nobody_elses_answer() -> None:
    _, model = play("madc", debating())
    for request in asked(model, round=1):
        assert [message.role for message in request.messages].count("assistant") == 4
        assert "Debater" not in shown(request)
    for request in asked(model, round=2):
        assert "assistant" not in [message.role for message in request.messages]


def test_each_agent_reads_all_others_in_one_order_with_the_most_consistent_last() -> None:
    transcript, model = play("madc", debating())
    order = [NAMES[n] for n in (5, 0, 1, 2, 3, 4, 6, 7, 8, 9)]
    second = transcript.rounds[1]
    assert list(second.order) == order
    assert [second.scores[agent] for agent in order] == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    for turn in second.turns:
        assert turn.reads == tuple(agent for agent in order if agent != turn.agent)
        (request,) = asked(model, agent=turn.agent, round=2)
        own, others = own_and_others(request)
        assert f"{turn.agent} in round 1" in own
        said = re.findall(r"^Another agent wrote:\n> (Debater \d+) in round 1", others, re.MULTILINE)
        assert said == list(turn.reads)


def test_the_majority_of_the_last_round_is_the_answer() -> None:
    transcript, _ = play("madc", debating(then="Lake Como"))
    assert (transcript.answer, transcript.final.tie) == ("Lake Como", False)


def test_a_tie_goes_to_the_earliest_agent_and_is_recorded() -> None:
    transcript, _ = play(
        "madc", debating(["x", "y", "y", "x"]), settings={"debaters": 4, "rounds": 1, "order": "fixed"}
    )
    assert (transcript.answer, transcript.final.tie) == ("x", True)


def test_a_failed_agent_is_read_by_nobody_and_speaks_again() -> None:
    transcript, model = play("madc", failing(debating(), agent="Debater 10", round=1))
    assert transcript.degraded
    assert not any("Debater 10" in turn.reads for turn in transcript.rounds[1].turns)
    (request,) = asked(model, agent="Debater 10", round=2)
    assert [message.role for message in request.messages] == ["system", "user"]
    assert transcript.rounds[1].turns[9].stance.answer == "Lake Baikal"


@pytest.mark.parametrize("by", ["fixed", "random", "truth_first", "truth_last"])
def test_another_order_is_one_setting(by: str) -> None:
    transcript, model = play("madc", debating(), settings={"order": by}, seed=1)
    assert model.calls == 20
    assert sorted(transcript.rounds[1].order) == sorted(NAMES)
    assert transcript.oracle == by.startswith("truth")
    right = [NAMES.index(agent) in (2, 3, 4) for agent in transcript.rounds[1].order]
    if by.startswith("truth"):
        assert right == sorted(right, reverse=by == "truth_first")


def test_personas_rotate_and_stand_in_the_prompts() -> None:
    debaters = [{"name": name, "persona": f"You are {name}."} for name in ("a chemist", "a poet")]
    settings = {"debaters": debaters, "order.rotate_personas": True}
    _, model = play("madc", lambda r: "It is (x).", settings=settings)
    shown_to = {
        (r.purpose.agent, r.purpose.round): r.messages[0].content.rpartition("You are ")[2] for r in model.requests
    }
    assert shown_to["a chemist", 1] == shown_to["a poet", 2] == "a chemist."
    assert shown_to["a poet", 1] == shown_to["a chemist", 2] == "a poet."


def test_a_pool_can_be_given(pool: KnowledgePool) -> None:
    _, model = play("madc", debating(), sources=("wiki", "google"), pool=pool)
    assert all("Passage 2 (Deep lakes):" in shown(request) for request in model.requests)


def test_an_answer_may_hold_parentheses_of_its_own() -> None:
    question = Question(id="m2", question="Where does its centre go?", answers=("(2, -2)",), task="math")
    settings = {"debaters": 2, "marker": "parentheses"}
    transcript, model = play("madc", lambda r: "The answer is: ((2,-2)).", question=question, settings=settings)
    assert TASKS["math"].accepts(transcript.answer, question)
    assert '"The answer is (X)."' in shown(model.requests[0])


@pytest.mark.parametrize("task", sorted(set(TASKS) - {"text"}))
def test_every_task_with_short_answers_has_four_examples_of_the_requested_form(task: str) -> None:
    question = Question(id="q", question="Which?", answers=("A",), task=task, choices=("x", "y"))
    variant = load_variant("madc")
    values = {"question": question, "round": 1, "rounds": 2, "persona": "", "knowledge": [], "prepared": {}}
    replies = [message.content for message in variant.render("speak", task, values) if message.role == "assistant"]
    assert [bool(re.search(r" The answer is .+\.\Z", text)) for text in replies] == [True] * 4
