"""What a debate did to the answer."""

from typing import Any

import pytest

from madke.core.question import Question
from madke.core.transcript import Final, Transcript, Verdict
from madke.scoring.debate_rows import DebateMeasures
from madke.scoring.metrics import METRICS
from madke.scoring.scores import scores_of
from tests.scoring.hand_made import FAILED, OTHER, RIGHT, WRONG, debate

FLIPS = ("corrected", "collapsed", "oracle")


@pytest.mark.parametrize(
    ("rounds", "answer", "flips"),
    [
        ([[WRONG, WRONG, RIGHT], [RIGHT, RIGHT, RIGHT]], RIGHT, (1, 0, 1)),
        ([[WRONG, WRONG, OTHER], [RIGHT, RIGHT, RIGHT]], RIGHT, (1, 0, 0)),
        ([[RIGHT, RIGHT, WRONG], [WRONG, WRONG, WRONG]], WRONG, (0, 1, 1)),
        ([[RIGHT, RIGHT, WRONG], [RIGHT, RIGHT, RIGHT]], RIGHT, (0, 0, 1)),
        ([[WRONG, WRONG, WRONG], [WRONG, WRONG, WRONG]], WRONG, (0, 0, 0)),
        # Right only later is no oracle, and the majority that counts is the first one.
        ([[WRONG, WRONG, OTHER], [RIGHT, RIGHT, RIGHT]], WRONG, (0, 0, 0)),
        # Nobody could be read at first; an abstention at the end is wrong.
        ([[None, None, FAILED], [RIGHT, RIGHT, RIGHT]], RIGHT, (1, 0, 0)),
        ([[RIGHT, RIGHT, None], [RIGHT, RIGHT, RIGHT]], None, (0, 1, 1)),
    ],
)
def test_the_final_answer_is_held_against_the_first_round(
    rounds: list[Any], answer: str | None, flips: tuple[int, ...]
) -> None:
    values = DebateMeasures(debate(*rounds, answer=answer)).row
    assert tuple(values[name] for name in FLIPS) == flips


def test_corrections_and_collapses_account_for_the_way_from_the_first_round_to_the_end() -> None:
    scores = scores_of(
        [
            debate([WRONG, RIGHT], [RIGHT, RIGHT], id_="1"),
            debate([RIGHT, RIGHT], [WRONG, WRONG], answer=WRONG, id_="2"),
            debate([WRONG, WRONG], answer=RIGHT, id_="3"),
        ]
    )
    first, found = scores.by_round["accuracy"][0].value, scores.debate
    assert first + found["corrected"].value - found["collapsed"].value == pytest.approx(scores.correct.value)
    assert (found["corrected"].value, found["corrected"].n) == (pytest.approx(2 / 3), 3)


@pytest.mark.parametrize(
    "finished",
    [
        debate([RIGHT]),
        debate([RIGHT, WRONG], golds=()),
        debate(["a lake", "the sea"], answer="a lake", golds=("a lake",), task="translation"),
    ],
)
def test_a_single_turn_an_unknown_answer_and_a_metric_of_degrees_have_no_corrections(finished: Transcript) -> None:
    assert not set(FLIPS) & set(DebateMeasures(finished).row)


def judged(
    *, agent: str | None = None, side: str | None = None, consensus: bool = True, answer: str | None = RIGHT
) -> Transcript:
    final = Final(by="judge", answer=answer, status="ok" if answer else "abstained", agent=agent)
    played = debate([RIGHT, WRONG], answer=answer, final=final)
    (entry,) = played.rounds
    verdict = Verdict(consensus=consensus, side=side)
    rounds = (type(entry)(n=1, order=(), turns=entry.turns, verdict=verdict),)
    return debate([RIGHT, WRONG], answer=answer, final=final, rounds=rounds)


def sides(finished: Transcript) -> dict[str, Any]:
    return {
        name: value
        for name, value in DebateMeasures(finished).row.items()
        if name.startswith(("sided_with_", "judge_tie"))
    }


@pytest.mark.parametrize(
    ("finished", "found"),
    [
        (judged(agent="B"), (0, 1, 0)),
        (judged(side="A"), (1, 0, 0)),  # settled, and the answer extracted in a call of its own
        (judged(), (0, 0, 1)),
        (judged(side="A", consensus=False), (0, 0, 1)),  # leaning to one side is not settling
    ],
)
def test_a_judge_who_takes_the_answer_sides_with_one_debater_or_none(
    finished: Transcript, found: tuple[int, ...]
) -> None:
    assert sides(finished) == dict(zip(("sided_with_A", "sided_with_B", "judge_tie"), found, strict=True))


def test_a_judge_who_could_not_be_read_is_on_no_side_and_makes_no_tie() -> None:
    assert sides(judged(answer=None)) == {}
    assert sides(debate([RIGHT, WRONG])) == {}


LISTED = {"wrong_answers": [WRONG, OTHER]}


@pytest.mark.parametrize(
    ("answer", "trapped"),
    [
        ("the lake tanganyika", 1),
        (RIGHT, 0),
        ("Lake Superior", 0),  # wrong, but no trap
        (None, 0),
    ],
)
def test_a_listed_wrong_answer_is_a_trap(answer: str | None, trapped: int) -> None:
    assert DebateMeasures(debate([WRONG, RIGHT], answer=answer, metadata=LISTED)).row["trapped"] == trapped


@pytest.mark.parametrize("metadata", [{}, {"wrong_answers": []}, {"wrong_answers": "Lake Tanganyika"}])
def test_without_a_list_there_is_no_trap(metadata: dict[str, Any]) -> None:
    assert "trapped" not in DebateMeasures(debate([WRONG, WRONG], answer=WRONG, metadata=metadata)).row


RAMDOCS = {"dataset": "ramdocs", "wrong_answers": [WRONG]}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("American football; ice hockey", 1),
        ("He played ice hockey and American football.", 1),
        ("Ice hockey", 0),  # one of two
        ("American football, ice hockey, basketball", 0),  # with a wrong one
        ("American football; ice hockey; a kind of basketball", 0),
        ("Rugby", 0),
    ],
)
def test_an_answer_names_all_golds_and_no_wrong_one(answer: str, right: int) -> None:
    asked = Question(
        question="Which sport is he known for?",
        answers=("American football", "Ice hockey"),
        metadata={"wrong_answers": ["Basketball", "football", "Ice Hockey"]},  # one within a gold, one that is a gold
    )
    assert METRICS["all_golds"](answer, asked) == right
    dated = Question(question="When was he born?", answers=("15 May 1885", "1924"))
    assert METRICS["all_golds"]("May 15, 1885; in 1924", dated) == 1
    assert METRICS["all_golds"]("May 16, 1885; in 1924", dated) == 0


def test_only_ramdocs_has_the_measure_and_no_answer_is_wrong() -> None:
    assert DebateMeasures(debate([RIGHT], metadata=RAMDOCS)).row["all_golds"] == 1
    assert DebateMeasures(debate([None], answer=None, metadata=RAMDOCS)).row["all_golds"] == 0
    assert "all_golds" not in DebateMeasures(debate([RIGHT], metadata={"wrong_answers": [WRONG]})).row


def test_what_is_accepted_as_right_is_no_trap() -> None:
    assert DebateMeasures(debate([RIGHT, RIGHT], metadata={"wrong_answers": [RIGHT, WRONG]})).row["trapped"] == 0
