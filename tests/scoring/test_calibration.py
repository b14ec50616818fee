"""Signals and calibrations: the bound holds on synthetic questions, and is refused where it cannot."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.engine.deferral import SIGNALS, Calibration, Deferring, binomial_tail, fewest, signals, threshold
from madke.runs.spec import deferring_of, level_of
from madke.scoring.calibration import JudgedDebate, evaluated, fitted, judged
from madke.tasks import get_task
from tests.support.transcripts import transcript

TASK = get_task("short_answer")
DESCRIBED: dict[str, Any] = {"run": "r", "variant": "madke", "tasks": ("short_answer",), "models": ("offline",)}


def questions(draw: random.Random, n: int, error: float = 0.3) -> list[JudgedDebate]:
    """Debates whose agreement tells something of whether they are right."""
    found = []
    for k in range(n):
        wrong = draw.random() < error
        agreement = min(1.0, max(0.0, draw.gauss(0.35 if wrong else 0.75, 0.2)))
        noise = draw.random()
        values = {"agreement_last": agreement, "steady": noise, "support": min(1.0, max(0.0, agreement + noise - 0.5))}
        found.append(JudgedDebate(id=f"q{k}", found=values, wrong=wrong, consensus=agreement > 0.5))
    return found


def test_a_signal_that_is_unknown_or_missing_and_too_few_questions_are_refused() -> None:
    found = questions(random.Random(2), 20)
    with pytest.raises(UserError, match="signal 'judge': 20 of 20 debates do not have it"):
        fitted(found, "judge", DESCRIBED)
    with pytest.raises(UserError, match="unknown signal 'rank'; expected agreement_first"):
        fitted(found, "rank", DESCRIBED)
    with pytest.raises(UserError, match="19 questions with an answer"):
        fitted(found[1:], "steady", DESCRIBED)


def test_the_tail_of_the_binomial_distribution_is_scipys() -> None:
    from scipy.stats import binom

    for k, n, p in [(0, 45, 0.05), (3, 100, 0.1), (99, 100, 0.3), (100, 100, 0.3)]:
        assert binomial_tail(k, n, p) == pytest.approx(float(binom.cdf(k, n, p)))


def test_too_few_questions_pass_no_threshold() -> None:
    assert fewest(0.05, 0.1) == 45
    right = [(1.0, False)] * 44
    assert threshold(right, 0.05, 0.1) is None
    assert threshold([*right, (1.0, False)], 0.05, 0.1) == 1.0


def test_the_error_among_acted_answers_is_at_most_the_level_with_the_stated_probability() -> None:
    """Over many calibrations, the true error exceeds the level in at most about delta of them."""
    draw, level, delta, exceeded, acted = random.Random(1), 0.1, 0.1, 0, 0
    world = questions(draw, 20_000)
    for _ in range(100):
        made = fitted(draw.sample(world, 200), "agreement_last", DESCRIBED, delta=delta)
        found = evaluated(made, world, level)
        acted += found.threshold is not None
        exceeded += found.error is not None and found.error.value > level
    assert acted > 80, "the bound is of use"
    assert exceeded <= 100 * delta + 2 * 3  # two standard deviations


def test_signals_of_a_split_and_of_a_consensus() -> None:
    split = signals(transcript("a", said=["Baikal", "Tanganyika"], consensus=False, answer="Baikal"), TASK)
    agreed = signals(transcript("b", said=["Baikal", "Baikal"], consensus=True, answer="Baikal"), TASK)
    assert (split["agreement_last"], split["judge"], agreed["agreement_last"], agreed["judge"]) == (0.5, 0, 1, 1)
    assert {*split} <= {*SIGNALS}
    assert signals(transcript("c", said=[None, None], consensus=None, answer=None), TASK) == {}


def test_an_answer_below_the_threshold_is_deferred_with_its_reason() -> None:
    made = Calibration(
        **DESCRIBED, signal="agreement_last", points=(*[(1.0, False)] * 60, *[(0.5, True)] * 20),
    )  # fmt: skip
    settle = Deferring(level=0.05, calibration=made).settle(TASK)
    split = transcript("a", said=["Baikal", "Tanganyika"], consensus=False, answer="Baikal")
    agreed = transcript("b", said=["Baikal", "Baikal"], consensus=True, answer="Baikal")
    assert settle(agreed) == agreed
    deferred = settle(split)
    assert (deferred.status, deferred.answer) == ("deferred", None)
    assert deferred.deferral is not None
    assert deferred.deferral.answer == "Baikal"
    assert "at most 5 %" in deferred.deferral.reason
    assert "agreement_last 0.50" in deferred.deferral.reason
    assert settle(deferred) == deferred
    assert [each.wrong for each in judged([deferred])] == [False], "its answer still counts for a calibration"


@pytest.mark.parametrize("text", ["5", "0%", "x", "-1%", "1.0", ""])
def test_a_level_is_a_share(text: str) -> None:
    with pytest.raises(UserError, match="expected a share"):
        level_of(text)
    assert (level_of("5%"), level_of(0.05), level_of("0.05")) == (0.05, 0.05, 0.05)


def test_a_level_that_cannot_be_shown_is_refused_before_any_call(tmp_path: Path) -> None:
    made = fitted(questions(random.Random(4), 40), "agreement_last", DESCRIBED)
    file = tmp_path / "calibration.json"
    file.write_text(made.model_dump_json(), encoding="utf-8")
    with pytest.raises(UserError, match="40 questions are too few, at least 45 are needed"):
        deferring_of(file, "5%")
    with pytest.raises(UserError, match="need each other"):
        deferring_of(file, None)
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="is not a calibration"):
        deferring_of(file, "5%")
