"""Paired tests: held against published worked examples, named beside each."""

from dataclasses import replace
from typing import Any

import pytest

from madke.core.transcript import Transcript
from madke.scoring.arms import ArmValues, read_arm, restricted_to
from madke.scoring.metrics import GRADER, SHARE, VALUE_UNITS
from madke.scoring.paired import further_questions, holm, paired_test, paired_tests, paired_tests_by_dataset
from tests.support.transcripts import transcript

BAIKAL = "Lake Baikal"


def arm(name: str, values: list[Any], *, datasets: list[str] | None = None, metric: str = "em") -> ArmValues:
    """An arm whose questions q0, q1, ... have these values: a number, a list with one a repeat, or None (failed)."""
    keys = [(f"q{n}", "?") for n, _ in enumerate(values)]
    held = {
        key: dict(enumerate(value if isinstance(value, list) else [value]))
        for key, value in zip(keys, values, strict=True)
        if value is not None
    }
    questions = dict(zip(keys, datasets or [None] * len(keys), strict=True))
    return ArmValues(name=name, values={metric: held}, questions=questions, first_metric=metric, metrics=(metric,))


def answers(both: int, only_left: int, only_right: int, neither: int) -> tuple[list[float], list[float]]:
    left = [1.0] * (both + only_left) + [0.0] * (only_right + neither)
    return left, [1.0] * both + [0.0] * only_left + [1.0] * only_right + [0.0] * neither


def two(*counts: int) -> tuple[ArmValues, ArmValues]:
    left, right = answers(*counts)
    return arm("left", left), arm("right", right)


@pytest.mark.parametrize(
    ("cells", "p"),
    [
        # Agresti (1990), p. 350: approval of a prime minister, asked twice; exact p as R's exact2x2 gives it.
        ((794, 150, 86, 570), 3.716e-05),
        # Fagerland, Lydersen and Laake (2014): hyper-responsiveness before and after transplantation.
        ((1, 1, 7, 12), 0.070313),
        # Fay, "Exact McNemar's test and matching confidence intervals" (vignette of exact2x2).
        ((21, 2, 9, 12), 0.06543),
        # inferr's tests: two discordant cells that are nearly equal.
        ((172, 6, 7, 15), 1.0),
    ],
)
def test_mcnemars_exact_test(cells: tuple[int, ...], p: float) -> None:
    found = paired_test(*two(*cells), "em")
    assert found.p == pytest.approx(p, rel=2e-4)
    assert (found.test, found.n) == ("McNemar, exact", sum(cells))
    counts = found.discordant
    assert (counts.both, counts.only_left, counts.only_right, counts.neither) == cells


def test_the_interval_of_a_paired_difference_of_rates() -> None:
    # Cavo et al. (2012) in Fagerland, Lydersen and Laake (2017), chapter 8: Bonett and Price's interval.
    found = paired_test(*two(59, 16, 6, 80), "em").difference
    assert (found.value, found.low, found.high) == pytest.approx((-0.0621, -0.1195, -0.0032), abs=5e-5)


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        # R 4.5, p.adjust(c(0.001, 0.01, 0.05, 0.1, 0.5, 0.9), "holm").
        ([0.001, 0.01, 0.05, 0.1, 0.5, 0.9], [0.006, 0.05, 0.2, 0.3, 1.0, 1.0]),
        # Four hypotheses, unsorted; the third smallest takes over the second's (Holm, 1979: steps stop there).
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([], []),
    ],
)
def test_holm(ps: list[float], expected: list[float]) -> None:
    assert holm(ps) == pytest.approx(expected)


def test_the_further_questions_that_would_show_a_difference() -> None:
    # By hand: (1.95996 + 0.84162)^2 ((5 + 20) / 100 - 0.15^2) / 0.15^2 = 79.4.
    assert further_questions(paired_test(*two(40, 5, 20, 35), "em")) == 0
    # (1.95996 + 0.84162)^2 ((5 + 10) / 100 - 0.05^2) / 0.05^2 = 463.1.
    assert further_questions(paired_test(*two(40, 5, 10, 45), "em")) == 464 - 100
    never = paired_test(*two(5, 0, 0, 5), "em")
    assert (never.p, never.difference.value, further_questions(never)) == (1.0, 0.0, None)
    assert never.difference.low < 0 < never.difference.high


