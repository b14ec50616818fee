"""The confidence sequence of a paired difference, and the verdict that rests on two of them."""

from math import log

import pytest

from madke.scoring.verdict import confidence_sequence, log_capital, verdict_of


def outcomes(call: str, vote: str, debate: str, alone: str = "") -> dict[str, dict[str, float]]:
    """Right (+) and wrong (-) answers of each arm; a space is a question that failed."""
    arms = {"alone": alone or call, "rag": call, "votes": vote, "debate": debate}
    return {
        name: {f"q{n}": float(mark == "+") for n, mark in enumerate(marks) if mark != " "}
        for name, marks in arms.items()
    }


def test_the_interval_is_where_neither_gambler_has_made_40_of_1() -> None:
    found = confidence_sequence([1] * 15 + [-1] * 5 + [0] * 30)
    assert found.value == pytest.approx(0.2)
    assert (found.low, found.high) == (pytest.approx(-0.0599, abs=1e-4), pytest.approx(0.4535, abs=1e-4))
    assert log_capital({1.0: 15, 0.5: 30, 0.0: 5}, (1 + found.low) / 2) == pytest.approx(log(40), abs=1e-4)


def test_yes_needs_both_contrasts() -> None:
    better, call, vote = "+" * 60, "+" * 30 + "-" * 30, "-" * 30 + "+" * 30
    assert verdict_of(outcomes(call, vote, better)).outcome == "yes"
    assert verdict_of(outcomes(call, better, better)).outcome != "yes"
    assert verdict_of(outcomes(better, vote, better)).outcome != "yes"


def test_no_needs_one_that_is_lost_or_below_the_margin() -> None:
    right, wrong = "+" * 100, "-" * 50 + "+" * 50
    lost = verdict_of(outcomes(right, wrong, wrong))
    assert (lost.outcome, lost.deciding.over, lost.deciding.is_worse) == ("no", "rag", True)
    same = verdict_of(outcomes(wrong, right, right))
    assert (same.outcome, same.deciding.over, same.deciding.is_worse) == ("no", "votes", False)
    assert verdict_of(outcomes(wrong, right, right), margin=0.01).outcome == "open"


def test_not_decided_says_how_many_more() -> None:
    call, debate = "+" * 12 + "-" * 18, "-" * 5 + "+" * 13 + "-" * 12
    found = verdict_of(outcomes(call, call, debate))
    assert found.outcome == "open"
    assert [each.over for each in found.open] == ["votes", "rag"]
    again = 1 + (30 + (found.more or 0)) // 30
    assert verdict_of(outcomes(call * again, call * again, debate * again)).outcome != "open"
    assert verdict_of(outcomes(call, call, debate), margin=1 / 30).more is not None
    nothing = verdict_of({"alone": {}, "rag": {}, "votes": {}, "debate": {}})
    assert (nothing.outcome, nothing.more, nothing.vote.gain.n) == ("open", None, 0)


def test_simulated_studies_keep_their_promises() -> None:
    from eval.stopping import Ends, World, simulate

    def ends(vote: float, debate: float) -> Ends:
        return simulate(World(name="", call=vote, vote=vote, debate=debate, alike=0.5), studies=400)

    level, margin, gain = ends(0.6, 0.6), ends(0.6, 0.7), ends(0.55, 0.75)
    assert level.yes <= 0.05
    assert margin.no <= 0.05
    assert gain.questions <= 0.6 * 200


def test_questions_that_failed_in_one_arm_are_left_out() -> None:
    found = verdict_of(outcomes("++--", "+ --", " +++"))
    assert (found.vote.gain.n, found.call.gain.n, found.adds["vote"].n) == (2, 3, 3)
