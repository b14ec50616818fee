"""Intervals: held against published examples, and against scipy where a special case is one of its own."""

import math
import tracemalloc

import pytest
from scipy.stats import ttest_1samp

from madke.scoring.statistics import between_repeats, clustered, clustered_error, clustered_p, estimate, wilson

SEVEN = [0.2, 0.9, 0.4, 0.4, 0.7, 0.1, 0.55]


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    # Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_newcombe_tabulates_it(hits, n, low, high):
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)
    found = estimate([1.0] * hits + [0.0] * (n - hits))
    assert (found.low, found.high, found.n) == (*wilson(hits, n), n)


@pytest.mark.parametrize("n", [1, 2, 7, 50, 1000])
def test_wilson_is_scipys_for_whole_hits(n):
    from scipy.stats import binomtest

    for hits in range(0, n + 1, max(1, n // 10)):
        theirs = binomtest(hits, n).proportion_ci(0.95, method="wilson")
        assert wilson(hits, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_with_one_question_a_cluster_the_interval_is_that_of_students_t():
    clusters = range(len(SEVEN))
    centred = [value - 0.3 for value in SEVEN]
    student = ttest_1samp(centred, 0)
    found = clustered(centred, clusters)
    assert (found.low, found.high) == pytest.approx(tuple(student.confidence_interval(0.95)))
    assert clustered_p(centred, clusters) == pytest.approx(student.pvalue)


def test_questions_that_repeat_each_other_are_one_question():
    many = [value - 0.3 for value in SEVEN for _ in range(50)]
    clusters = [n for n in range(len(SEVEN)) for _ in range(50)]
    once = clustered([value - 0.3 for value in SEVEN], range(len(SEVEN)))
    found = clustered(many, clusters)
    assert (found.value, found.low, found.high) == pytest.approx((once.value, once.low, once.high))
    assert (found.n, once.n) == (350, 7)


def test_the_clustered_error_worked_by_hand():
    values, clusters = [1.0, 0.5, 0.0, 0.5, 1.0, 1.0], ["a", "a", "b", "b", "c", "c"]
    mean = 4 / 6
    sums = [1.5 - 2 * mean, 0.5 - 2 * mean, 2.0 - 2 * mean]
    by_hand = math.sqrt(sum(each**2 for each in sums) * 3 / 2) / 6
    assert sums == pytest.approx([1 / 6, -5 / 6, 2 / 3])
    assert clustered_error(values, clusters) == pytest.approx(by_hand)


def test_an_estimate_over_several_datasets_is_clustered_and_stays_a_share():
    values = [1.0] * 40 + [0.0] * 40
    pooled = estimate(values, ["hotpotqa"] * 40 + ["fever"] * 20 + ["nq_open"] * 20)
    assert (pooled.value, pooled.low, pooled.high) == (0.5, 0.0, 1.0)
    for too_few in (["fever"] * 80, ["hotpotqa"] * 40 + ["fever"] * 40):
        one = estimate(values, too_few)
        assert (one.low, one.high) == wilson(40, 80)


def test_datasets_with_equal_means_do_not_make_the_mean_certain():
    datasets = ["hotpotqa"] * 500 + ["fever"] * 500 + ["nq_open"] * 500
    rates = estimate(([1.0] * 250 + [0.0] * 250) * 3, datasets)
    assert (rates.low, rates.high) == wilson(750, 1500)
    graded = estimate(SEVEN * 3, ["hotpotqa"] * 7 + ["fever"] * 7 + ["nq_open"] * 7)
    alone = estimate(SEVEN * 3)
    assert (graded.low, graded.high) == pytest.approx((alone.low, alone.high))
    assert graded.low < graded.value - 0.05


def test_memory_of_an_interval_does_not_grow_with_its_resamples():
    values = [n % 97 / 97 for n in range(20_000)]
    estimate(values[:10])
    tracemalloc.start()
    try:
        estimate(values)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_no_values_have_no_estimate_and_equal_ones_no_width():
    assert estimate([]) is None
    found = estimate([0.4, 0.4])
    assert (found.value, found.low, found.high) == (0.4, 0.4, 0.4)


def test_the_bootstrap_is_the_same_every_time_and_close_to_students_t():
    values = SEVEN * 20
    found = estimate(values)
    student = ttest_1samp(values, 0).confidence_interval(0.95)
    assert found == estimate(values)
    assert (found.low, found.high) == pytest.approx((student.low, student.high), abs=0.005)


def test_the_spread_is_over_means_of_repeats_on_the_same_questions():
    questions = [{0: 1.0, 1: 1.0, 2: 0.0}, {0: 0.0, 1: 1.0, 2: 0.0}, {0: 1.0, 1: 0.0}]
    # The third lacks a repeat; the others' means are 0.5, 1, 0.
    found = between_repeats(questions)
    assert (found.repeats, found.mean, found.sd) == (3, 0.5, pytest.approx(0.5))
    # 4.3027 * 0.5 / sqrt(3) either way, and no share lies beyond 1.
    assert (found.low, found.high) == (0.0, 1.0)


def test_the_interval_over_repeats_is_students():
    values = [0.62, 0.58, 0.6, 0.66]
    found = between_repeats([dict(enumerate(values))])
    student = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((student.low, student.high))


@pytest.mark.parametrize("questions", [[], [{0: 1.0}], [{0: 1.0}, {1: 0.0}]])
def test_there_is_no_spread_without_two_repeats_of_some_question(questions):
    assert between_repeats(questions) is None


def test_rates_of_questions_with_repeats_are_no_better_known_than_without():
    # Nine questions always right, and one in two of three repeats.
    values = [1.0] * 9 + [2 / 3]
    found = estimate(values, rate=True)
    assert (found.low, found.high) == (pytest.approx(wilson(sum(values), 10)[0]), 1.0)
    assert found.low < wilson(10, 10)[0]
    assert estimate([2 / 3] * 10, rate=True).low == pytest.approx(wilson(20 / 3, 10)[0])
    # Where the bootstrap is the wider one it stays.
    spread = [0.0, 1.0] * 20 + [0.5]
    assert estimate(spread, rate=True).low <= estimate(spread).low


def test_values_that_are_no_rate_have_no_interval_of_one():
    found = estimate([1.0, 1.0, 1.0], rate=False)
    assert (found.low, found.high) == (1.0, 1.0)


def test_intervals_do_not_depend_on_the_order_in_which_debates_finished():
    from random import Random

    values = [n % 7 / 6 for n in range(60)]
    other = Random(0).sample(values, len(values))
    one, two = estimate(values), estimate(other)
    assert (one.low, one.high) == (two.low, two.high)
