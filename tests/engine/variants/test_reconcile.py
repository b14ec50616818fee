"""``reconcile`` against Chen et al.: grouped anonymous views, agreement ends it, confidence weighs the votes."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from tests.support.debates import asked, own_and_others, play

NAMES = ["Debater 1", "Debater 2", "Debater 3"]


def stating(*votes: tuple[str | None, float | None], from_round: int = 1) -> Callable[..., Any]:
    """``(answer, confidence)`` of each debater, from a round on; before, they all differ. None states none."""

    def reply(request: ChatRequest) -> str:
        n, place = request.purpose.round, NAMES.index(request.purpose.agent)
        answer, confidence = votes[place] if n >= from_round else (f"view {place}", 0.5)
        said = f"Somebody's reasons, number {place}, round {n}."
        said += " I do not know the answer." if answer is None else f" The answer is [{answer}]."
        return said + ("" if confidence is None else f"\nConfidence: {confidence}")

    return reply


ALL = [("Lake Baikal", 0.9)] * 3


@pytest.mark.parametrize(("agree_in", "rounds"), [(1, 1), (2, 2), (4, 4), (9, 4)])
def test_a_question_takes_n_times_r_calls_and_at_most_three_discussions(agree_in: int, rounds: int) -> None:
    transcript, model = play("reconcile", stating(*ALL, from_round=agree_in))
    assert (len(transcript.rounds), model.calls) == (rounds, 3 * rounds)
    assert transcript.stop_reason == ("agreement" if agree_in <= 4 else "rounds")
    assert transcript.final.by == "weighted"


@pytest.mark.parametrize(
    ("votes", "answer", "tie"),
    [
        ([("x", 0.6), ("x", 0.5), ("y", 0.7)], "y", False),
        ([("x", 0.8), ("x", 0.8), ("y", 0.95)], "x", False),
        ([("x", 0.8), ("x", 0.8), ("y", 1)], "x", True),
        ([("y", 1), ("x", 0.8), ("x", 0.8)], "y", True),
        ([("x", None), ("y", None), ("z", None)], "x", True),
        ([(None, 1), ("y", None), ("z", 0.7)], "z", False),
    ],
)
def test_the_answer_with_the_most_weight_wins_and_a_tie_goes_to_the_earliest(
    votes: list[Any], answer: str, tie: bool
) -> None:
    transcript, _ = play("reconcile", stating(*votes))
    assert (transcript.answer, transcript.final.tie) == (answer, tie)


def test_equal_answers_stand_together_with_their_confidences() -> None:
    _, model = play("reconcile", stating(("x", 0.9), ("y", 0.7), ("X", 0.8)))
    (request,) = asked(model, agent="Debater 2", round=2)
    _, groups = own_and_others(request)
    assert "\n2 of the others give this answer: x\n\nAnother agent wrote:\n> Somebody's reasons, number 0" in groups
    assert "1 of the others" not in groups
    assert ["Confidence: 0.9" in groups, "Confidence: 0.8" in groups] == [True, True]
    (request,) = asked(model, agent="Debater 1", round=2)
    _, groups = own_and_others(request)
    assert groups.index("gives this answer: y\n") < groups.index("gives this answer: X\n")
