"""What holds between protocols, and what their frozen records cannot hold: odd scores and tied votes.

Calls, prompts and outcomes of each protocol are in ``tests/frozen``.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Stance, Turn
from madke.data import FirstRounds
from madke.models.store import call_key
from tests.support.debates import SENTENCE, play

A, B, C = "Lake Baikal", "Lake Tanganyika", "Lake Chad"
NAMES = ("Debater 1", "Debater 2", "Debater 3")


def answering(*answers: str | None) -> Callable[..., Any]:
    """The answers of Debater 1, 2, ...; None for a text without one."""

    def reply(request: ChatRequest) -> str:
        if request.purpose.agent == "summarizer":
            return baikal(request)
        answer = answers[int(request.purpose.agent.split()[-1]) - 1]
        return "I do not see how." if answer is None else f"The answer is {answer}."

    return reply


def baikal(request: ChatRequest) -> str:
    return "The answer is Lake Baikal, which is the deepest lake of them all."


@pytest.mark.parametrize(
    ("answers", "calls", "reason", "answer"),
    [
        ([A, A], 2, "agreement", A),
        ([A, None, A, A], 4, "agreement", A),
        ([A, B, A, B, C, B, B, A], 8, "rounds", B),
    ],
)
def test_an_adaptive_vote_stops_after_2_or_4_samples_where_three_quarters_agree(
    pool: KnowledgePool, answers: list[str | None], calls: int, reason: str, answer: str
) -> None:
    transcript, model = play("adaptive-vote", answering(*answers), pool=pool)
    assert (model.calls, transcript.stop_reason, transcript.answer) == (calls, reason, answer)


def test_protocols_with_a_common_beginning_share_its_calls(pool: KnowledgePool) -> None:
    answers = answering(A, B, A, B, C, B, B, A)

    def keys(variant: str, **how: Any) -> list[Any]:
        _, model = play(variant, answers, pool=pool, seed=0, **how)
        return [call_key("m", request) for request in model.requests if request.purpose.round == 1]

    _, adaptive = play("adaptive-vote", answers, pool=pool, seed=0)
    vote = keys("self-consistency", settings={"debaters": 8}, sources=("wiki", "google"))
    assert [call_key("m", request) for request in adaptive.requests] == vote
    assert keys("mad-brief") == keys("mad-brief", settings={"debaters": 6, "rounds": 1})[:3]
    assert keys("second-turn") == keys("mad")
    three = replace(pool, passages=pool.passages[:3])
    _, isolate = play("isolate", answers, pool=three)
    _, per_document = play("per-document", answers, pool=three)
    first = [(request.purpose, request.messages) for request in per_document.requests if request.purpose.round == 1]
    assert [(request.purpose, request.messages) for request in isolate.requests] == first


@pytest.mark.parametrize(
    ("votes", "answer", "tie"),
    [
        ([("x", 0.6), ("x", 0.5), ("y", 0.7)], "y", False),
        ([("x", 0.8), ("x", 0.8), ("y", 1)], "x", True),
        ([("y", 1), ("x", 0.8), ("x", 0.8)], "y", True),
        ([("x", None), ("y", None), ("z", None)], "x", True),
        ([(None, 1), ("y", None), ("z", 0.7)], "z", False),
    ],
)
def test_the_answer_with_the_most_weight_wins_and_a_tie_goes_to_the_earliest(
    votes: list[tuple[str | None, float | None]], answer: str, tie: bool
) -> None:
    def reply(request: ChatRequest) -> str:
        held, confidence = votes[NAMES.index(request.purpose.agent)]
        said = "I do not know the answer." if held is None else f"The answer is [{held}]."
        return said if confidence is None else f"{said}\nConfidence: {confidence}"

    transcript, _ = play("reconcile", reply)
    assert (transcript.answer, transcript.final.tie) == (answer, tie)


@pytest.mark.parametrize("scores", [[0.5], [0.5, 0.5, 0.5, math.nan]])
def test_scores_that_do_not_fit_the_candidates_fail_the_question(scores: list[float]) -> None:
    async def wrong(question: Question, candidates: list[str]) -> list[float]:
        return scores

    transcript, _ = play("rerank", baikal, question=SENTENCE, score_answers=wrong)
    assert (transcript.status, transcript.answer) == ("failed", None)
    assert "expected 4 finite scores" in transcript.final.error


def test_without_an_answer_scorer_no_model_is_called() -> None:
    requests: list[ChatRequest] = []
    with pytest.raises(UserError, match="needs an answer scorer"):
        play("rerank", requests.append, question=SENTENCE)
    assert requests == []


def test_an_agent_of_a_later_layer_may_take_an_answer_word_for_word() -> None:
    transcript, _ = play("moa", baikal)
    assert [turn.stance.status for entry in transcript.rounds for turn in entry.turns] == ["ok"] * 7


def first_round(about: str) -> tuple[Turn, ...]:
    return tuple(
        Turn(agent=name, stance=Stance(text=f"{name} on {about}. The answer is {about}.", answer=about))
        for name in NAMES
    )


GIVEN = FirstRounds(rounds={name: {0: first_round(name)} for name in ("lakes", "rivers", "hills")})


def test_strangers_bring_the_stances_of_the_question_before() -> None:
    mixed = GIVEN.reorder("other_question")
    for question, other in (("lakes", "rivers"), ("rivers", "lakes"), ("hills", "rivers")):
        turns = mixed.of(question, 0)
        assert turns[:3] == first_round(question)
        strangers = [(turn.agent, turn.stance.answer) for turn in turns[3:]]
        assert strangers == [("Stranger 1", other), ("Stranger 2", other)]
    fewer = FirstRounds(rounds={name: GIVEN.rounds[name] for name in ("lakes", "rivers")}).reorder("other_question")
    assert fewer.hashes.items() <= mixed.hashes.items()
    with pytest.raises(UserError, match="at least two questions"):
        FirstRounds(rounds={"lakes": GIVEN.rounds["lakes"]}).reorder("other_question")

    with pytest.raises(UserError, match="--first-round"):
        play("mad-noise", baikal, first_round=())
