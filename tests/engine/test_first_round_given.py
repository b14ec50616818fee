"""First rounds from outside: who gave them, who reads them, and what follows."""

from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Stance, Turn
from tests.support.plain import QUESTION, calls, given_turn, play, prompts, read_by, sign, signed

OUTSIDE = (given_turn("X", "Oslo"), given_turn("Y", "Lake Baikal"), given_turn("Z", "Bern"))


def test_nobody_is_asked_for_a_given_round() -> None:
    transcript, model = play(first_round_given=True, turns=OUTSIDE)
    assert calls(model) == [("reply", name, 2) for name in "ABC"]
    assert transcript.first_round_given
    assert transcript.rounds[0].turns == OUTSIDE
    assert transcript.rounds[0].order == ("X", "Y", "Z")
    assert "speak" not in transcript.usage


def test_a_protocol_of_given_stances_needs_them() -> None:
    with pytest.raises(UserError, match="the protocol needs first-round stances"):
        play(first_round_given=True)


def test_agents_from_outside_are_read_by_all_in_the_order_given_and_speak_no_more() -> None:
    transcript, model = play(first_round_given=True, turns=OUTSIDE, rounds=3, sees={"topology": "ring"})
    for name in "ABC":
        assert read_by(model, name, 2) == ["X@1", "Y@1", "Z@1"]
    assert read_by(model, "A", 3) == ["A@2", "B@2", "C@2"]
    assert {turn.agent for entry in transcript.rounds[1:] for turn in entry.turns} == {"A", "B", "C"}
    assert transcript.rounds[1].turns[0].reads == ("X", "Y", "Z")


def test_a_history_keeps_what_agents_from_outside_said() -> None:
    _, model = play(first_round_given=True, turns=OUTSIDE, rounds=3, sees={"peers": "history"})
    assert read_by(model, "A", 3) == ["A@2", "X@1", "Y@1", "Z@1", "B@2", "C@2"]


def test_a_debater_takes_a_stance_given_under_its_name_for_its_own() -> None:
    turns = (given_turn("B", "Bern"), given_turn("A", "Oslo"), given_turn("X"))
    transcript, model = play(first_round_given=True, turns=turns)
    # The cast's order first, then those from outside.
    assert read_by(model, "A", 2) == ["A@1", "B@1", "X@1"]
    assert read_by(model, "C", 2) == ["A@1", "B@1", "X@1"]
    (prompt,) = prompts(model, "reply", 2, "A")
    assert prompt.startswith("own: A@1 [Oslo]")
    assert transcript.rounds[1].order == ("A", "B", "X")


@pytest.mark.parametrize(
    ("peers", "order"), [("latest", "fixed"), ("history", "fixed"), ("latest", {"by": "madc", "score": "per_reader"})]
)
def test_after_a_given_round_debaters_can_speak_in_turn(peers: str, order: dict[str, str] | str) -> None:
    settings: dict[str, Any] = {"talk": {"later": "sequential"}, "sees": {"peers": peers}, "order": order}
    transcript, model = play(first_round_given=True, turns=OUTSIDE, **settings)
    assert [agent for _, agent, _ in calls(model)] == ["A", "B", "C"]
    assert read_by(model, "C", 2) == ["X@1", "Y@1", "Z@1", "A@2", "B@2"]
    assert [turn.agent for turn in transcript.rounds[1].turns] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fixed", ["X", "Y", "Z", "W"]),
        ("truth_first", ["Y", "W", "X", "Z"]),
        ("truth_last", ["X", "Z", "Y", "W"]),
        ("madc", ["X", "Z", "Y", "W"]),
        ({"by": "madc", "score": "per_reader"}, ["X", "Z", "Y", "W"]),
    ],
)
def test_every_order_sorts_given_stances(order: dict[str, str] | str, expected: list[str]) -> None:
    turns = (*OUTSIDE, given_turn("W", "the lake Baikal"))
    transcript, model = play(first_round_given=True, turns=turns, order=order)
    assert read_by(model, "A", 2) == [f"{name}@1" for name in expected]
    assert transcript.oracle == (order in ("truth_first", "truth_last"))