def test_graded_values_are_permuted_and_have_the_bootstraps_interval() -> None:
    from scipy.stats import ttest_rel

    left, right = ([0.5, 0.2, 0.9, 0.4, 0.0, 0.6, 0.3, 0.8] * 10, [0.7, 0.2, 0.8, 0.9, 0.3, 0.6, 0.5, 0.9] * 10)
    found = paired_test(arm("left", left), arm("right", right), "em")
    student = ttest_rel(right, left)
    interval = student.confidence_interval(0.95)
    assert found.test == "paired permutation"
    assert (found.difference.low, found.difference.high) == pytest.approx((interval.low, interval.high), abs=0.004)
    assert found.difference.value == pytest.approx(0.15)
    assert found.p == pytest.approx(1e-4)
    assert found.discordant is None
    assert found == paired_test(arm("left", left), arm("right", right), "em")


def test_a_few_graded_values_are_permuted() -> None:
    # Fisher (1935), Darwin's maize: in 1,726 of 32,768 ways the sums of 15 pairs differ as much.
    crossed = [188, 96, 168, 176, 153, 172, 177, 163, 146, 173, 186, 168, 177, 184, 96]
    selfed = [139, 163, 160, 160, 147, 149, 149, 122, 132, 144, 130, 144, 102, 124, 144]
    found = paired_test(arm("left", selfed), arm("right", crossed), "em")
    assert found.test == "paired permutation"
    assert found.p == pytest.approx(1726 / 2**15)
    assert found.difference.low < 314 / 15 < found.difference.high
    one = paired_test(arm("left", [0.25]), arm("right", [0.5]), "em")
    assert one.p == 1, "one question proves nothing"


