import random

import pytest

from madke.scoring.agreement import agreement, cohen_kappa, one_judge_interval, quadratic, rank_agreement
from madke.scoring.statistics import wilson


def judged(table):
    """Both judges' grades, from a table of counts: rows are the first judge's grades, columns the second's."""
    cells = [(one, other, n) for one, row in enumerate(table) for other, n in enumerate(row)]
    return [one for one, _, n in cells for _ in range(n)], [other for _, other, n in cells for _ in range(n)]


PROPOSALS = [[20, 5], [10, 15]]
"""Fifty grant proposals read by two people, a textbook example: 0.7 observed, 0.5 expected."""
DIAGNOSES = [[75, 1, 4], [5, 4, 1], [0, 0, 10]]
"""Fleiss, Levin and Paik (2003), table 18.1: 100 patients, psychotic, neurotic, organic; 0.89 and 0.66."""
SLIDES = [[22, 2, 2, 0], [5, 7, 14, 0], [0, 2, 36, 0], [0, 1, 17, 10]]
"""Landis and Koch's pathologists on 118 slides, as Agresti (2002, section 10.5) has them: 0.493; 0.78 weighted."""


@pytest.mark.parametrize(("table", "kappa", "digits"), [(PROPOSALS, 0.4, 9), (DIAGNOSES, 0.68, 2), (SLIDES, 0.493, 3)])
def test_kappa_is_that_of_published_tables(table, kappa, digits):
    assert round(cohen_kappa(*judged(table)), digits) == kappa


def test_weighted_kappa_is_that_of_a_published_table():
    assert round(cohen_kappa(*judged(SLIDES), quadratic), 2) == 0.78


def test_both_kappas_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    draw = random.Random(5)
    left = [draw.randint(1, 5) for _ in range(200)]
    right = [min(5, max(1, grade + draw.choice((-1, 0, 0, 1)))) for grade in left]
    assert cohen_kappa(left, right) == pytest.approx(metrics.cohen_kappa_score(left, right))
    expected = metrics.cohen_kappa_score(left, right, weights="quadratic")
    assert cohen_kappa(left, right, quadratic) == pytest.approx(expected)


def test_agreement_has_an_interval_and_a_count():
    found = agreement(*judged(PROPOSALS))
    assert (found.same.value, found.same.n, round(found.kappa, 9)) == (0.7, 50, 0.4)
    assert found.same.low < 0.7 < found.same.high
    assert agreement([1, 5], [2, 5], ordinal=True).kappa > agreement([1, 5], [2, 5]).kappa
    assert agreement([], []) is None


def test_judges_who_always_say_the_same_have_no_kappa():
    assert agreement([1.0, 1.0], [1.0, 1.0]).kappa is None
    assert cohen_kappa([1.0, 0.0], [0.0, 1.0]) == -1.0


def test_rank_agreement_is_kendalls():
    assert rank_agreement([1, 2, 3, 4], [10, 20, 30, 40]) == 1.0
    assert rank_agreement([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert rank_agreement([1, 1], [1, 2]) is None


def test_the_interval_of_one_judge():
    low, high = one_judge_interval([[(1.0, 5.0)]] * 400)
    # Grades of 1 and 5 have a standard deviation of 2, their mean over 400 answers one of 0.1.
    assert (low, high) == pytest.approx((3 - 0.196, 3 + 0.196), abs=0.02)
    # Two repeats of each question halve the variance.
    low, high = one_judge_interval([[(1.0, 5.0), (5.0, 1.0)]] * 400)
    assert (low, high) == pytest.approx((3 - 0.139, 3 + 0.139), abs=0.02)


def test_answers_to_one_question_are_one_observation():
    left, right = [1.0] * 40, [1.0] * 30 + [0.0] * 10
    apart = agreement(left, right)
    together = agreement(left, right, [n // 4 for n in range(40)])
    assert (apart.same.n, together.same.n) == (40, 10)
    assert together.same.value == apart.same.value == 0.75
    assert together.same.high - together.same.low > 1.5 * (apart.same.high - apart.same.low)
    # Of 9 questions with one answer and one with 31 the latter is one of ten.
    uneven = agreement([1.0] * 40, [1.0] * 9 + [0.0] * 31, [*range(9), *[9] * 31])
    assert uneven.same.value == 0.9


def test_the_interval_of_judges_who_are_all_but_of_one_mind_does_not_vanish():
    grades = [[(1.0, 1.0)]] * 9 + [[(1.0, 0.0)]]
    low, high = one_judge_interval(grades)
    assert (low, high) == (pytest.approx(wilson(9.5, 10)[0]), 1.0)
