"""Units of values: each value of a debate has one, and intervals and tests follow it."""

import pytest

from madke.scoring.arms import ArmValues
from madke.scoring.debate_rows import DebateMeasures
from madke.scoring.metrics import GRADER, SHARE, VALUE_UNITS, unit_of
from madke.scoring.paired import paired_test
from tests.scoring.hand_made import RIGHT, WRONG, debate, pool


def test_all_values_of_debates_and_rounds_have_a_unit() -> None:
    debates = [
        debate([WRONG, RIGHT], [RIGHT, RIGHT], selected=[[(0,), ()], [(0,), (0,)]], pool=pool(("wiki", "w", "Baikal"))),
        debate([WRONG, RIGHT], [RIGHT, RIGHT], first_round_given=True, metadata={"wrong_answers": [WRONG]}),
        debate(["a lake"], ["the lake"], answer="the lake", task="translation"),
    ]
    names = {
        name for each in debates for found in (DebateMeasures(each).row, *DebateMeasures(each).rounds) for name in found
    }
    assert len(names) > 20
    assert {name for name in names if unit_of(name) is None} == set()


def arm(name: str, metric: str, values: list[float], *, failed: bool = False) -> ArmValues:
    keys = [(f"q{n}", "?") for n, _ in enumerate(values)]
    held = {key: {0: value} for key, value in zip(keys, values, strict=True)}
    questions = dict.fromkeys([*keys, ("lost", "?")])
    lost = frozenset({("lost", "?")} if failed else ())
    if not failed:
        held["lost", "?"] = {0: 1.0}
    return ArmValues(name=name, values={metric: held}, questions=questions, first_metric="em", metrics=(), failed=lost)


@pytest.mark.parametrize("name", [name for name, unit in VALUE_UNITS.items() if unit != SHARE])
def test_a_count_that_is_always_0_or_1_is_no_rate(name: str) -> None:
    left, right = arm("left", name, [0.0, 1.0, 0.0]), arm("right", name, [1.0, 1.0, 1.0], failed=True)
    found = paired_test(left, right, name)
    assert (found.test, found.discordant, found.if_failed) == ("paired permutation", None, None)
    mean = right.mean(name)
    assert (mean.low, mean.high) == (1.0, 1.0), "the bootstrap of equal values, not Wilson's interval of a rate"


@pytest.mark.parametrize("name", ["oracle", "trapped", "sided_with_A", GRADER, "yes_or_no_of_a_scorer"])
def test_a_share_or_score_that_is_always_0_or_1_is_a_rate(name: str) -> None:
    left, right = arm("left", name, [0.0, 1.0, 0.0]), arm("right", name, [1.0, 1.0, 1.0])
    assert paired_test(left, right, name).test == "McNemar, exact"
    assert right.mean(name).low < 1