def test_repeats_of_a_question_are_averaged_first() -> None:
    left = arm("left", [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    right = arm("right", [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    found = paired_test(left, right, "em")
    assert (found.n, found.left_value, found.right_value) == (3, 0.5, pytest.approx(5 / 6))
    assert found.test == "paired permutation"


def test_only_shared_questions_count_and_failed_ones_are_counted_apart() -> None:
    left, right = arm("left", [1.0, None, 0.0, 1.0]), arm("right", [1.0, 1.0, None])
    found = paired_test(left, right, "em")
    assert (found.n, found.left_out) == (1, 2)
    assert paired_test(left, right, "f1") is None
    assert paired_test(left, restricted_to(right, []), "em") is None


def failing(name: str, values: list[Any], metric: str = "em") -> ArmValues:
    """An arm whose questions without a value have failed."""
    held = arm(name, values, metric=metric)
    return replace(held, failed=frozenset(held.questions.keys() - held.values[metric].keys()))


def test_a_difference_that_failed_debates_could_undo_is_not_significant() -> None:
    # 25 of 120 failed in the right arm; of the others 21 more are right than in the left one.
    left = [1.0] * 50 + [0.0] * 45 + [1.0] * 10 + [0.0] * 15
    right = [1.0] * 71 + [0.0] * 24 + [None] * 25
    (found,) = paired_tests([(failing("left", left), failing("right", right))])
    assert (found.n, found.left_out) == (95, 25)
    assert found.p_holm < 0.001
    assert found.if_failed == pytest.approx(((71 - 60) / 120, (71 + 25 - 60) / 120))
    assert found.p_if_failed > 0.05
    assert not found.significant
    # Questions that the right arm does not hold failed nowhere.
    (other,) = paired_tests([(arm("left", left), arm("right", right))])
    assert other.if_failed is None
    assert other.significant
    # One question that failed in the left arm undoes nothing: against the right one, it would have been right there.
    left, right = [0.0] * 60 + [None], [1.0] * 40 + [0.0] * 20 + [1.0]
    (found,) = paired_tests([(failing("left", left), failing("right", right))])
    assert found.if_failed == pytest.approx((40 / 61, 41 / 61))
    assert found.significant


def test_tests_within_datasets_are_those_of_statsmodels() -> None:
    # p and corrected p of statsmodels 0.15: mcnemar(exact=True), then multipletests(method="holm") over all four.
    flips = {
        ("b", "nq"): (1, 9, 0.021484375, 0.064453125),
        ("b", "fever"): (8, 2, 0.109375, 0.21875),
        ("c", "nq"): (2, 14, 0.004180908203125, 0.0167236328125),
        ("c", "fever"): (5, 5, 1.0, 1.0),
    }
    datasets = ["nq"] * 40 + ["fever"] * 40

    def pair(other: str) -> tuple[ArmValues, ArmValues]:
        counts = [flips[other, name][:2] for name in ("nq", "fever")]
        (left, right), (more_left, more_right) = (answers(0, *each, 40 - sum(each)) for each in counts)
        return arm("a", left + more_left, datasets=datasets), arm(other, right + more_right, datasets=datasets)

    pairs = [pair("b"), pair("c")]
    found = paired_tests_by_dataset(pairs)
    for test in found:
        *_, p, p_holm = flips[test.right, str(test.dataset)]
        assert (test.n, test.p, test.p_holm) == (40, pytest.approx(p), pytest.approx(p_holm))
    assert len(found) == 4
    assert [(test.right, test.dataset) for test in found if test.significant] == [("c", "nq")]
    # Pooled, the two datasets of the first pair cancel out: 9 questions against 11.
    pooled = paired_tests(pairs)[0]
    assert (pooled.n, pooled.dataset, pooled.p) == (80, None, pytest.approx(0.823803))


def test_different_metrics_are_not_pooled_but_are_one_family_over_datasets() -> None:
    def asked(id_: str, dataset: str, said: str, **more: Any) -> Transcript:
        return transcript(id_, said=[said], consensus=None, answer=said, metadata={"dataset": dataset}, **more)

    def read(name: str, short: str, verdicts: list[str]) -> ArmValues:
        nq = [asked(f"n{n}", "nq", short) for n in range(12)]
        claims = {"task": "claim", "golds": ("SUPPORTS",)}
        return read_arm(name, [*nq, *(asked(f"f{n}", "fever", said, **claims) for n, said in enumerate(verdicts))])

    pair = read("a", "Lake Tanganyika", ["REFUTES"] * 9), read("b", BAIKAL, ["SUPPORTS"] * 6 + ["REFUTES"] * 3)
    assert {"correct", "label_accuracy"} <= pair[0].values.keys()
    assert "correct" not in {test.metric for test in paired_tests([pair])}
    within = {(test.dataset, test.metric): test for test in paired_tests_by_dataset([pair])}
    assert "correct" not in {metric for _, metric in within}
    assert within["nq", "match"].p_holm == pytest.approx(2 * within["nq", "match"].p)
    label = within["fever", "label_accuracy"]
    assert (label.n, label.p, label.p_holm) == (9, pytest.approx(2 / 2**6), pytest.approx(2 / 2**6))
    # Asked for by name, the mixed mean is tested.
    assert [test.metric for test in paired_tests([pair], ["correct"])] == ["correct"]


def always_0_or_1(metric: str) -> tuple[ArmValues, ArmValues]:
    return failing("left", [0.0, 1.0, 0.0, 1.0], metric), failing("right", [1.0, 1.0, 1.0, None], metric)


@pytest.mark.parametrize("name", ["oracle", "trapped", "sided_with_A", GRADER, "yes_or_no_of_a_scorer"])
def test_a_share_or_score_that_is_always_0_or_1_is_a_rate(name: str) -> None:
    left, right = always_0_or_1(name)
    assert paired_test(left, right, name).test == "McNemar, exact"
    assert right.mean(name).low < 1


@pytest.mark.parametrize("name", [name for name, unit in VALUE_UNITS.items() if unit != SHARE])
def test_a_count_that_is_always_0_or_1_is_no_rate(name: str) -> None:
    left, right = always_0_or_1(name)
    found, mean = paired_test(left, right, name), right.mean(name)
    assert (found.test, found.discordant, found.if_failed) == ("paired permutation", None, None)
    assert (mean.low, mean.high) == (1.0, 1.0), "the bootstrap of equal values, not Wilson's interval of a rate"
