"""What stands after each round: golden vectors of the papers, and what must not count."""

from dataclasses import replace
from typing import Any

import pytest

from madke.core.transcript import Final
from madke.scoring.debate_rows import DebateMeasures, entropy, log_likelihood
from madke.scoring.scores import scores_of
from tests.scoring.hand_made import FAILED, OTHER, RIGHT, WRONG, debate, turn


@pytest.mark.parametrize(
    ("said", "found"),
    [
        # Zhang et al., MADC, appendix
        ([RIGHT] * 8 + [WRONG, OTHER], {"entropy": 0.9219}),
        ([RIGHT] * 9 + [WRONG], {"log_likelihood": -0.152}),
        ([RIGHT] * 10, {"entropy": 0, "log_likelihood": 0}),
        ([RIGHT] * 5 + [WRONG] * 5, {"entropy": 1}),
        (["the lake baikal", RIGHT, WRONG, "lake tanganyika"], {"entropy": 1}),
        ([RIGHT, RIGHT, WRONG, WRONG, None, FAILED], {"entropy": 1}),
        ([RIGHT, None], {"log_likelihood": -1, "cons": 0, "disagreement": None}),
        ([WRONG] * 4, {"log_likelihood": -3}),  # nobody is right
        ([None, None], {"log_likelihood": -2, "accuracy": 0, "right": 0}),
        # Accuracy is that of the majority; in a tie, of the earliest debater's answer.
        ([RIGHT, WRONG, WRONG], {"accuracy": 0, "right": 1 / 3}),
        ([RIGHT, RIGHT, WRONG], {"accuracy": 1, "right": 2 / 3, "disagreement": 2 / 3}),
        ([WRONG, RIGHT], {"accuracy": 0, "right": 1 / 2, "cons": 0, "co2": 0}),
        ([RIGHT, WRONG], {"accuracy": 1, "right": 1 / 2, "cons": 0, "co2": 0}),
        ([None, None, RIGHT], {"accuracy": 1, "right": 1 / 3}),
        ([FAILED, RIGHT], {"accuracy": 1, "right": 1, "cons": 0}),
        # A round is consistent if all who spoke agree.
        ([RIGHT, "lake baikal"], {"cons": 1, "co2": 1, "disagreement": 0}),
        ([WRONG, WRONG], {"cons": 1, "co2": 0}),
        ([RIGHT, RIGHT, FAILED], {"cons": 1, "co2": 1, "log_likelihood": 0}),
        ([RIGHT, RIGHT, None], {"cons": 0, "disagreement": 0}),
        ([RIGHT, WRONG, OTHER], {"disagreement": 1}),
        ([RIGHT, WRONG, FAILED], {"disagreement": 1}),
    ],
)
def test_one_round(said: list[Any], found: dict[str, float | None]) -> None:
    (row,) = DebateMeasures(debate(said, answer=WRONG)).rounds
    assert {name: row.get(name) for name in found} == pytest.approx(found, abs=5e-4)


def test_golden_formulas() -> None:
    assert entropy([8, 1, 1]) == pytest.approx(0.9219, abs=5e-5)
    assert log_likelihood(0, 4) == -3


def test_the_earliest_debater_is_the_first_of_round_1_whoever_speaks_first_later() -> None:
    turned = debate([RIGHT, WRONG], [RIGHT, WRONG])
    second = replace(turned.rounds[1], turns=tuple(reversed(turned.rounds[1].turns)))
    assert [row["accuracy"] for row in DebateMeasures(replace(turned, rounds=(turned.rounds[0], second))).rounds] == [
        1,
        1,
    ]


def test_each_debater_is_compared_with_itself_one_round_before() -> None:
    rows = DebateMeasures(
        debate([RIGHT, WRONG, None], [RIGHT, RIGHT, RIGHT], [WRONG, "the Lake Baikal", FAILED])
    ).rounds
    changed = [{name[-1]: value for name, value in row.items() if name.startswith("changed_")} for row in rows]
    assert changed == [{}, {"A": 0, "B": 1}, {"A": 1, "B": 0}]
    assert [row.get("self_disagreement") for row in rows] == [None, 0.5, 0.5]
    before, after = debate([RIGHT, WRONG], [RIGHT, WRONG]).rounds
    after = replace(after, turns=(turn("B", WRONG), turn("A", RIGHT)))  # another order is no change
    assert DebateMeasures(debate([RIGHT, WRONG], rounds=(before, after))).rounds[1]["self_disagreement"] == 0


def test_a_debater_alone_agrees_with_nobody_but_can_change() -> None:
    first, second = DebateMeasures(debate([WRONG], [RIGHT])).rounds
    assert set(first) == {"accuracy", "right"}
    assert set(second) == {"accuracy", "right", "self_disagreement", "changed_A"}


def test_without_gold_and_for_degrees_nothing_is_right_or_wrong() -> None:
    (row,) = DebateMeasures(debate([RIGHT, WRONG], golds=())).rounds
    assert set(row) == {"cons", "entropy", "disagreement"}
    (row,) = DebateMeasures(debate(["a deep lake", "a lake"], golds=("a deep lake",), task="translation")).rounds
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
    # Liang et al., Figure 1, is about all questions: who is satisfied disagrees with itself in 0 further iterations.
    assert found["self_disagreement"] == [None, (third, 3), (pytest.approx(1 / 6), 3)]
    assert found["changed_B"] == [None, (0.5, 2), (0, 1)]


def test_repeats_are_one_question_in_each_round_and_failed_debates_are_in_none() -> None:
    scores = scores_of([debate([WRONG, WRONG], repeat=0), debate([RIGHT, RIGHT], [RIGHT, RIGHT], repeat=1)])
    assert [(value.value, value.n) for value in scores.by_round["accuracy"]] == [(0.5, 1), (0.5, 1)]
    failed = debate([WRONG, WRONG], status="failed", answer=None, final=Final(by="majority", error="HTTP 500"))
    scores = scores_of([failed, debate([RIGHT, RIGHT], id_="2")])
    assert [(value.value, value.n) for value in scores.by_round["accuracy"]] == [(1, 1)]
    assert scores_of([failed]).by_round == {}


def test_an_agent_that_is_satisfied_at_once_does_not_disagree_with_itself() -> None:
    satisfied = [debate([RIGHT], id_=f"satisfied {n}") for n in range(3)]
    scores = scores_of([*satisfied, debate([WRONG], [OTHER], [WRONG], id_="revising")])
    assert [value and value.value for value in scores.by_round["self_disagreement"]] == [None, 0.25, 0.25]