def test_paired_comparisons_of_orders_share_one_first_round() -> None:
    """The first round of one debate, given to debates under other orders, is read by the same debaters."""
    first, _ = play(signed({"A": "Lake Baikal", "B": "Oslo", "C": "Lake Baikal"}))
    turns = first.rounds[0].turns
    seen = {}
    for order in ("fixed", "madc", "truth_first"):
        transcript, model = play(first_round_given=True, turns=turns, order=order)
        assert transcript.rounds[0].turns == turns
        assert model.calls == 3
        seen[order] = read_by(model, "C", 2)
    assert seen == {
        "fixed": ["C@1", "A@1", "B@1"],
        "madc": ["C@1", "B@1", "A@1"],
        "truth_first": ["C@1", "A@1", "B@1"],
    }


def test_a_random_order_of_given_stances_is_seeded() -> None:
    turns = tuple(given_turn(f"S{n}") for n in range(20))
    orders = [
        play(first_round_given=True, turns=turns, order="random", seed=seed)[0].rounds[1].order for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(turn.agent for turn in turns)


def test_a_given_round_is_closed_like_any_other() -> None:
    agreeing = (given_turn("X"), given_turn("Y", "the Lake Baikal"))
    transcript, model = play(first_round_given=True, turns=agreeing, stop="agreement")
    assert (transcript.stop_reason, transcript.answer, model.calls) == ("agreement", "Lake Baikal", 0)

    said = signed(judge="[Yes]", summarize="[Oslo]")
    transcript, model = play(said, first_round_given=True, turns=OUTSIDE, stop="judge", finish="summarizer")
    assert calls(model) == [("judge", "judge", 1), ("summarize", "summarizer", 1)]
    assert (transcript.stop_reason, transcript.answer) == ("consensus", "Oslo")

    transcript, model = play(
        signed(digest="sum"), first_round_given=True, turns=OUTSIDE, talk={"later": "simultaneous_with_summary"}
    )
    assert calls(model)[0] == ("digest", "summarizer", 1)
    assert read_by(model, "A", 2) == []


def test_strangers_of_a_given_round_are_no_stable_debaters_and_scrutinise_nothing() -> None:
    transcript, _ = play(first_round_given=True, turns=OUTSIDE, stop="stability", rounds=4)
    assert (transcript.stop_reason, len(transcript.rounds)) == ("stability", 3)
    transcript, model = play(signed(reflect="[Yes]"), first_round_given=True, turns=OUTSIDE, stop="satisfied", rounds=3)
    assert calls(model)[:3] == [("reply", name, 2) for name in "ABC"]
    assert (transcript.stop_reason, len(transcript.rounds)) == ("satisfied", 2)


def test_given_stances_without_answers_or_with_failures_count_for_nobody() -> None:
    failed = Turn(agent="X", stance=Stance(status="failed", error="the server is gone"))
    turns = (failed, given_turn("Y", None), given_turn("Z", "Lake Baikal"))
    transcript, model = play(first_round_given=True, turns=turns, order="madc")
    assert read_by(model, "A", 2) == ["Y@1", "Z@1"]
    assert transcript.rounds[1].scores == {"X": 0, "Y": 0, "Z": 0}
    nobody, model = play(first_round_given=True, turns=(failed,))
    assert (nobody.status, nobody.stop_reason, nobody.answer, model.calls) == ("failed", "all_failed", None, 0)


def test_one_reader_of_eighty_given_stances() -> None:
    """The threshold experiment's debate: the stances, in the order given, and one reply each."""
    turns = tuple(given_turn(f"S{n}", "Lake Baikal" if n < 40 else "Oslo", sign(f"S{n}", 1, "x")) for n in range(80))
    settings: dict[str, Any] = {"first_round_given": True, "turns": turns, "debaters": 1, "sees": {"own": "none"}}
    transcript, model = play(**settings)
    assert read_by(model, "Debater 1", 2) == [f"S{n}@1" for n in range(80)]
    assert model.calls == 1
    assert transcript.rounds[1].turns[0].stance.stage == "reply"


def test_oracle_orders_of_given_stances_need_golds() -> None:
    question = Question(id="q2", question=QUESTION.question)
    with pytest.raises(UserError, match="order = truth_last needs gold answers, but question 'q2' has none"):
        play(first_round_given=True, turns=OUTSIDE, order="truth_last", question=question)
