"""``madc`` against Zhang et al.; the orders themselves are tested in ``test_order``."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.question import Question
from madke.engine.variant import load_variant
from madke.tasks import TASKS
from tests.support.debates import asked, own_and_others, play, shown

NAMES = [f"Debater {n}" for n in range(1, 11)]
FIRST = ["Lake Chad"] * 2 + ["Lake Baikal"] * 3 + ["Lake Como"] + ["Lake Geneva"] * 4
"""What the ten hold in round 1: the order of round 2 is Como, Chad, Baikal, Geneva."""


def debating(first: list[str] = FIRST, then: str = "Lake Baikal") -> Callable[..., Any]:
    def reply(request: ChatRequest) -> str:
        n = request.purpose.round
        answer = first[NAMES.index(request.purpose.agent)] if n == 1 else then
        return f"{request.purpose.agent} in round {n}: the answer is ({answer})."

    return reply


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


@pytest.mark.parametrize("task", sorted(set(TASKS) - {"text"}))
def test_every_task_with_short_answers_has_four_examples_of_the_requested_form(task: str) -> None:
    question = Question(id="q", question="Which?", answers=("A",), task=task, choices=("x", "y"))
    variant = load_variant("madc")
    values = {"question": question, "round": 1, "rounds": 2, "persona": "", "knowledge": [], "prepared": {}}
    replies = [message.content for message in variant.render("speak", task, values) if message.role == "assistant"]
    assert [bool(re.search(r" The answer is .+\.\Z", text)) for text in replies] == [True] * 4
