"""First rounds from outside: who gave them, who reads them, and what follows."""

import pytest

from madke.core.errors import UserError
from madke.core.transcript import Stance, Turn
from tests.support.plain import calls, given_turn, play, read_by

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
    transcript, model = play(first_round_given=True, turns=OUTSIDE, rounds=3, reads={"topology": "ring"})
    for name in "ABC":
        assert read_by(model, name, 2) == ["X@1", "Y@1", "Z@1"]
    assert read_by(model, "A", 3) == ["A@2", "B@2", "C@2"]
    assert {turn.agent for entry in transcript.rounds[1:] for turn in entry.turns} == {"A", "B", "C"}
    assert transcript.rounds[1].turns[0].reads == ("X", "Y", "Z")


def test_given_stances_without_answers_or_with_failures_count_for_nobody() -> None:
    failed = Turn(agent="X", stance=Stance(status="failed", error="the server is gone"))
    turns = (failed, given_turn("Y", None), given_turn("Z", "Lake Baikal"))
    transcript, model = play(first_round_given=True, turns=turns, order="madc")
    assert read_by(model, "A", 2) == ["Y@1", "Z@1"]
    assert transcript.rounds[1].scores == {"X": 0, "Y": 0, "Z": 0}
    nobody, model = play(first_round_given=True, turns=(failed,))
    assert (nobody.status, nobody.stop_reason, nobody.answer, model.calls) == ("failed", "all_failed", None, 0)
