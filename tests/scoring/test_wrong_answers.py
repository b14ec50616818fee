"""Answers that a dataset lists as wrong: adopted, resisted, given up; and the measure of RAMDocs' owners."""

from dataclasses import replace
from typing import Any

import pytest

from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.report.scores import wrong_answers_table
from madke.report.tables import Table
from madke.scoring.debate_rows import row
from madke.scoring.metrics import METRICS
from madke.scoring.rounds import round_rows
from madke.scoring.scores import scores_of
from tests.scoring.hand_made import FAILED, RIGHT, WRONG, debate, pool

LISTED = {"dataset": "ramdocs", "wrong_answers": [WRONG]}
POOL = pool(("own", "0", ""), ("own", "1", ""))


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


def test_an_item_of_a_list_may_be_written_in_another_way() -> None:
    asked = Question(question="When was he born?", answers=("15 May 1885", "1924"))
    assert METRICS["all_golds"]("May 15, 1885; in 1924", asked) == 1
    assert METRICS["all_golds"]("May 16, 1885; in 1924", asked) == 0


def test_only_ramdocs_has_the_measure_and_no_answer_is_wrong() -> None:
    assert row(debate([RIGHT], metadata=LISTED))["all_golds"] == 1
    assert row(debate([None], answer=None, metadata=LISTED))["all_golds"] == 0
    assert "all_golds" not in row(debate([RIGHT], metadata={"wrong_answers": [WRONG]}))


def reading(transcript: Transcript, *reads: Any) -> Transcript:
    """The debate in which, in its last round, each debater read these."""
    *earlier, last = transcript.rounds
    turns = tuple(replace(turn, reads=tuple(read)) for turn, read in zip(last.turns, reads, strict=True))
    return replace(transcript, rounds=(*earlier, replace(last, turns=turns)))


def test_who_is_shown_a_wrong_answer_adopts_or_resists_it_and_who_holds_one_may_give_it_up() -> None:
    before, after = [WRONG, RIGHT, RIGHT, None], [RIGHT, WRONG, RIGHT, FAILED]
    held = reading(debate(before, after, metadata=LISTED, pool=POOL), "BC", "AC", "AB", "A")
    first, last = round_rows(held)
    assert (first["adopted"], first["unmisled"], first["resisted"]) == (1 / 4, 2 / 4, 3 / 4)
    assert "given_up" not in first
    assert last["adopted"] == pytest.approx(1 / 3)
    assert last["resisted"] == 1 / 2  # B and C read A; B took it up
    assert last["given_up"] == 1


def test_nobody_resists_what_nobody_shows() -> None:
    (alone,) = round_rows(debate([RIGHT, RIGHT], metadata=LISTED))  # without passages
    assert "resisted" not in alone
    _, last = round_rows(reading(debate([WRONG, RIGHT], [WRONG, RIGHT], metadata=LISTED, pool=POOL), "", ""))
    assert (last.get("resisted"), last["given_up"]) == (None, 0)
    assert "adopted" not in round_rows(debate([WRONG, RIGHT], pool=POOL))[0]


def test_the_table_has_a_row_for_each_round_and_the_final_answers() -> None:
    debates = [debate([WRONG, RIGHT], [RIGHT, RIGHT], metadata=LISTED, pool=POOL, id_=str(n)) for n in range(4)]
    table = wrong_answers_table({"mad": scores_of(debates), "other": scores_of([debate([RIGHT])])})
    assert isinstance(table, Table)
    texts = [dict(zip(table.columns, (cell.text for cell in row), strict=True)) for row in table.rows]
    assert [(each["run"], each["round"], each["n"]) for each in texts] == [
        ("mad", "1", "4"),
        ("mad", "2", "4"),
        ("mad", "final", "4"),
    ]
    assert [each["adopted %"] for each in texts] == ["50.0", "0.0", "0.0"]
    assert [each["given up %"] for each in texts] == ["-", "100.0", "-"]
    assert texts[2]["all golds %"] == "100.0"
    assert wrong_answers_table({"other": scores_of([debate([RIGHT])])}) is None
