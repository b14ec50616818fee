"""What stands after each round: golden vectors of the papers, and what must not count."""

from dataclasses import replace
from typing import Any

import pytest

from madke.core.transcript import Final
from madke.scoring.debate_rows import entropy, log_likelihood, round_rows
from madke.scoring.scores import scores_of
from tests.scoring.hand_made import FAILED, OTHER, RIGHT, WRONG, debate, turn


@pytest.mark.parametrize(
    ("said", "bits"),
    [
        ([RIGHT] * 8 + [WRONG, OTHER], 0.9219),  # Zhang et al., MADC, appendix
        ([RIGHT] * 10, 0.0),
        ([RIGHT] * 5 + [WRONG] * 5, 1.0),
        (["the lake baikal", RIGHT, WRONG, "lake tanganyika"], 1.0),
        ([RIGHT, RIGHT, WRONG, WRONG, None, FAILED], 1.0),
    ],
)
def test_entropy_is_over_groups_of_answers_that_could_be_read(said: list[str], bits: float) -> None:
    (row,) = round_rows(debate(said))
    assert row["entropy"] == pytest.approx(bits, abs=5e-5)
    assert entropy([8, 1, 1]) == pytest.approx(0.9219, abs=5e-5)


@pytest.mark.parametrize(
    ("said", "bits"),
    [
        ([RIGHT] * 9 + [WRONG], -0.152),  # Zhang et al., MADC, appendix
        ([RIGHT] * 10, 0.0),
        ([RIGHT, None], -1.0),
        ([RIGHT, FAILED, RIGHT], 0.0),
        ([WRONG] * 4, -3.0),
        ([None, None], -2.0),
    ],
)
def test_log_likelihood_is_of_the_share_that_is_right_and_clipped_where_nobody_is(said: list[Any], bits: float) -> None:
    (row,) = round_rows(debate(said))
    assert row["log_likelihood"] == pytest.approx(bits, abs=5e-4)
    assert log_likelihood(0, 4) == -3


@pytest.mark.parametrize(
    ("said", "accuracy", "right"),
    [
        ([RIGHT, WRONG, WRONG], 0, 1 / 3),
        ([RIGHT, RIGHT, WRONG], 1, 2 / 3),
        ([WRONG, RIGHT], 0, 1 / 2),  # a tie: the earliest debater's
        ([RIGHT, WRONG], 1, 1 / 2),
        ([None, None, RIGHT], 1, 1 / 3),
        ([FAILED, RIGHT], 1, 1),
        ([None, None], 0, 0),
    ],
)
def test_accuracy_of_a_round_is_that_of_its_majority(said: list[Any], accuracy: int, right: float) -> None:
    (row,) = round_rows(debate(said, answer=WRONG))
    assert (row["accuracy"], row["right"]) == (accuracy, pytest.approx(right))


def test_the_earliest_debater_is_the_first_of_round_1_whoever_speaks_first_later() -> None:
    turned = debate([RIGHT, WRONG], [RIGHT, WRONG])
    second = replace(turned.rounds[1], turns=tuple(reversed(turned.rounds[1].turns)))
    assert [row["accuracy"] for row in round_rows(replace(turned, rounds=(turned.rounds[0], second)))] == [1, 1]


@pytest.mark.parametrize(
    ("said", "cons", "co2"),
    [
        ([RIGHT, "lake baikal"], 1, 1),
        ([WRONG, WRONG], 1, 0),
        ([RIGHT, WRONG], 0, 0),
        ([RIGHT, None], 0, 0),
        ([RIGHT, FAILED], 0, 0),
        ([RIGHT, RIGHT, FAILED], 1, 1),
    ],
)
def test_a_round_is_consistent_if_all_who_spoke_agree(said: list[Any], cons: int, co2: int) -> None:
    (row,) = round_rows(debate(said))
    assert (row["cons"], row["co2"]) == (cons, co2)


@pytest.mark.parametrize(
    ("said", "share"),
    [
        ([RIGHT, RIGHT, WRONG], 2 / 3),
        ([RIGHT, WRONG, OTHER], 1),
        ([RIGHT, "lake baikal"], 0),
        ([RIGHT, RIGHT, None], 0),
        ([RIGHT, WRONG, FAILED], 1),
        ([RIGHT, None], None),
    ],
)
def test_disagreement_is_the_share_of_pairs_with_different_answers(said: list[Any], share: float | None) -> None:
    (row,) = round_rows(debate(said))
    assert row.get("disagreement") == (None if share is None else pytest.approx(share))


