"""``reconcile`` against Chen et al.: grouped anonymous views, agreement ends it, confidence weighs the votes."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from tests.support.debates import asked, failing, own_and_others, play, shown

NAMES = ["Debater 1", "Debater 2", "Debater 3"]


def stating(*votes: tuple[str | None, float | None], from_round: int = 1) -> Callable[..., Any]:
    """``(answer, confidence)`` of each debater, from a round on; before, they all differ. None leaves a part out."""

    def reply(request: ChatRequest) -> str:
        n, place = request.purpose.round, NAMES.index(request.purpose.agent)
        answer, confidence = votes[place] if n >= from_round else (f"view {place}", 0.5)
        said = f"Somebody's reasons, number {place}, round {n}."
        said += "" if answer is None else f" The answer is [{answer}]."
        return said + ("" if confidence is None else f"\nConfidence: {confidence}")

    return reply


ALL = [("Lake Baikal", 0.9)] * 3


@pytest.mark.parametrize(("agree_in", "rounds"), [(1, 1), (2, 2), (4, 4), (9, 4)])
def test_a_question_takes_n_times_r_calls_and_at_most_three_discussions(agree_in: int, rounds: int) -> None:
    transcript, model = play("reconcile", stating(*ALL, from_round=agree_in))
    assert (len(transcript.rounds), model.calls) == (rounds, 3 * rounds)
    assert transcript.stop_reason == ("agreement" if agree_in <= 4 else "rounds")
    assert transcript.final.by == "weighted"


def test_agreement_is_the_tasks_matchers() -> None:
    transcript, _ = play("reconcile", stating(("Lake Baikal", 0.9), ("the lake baikal", 0.7), ("Lake Baikal.", 0.1)))
    assert (transcript.stop_reason, transcript.answer, len(transcript.rounds)) == ("agreement", "Lake Baikal", 1)


def test_an_unreadable_answer_is_no_agreement_and_has_no_vote() -> None:
    transcript, _ = play("reconcile", stating(("x", 0.9), ("x", 0.9), (None, 1)))
    assert (transcript.stop_reason, len(transcript.rounds)) == ("rounds", 4)
    assert (transcript.answer, transcript.final.scores) == ("x", {"x": pytest.approx(1.6)})


@pytest.mark.parametrize(
    ("confidence", "weight"),
    [
        (1, 1.0),
        (0.99, 0.8),
        (0.9, 0.8),
        (0.89, 0.5),
        (0.8, 0.5),
        (0.79, 0.3),
        (0.61, 0.3),
        (0.6, 0.1),
        (0, 0.1),
        (None, 0.1),
    ],
)
def test_a_stated_confidence_is_recalibrated(confidence: float | None, weight: float) -> None:
    transcript, _ = play("reconcile", stating(("x", confidence), ("y", 0.5), ("z", 0.5)))
    assert transcript.final.scores["x"] == pytest.approx(weight)
    assert transcript.rounds[-1].turns[0].stance.confidence == confidence


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


def test_without_any_readable_answer_there_is_none() -> None:
    transcript, _ = play("reconcile", stating((None, 1), (None, 1), (None, 1)))
    assert (transcript.status, transcript.answer) == ("abstained", None)


def test_everybody_reads_the_others_of_the_round_before_without_names() -> None:
    transcript, model = play("reconcile", stating(*ALL, from_round=3))
    for entry in transcript.rounds:
        for place, turn in enumerate(entry.turns):
            others = [n for n in range(3) if n != place]
            assert turn.reads == (tuple(NAMES[n] for n in others) if entry.n > 1 else ())
            (request,) = asked(model, agent=turn.agent, round=entry.n)
            prompt = shown(request)
            assert not any(name in prompt for name in NAMES)
            own, theirs = own_and_others(request)
            for n in (1, 2, 3):
                before = n == entry.n - 1
                assert (f"number {place}, round {n}" in own) == before
                assert all((f"number {other}, round {n}" in theirs) == before for other in others)


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


def test_a_stance_without_an_answer_is_shown_after_the_groups() -> None:
    _, model = play("reconcile", stating((None, 0.9), ("y", 0.7), ("z", 0.8)))
    (request,) = asked(model, agent="Debater 3", round=2)
    _, groups = own_and_others(request)
    assert groups.index("number 1, round 1") < groups.index("number 0, round 1")
    assert groups.count("of the others give") == 1


def test_a_failed_debater_is_left_out_and_the_survivors_can_agree() -> None:
    transcript, model = play("reconcile", failing(stating(*ALL), agent="Debater 2"))
    assert (transcript.stop_reason, transcript.degraded) == ("agreement", True)
    assert transcript.final.scores == {"Lake Baikal": pytest.approx(1.6)}
    assert model.calls == 3


def test_one_surviving_debater_agrees_with_nobody() -> None:
    def reply(request: ChatRequest) -> str | None:
        return stating(*ALL)(request) if request.purpose.agent == "Debater 3" else None

    transcript, _ = play("reconcile", reply)
    assert (transcript.stop_reason, len(transcript.rounds)) == ("rounds", 4)


def test_a_pool_can_be_given(pool: KnowledgePool) -> None:
    _, model = play("reconcile", stating(("x", 1), ("y", 1), ("z", 1)), sources=("wiki", "google"), pool=pool)
    assert all("Passage 2 (Deep lakes):" in shown(request) for request in model.requests)


def test_the_confidence_is_asked_for_above_the_last_line() -> None:
    _, model = play("reconcile", stating(("x", 1), ("y", 1), ("z", 1)))
    for request in model.requests:
        prompt = shown(request)
        assert prompt.count('Confidence: P", where P is a number from 0') == 1
        assert prompt.index("Confidence: P") < prompt.index('The last sentence begins with "The answer is"')
