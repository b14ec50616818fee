"""Who follows whom, from a first round that was given."""

from typing import Any

import pytest

from madke.core.transcript import Round, Stance, Transcript, Turn
from madke.scoring.debate_rows import DebateMeasures
from tests.support.transcripts import transcript

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


def said(n: int, *answers: Any) -> Round:
    stances = [
        Stance(answer=None, status="failed", error="gone")
        if answer == "failed"
        else Stance(text=str(answer), answer=answer, status="ok" if answer else "unmarked")
        for answer in answers
    ]
    turns = tuple(Turn(agent=f"Debater {k}", stance=stance) for k, stance in enumerate(stances, start=1))
    return Round(n=n, order=tuple(turn.agent for turn in turns), turns=turns)


def debated(given: list[Any], after: list[Any], **changes: Any) -> Transcript:
    fields: dict[str, Any] = {"first_round_given": True, "rounds": (said(1, *given), said(2, *after)), **changes}
    return transcript("q", said=given, consensus=None, answer=RIGHT, **fields)


@pytest.mark.parametrize(
    ("given", "after", "found"),
    [
        ([RIGHT, WRONG], [RIGHT, WRONG], (0, 0, 0)),
        ([RIGHT, WRONG], [WRONG, RIGHT], (1, 0, 1)),
        ([WRONG, RIGHT], [RIGHT, None], (0, 1, 1)),
        ([RIGHT, RIGHT, WRONG], [WRONG, RIGHT, "Loch Ness"], (0.5, 0, 0)),
        ([RIGHT, WRONG, None], [RIGHT, RIGHT, WRONG], (0, 0, 1)),
    ],
)
def test_shares_are_of_the_debaters_with_that_stance(given: list[Any], after: list[Any], found: Any) -> None:
    names = ("right_to_wrong", "right_to_none", "wrong_to_right")
    values = DebateMeasures(debated(given, after)).changes_of_mind()
    assert tuple(values[name] for name in names) == found
    assert values.items() <= DebateMeasures(debated(given, after)).row.items()


def test_a_failed_call_is_no_change_of_mind() -> None:
    assert DebateMeasures(debated([RIGHT, WRONG], ["failed", RIGHT])).changes_of_mind() == {"wrong_to_right": 1}


@pytest.mark.parametrize(
    "changed",
    [
        {"first_round_given": False},
        {"rounds": (said(1, RIGHT, WRONG),)},
        {"rounds": (said(1, RIGHT, RIGHT), said(2, WRONG, RIGHT))},
        {"answers": ()},
    ],
)
def test_other_debates_have_no_such_values(changed: dict[str, Any]) -> None:
    assert DebateMeasures(debated([RIGHT, WRONG], [WRONG, WRONG], **changed)).changes_of_mind() == {}


def test_stances_of_one_kind_follow_nobody() -> None:
    assert DebateMeasures(debated([RIGHT, RIGHT], [WRONG, RIGHT])).changes_of_mind() == {}
    assert DebateMeasures(debated([WRONG, None], [RIGHT, RIGHT])).changes_of_mind() == {}