def test_each_debater_is_compared_with_itself_one_round_before() -> None:
    rows = round_rows(debate([RIGHT, WRONG, None], [RIGHT, RIGHT, RIGHT], [WRONG, "the Lake Baikal", FAILED]))
    changed = [{name[-1]: value for name, value in row.items() if name.startswith("changed_")} for row in rows]
    assert changed == [{}, {"A": 0, "B": 1}, {"A": 1, "B": 0}]
    assert [row.get("self_disagreement") for row in rows] == [None, 0.5, 0.5]


def test_speaking_in_another_order_is_no_change() -> None:
    before, after = debate([RIGHT, WRONG], [RIGHT, WRONG]).rounds
    after = replace(after, turns=(turn("B", WRONG), turn("A", RIGHT)))
    assert round_rows(debate([RIGHT, WRONG], rounds=(before, after)))[1]["self_disagreement"] == 0


def test_a_debater_alone_agrees_with_nobody_but_can_change() -> None:
    first, second = round_rows(debate([WRONG], [RIGHT]))
    assert set(first) == {"accuracy", "right"}
    assert set(second) == {"accuracy", "right", "self_disagreement", "changed_A"}


def test_without_gold_there_is_agreement_and_nothing_about_being_right() -> None:
    (row,) = round_rows(debate([RIGHT, WRONG], golds=()))
    assert set(row) == {"cons", "entropy", "disagreement"}


def test_degrees_of_a_translation_are_not_right_or_wrong() -> None:
    (row,) = round_rows(debate(["a deep lake", "a lake"], golds=("a deep lake",), task="translation"))
    assert row["accuracy"] == 1
    assert not {"right", "log_likelihood"} & set(row)


def test_a_debate_that_has_ended_keeps_what_it_held_and_changes_no_more() -> None:
    scores = scores_of(
        [
            debate([RIGHT, RIGHT], id_="one round"),
            debate([WRONG, RIGHT], [RIGHT, RIGHT], id_="two"),
            debate([WRONG, OTHER], [WRONG, RIGHT], [RIGHT, RIGHT], id_="three"),
        ]
    )
    found = {name: [value and (value.value, value.n) for value in values] for name, values in scores.by_round.items()}
    third = pytest.approx(1 / 3)
    assert found["accuracy"] == [(third, 3), (pytest.approx(2 / 3), 3), (1, 3)]
    assert found["cons"] == [(third, 3), (pytest.approx(2 / 3), 3), (1, 3)]
    assert found["disagreement"] == [(pytest.approx(2 / 3), 3), (third, 3), (0, 3)]
    assert found["self_disagreement"] == [None, (third, 3), (pytest.approx(1 / 6), 3)]
    assert found["changed_B"] == [None, (0.5, 2), (0, 1)]


def test_an_agent_that_is_satisfied_at_once_does_not_disagree_with_itself() -> None:
    satisfied = [debate([RIGHT], id_=f"satisfied {n}") for n in range(3)]
    scores = scores_of([*satisfied, debate([WRONG], [OTHER], [WRONG], id_="revising")])
    assert [value and value.value for value in scores.by_round["self_disagreement"]] == [None, 0.25, 0.25]


def test_repeats_are_one_question_in_each_round() -> None:
    scores = scores_of([debate([WRONG, WRONG], repeat=0), debate([RIGHT, RIGHT], [RIGHT, RIGHT], repeat=1)])
    assert [(value.value, value.n) for value in scores.by_round["accuracy"]] == [(0.5, 1), (0.5, 1)]


def test_failed_debates_are_in_no_round() -> None:
    failed = debate([WRONG, WRONG], status="failed", answer=None, final=Final(by="majority", error="HTTP 500"))
    scores = scores_of([failed, debate([RIGHT, RIGHT], id_="2")])
    assert [(value.value, value.n) for value in scores.by_round["accuracy"]] == [(1, 1)]
    assert scores_of([failed]).by_round == {}
