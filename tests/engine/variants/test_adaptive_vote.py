"""``adaptive-vote``: samples in groups, none of which sees another, until enough of them agree."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.engine.deferral import signals
from madke.models.store import call_key
from madke.tasks import TASKS
from tests.support.debates import play

A, B, C = "Lake Baikal", "Lake Tanganyika", "Lake Chad"


def answering(*answers: str | None) -> Callable[..., Any]:
    """The answers of Debater 1, 2, ...; None for a text without one."""

    def reply(request: ChatRequest) -> str:
        answer = answers[int(request.purpose.agent.split()[-1]) - 1]
        return "I do not see how." if answer is None else f"The answer is {answer}."

    return reply


@pytest.mark.parametrize(
    ("answers", "calls", "reason", "answer"),
    [
        ([A, A], 2, "agreement", A),
        ([A, B, A, A], 4, "agreement", A),
        ([B, A, A, A], 4, "agreement", A),
        ([A, None, A, A], 4, "agreement", A),
        ([A, B, A, B, C, B, B, A], 8, "rounds", B),
        ([A, A, None, None], 2, "agreement", A),
        ([None, None, A, A, B, B, B, C], 8, "rounds", B),
    ],
)
def test_it_stops_after_2_or_4_samples_where_three_quarters_agree(
    pool: KnowledgePool, answers: list[str | None], calls: int, reason: str, answer: str
) -> None:
    transcript, model = play("adaptive-vote", answering(*answers), pool=pool)
    assert (model.calls, transcript.stop_reason, transcript.answer) == (calls, reason, answer)
    assert [len(entry.turns) for entry in transcript.rounds] == [2, 2, 4][: len(transcript.rounds)]


def test_the_agreement_is_that_of_all_samples(pool: KnowledgePool) -> None:
    transcript, _ = play("adaptive-vote", answering(A, B, A, A), pool=pool)
    agreement = transcript.agreement
    assert agreement is not None
    assert (agreement.outcome, agreement.by, agreement.same) == ("split", "vote", False)
    supporters = {position.answer: position.supporters for position in agreement.positions}
    assert supporters == {A: ("Debater 1", "Debater 3", "Debater 4"), B: ("Debater 2",)}
    assert agreement.dissent == ("Debater 2",)
    assert signals(transcript, TASKS["short_answer"])["agreement_last"] == 0.75


def test_its_samples_are_the_first_ones_of_self_consistency(pool: KnowledgePool) -> None:
    """Runs that share a call store make them once."""
    answers = (A, B, A, B, C, B, B, A)
    _, adaptive = play("adaptive-vote", answering(*answers), pool=pool, seed=0)
    settings = {"debaters": 8}
    _, vote = play(
        "self-consistency", answering(*answers), pool=pool, seed=0, settings=settings, sources=("wiki", "google")
    )
    assert [call_key("m", request) for request in adaptive.requests] == [
        call_key("m", request) for request in vote.requests
    ]
