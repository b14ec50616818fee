"""Signals and calibrations: the bound holds on synthetic questions, and is refused where it cannot."""

import random
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.engine.deferral import SIGNALS, Calibration, Deferring, binomial_tail, fewest, signals
from madke.runs.spec import deferring_of, level_of
from madke.scoring.arms import open_results
from madke.scoring.gates import calibrate
from madke.tasks import get_task
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

TASK = get_task("short_answer")


def calibration(*points: tuple[float, bool], delta: float = 0.1) -> Calibration:
    """``points``: for each question the value of the signal, and whether the answer is wrong."""
    described: dict[str, Any] = {"run": "r", "variant": "madke", "tasks": ("short_answer",), "models": ("offline",)}
    return Calibration(**described, signal="agreement_last", points=points, delta=delta)


def test_runs_are_calibrated_on_a_signal_that_all_debates_have(tmp_path: Path) -> None:
    debates = [
        transcript(f"q{n}", said=["Lake Baikal", "Lake Baikal" if n % 3 else "x"], consensus=None, answer="Lake Baikal")
        for n in range(20)
    ]
    arms = open_results([write_run(tmp_path / "run", *debates)])
    made = calibrate(arms, "agreement_last")
    assert (made.run, made.tasks, made.signal) == ("run", ("short_answer",), "agreement_last")
    assert made.points == (*[(0.5, False)] * 7, *[(1.0, False)] * 13)
    with pytest.raises(UserError, match="signal 'support': 20 of 20 debates do not have it"):
        calibrate(arms, "support")
    with pytest.raises(UserError, match="unknown signal 'rank'; expected agreement_first"):
        calibrate(arms, "rank")
    few = open_results([write_run(tmp_path / "few", *debates[1:])])
    with pytest.raises(UserError, match="19 questions with an answer"):
        calibrate(few, "agreement_last")


def test_the_tail_of_the_binomial_distribution_is_scipys() -> None:
    from scipy.stats import binom

    for k, n, p in [(0, 45, 0.05), (3, 100, 0.1), (99, 100, 0.3), (100, 100, 0.3)]:
        assert binomial_tail(k, n, p) == pytest.approx(float(binom.cdf(k, n, p)))


def test_too_few_questions_pass_no_threshold() -> None:
    assert fewest(0.05, 0.1) == 45
    assert calibration(*[(1.0, False)] * 44).threshold(0.05) is None
    assert calibration(*[(1.0, False)] * 45).threshold(0.05) == 1.0


def test_the_error_among_acted_answers_is_at_most_the_level_with_the_stated_probability() -> None:
    """Over many calibrations, the true error exceeds the level in at most about delta of them."""
    draw, level, delta, exceeded, acted = random.Random(1), 0.1, 0.1, 0, 0
    # The signal tells something of whether answers are right.
    wrong = [draw.random() < 0.3 for _ in range(20_000)]
    world = [(min(1.0, max(0.0, draw.gauss(0.35 if each else 0.75, 0.2))), each) for each in wrong]
    for _ in range(100):
        least = calibration(*draw.sample(world, 200), delta=delta).threshold(level)
        if least is not None:
            errors = [each for value, each in world if value >= least]
            acted += 1
            exceeded += sum(errors) > level * len(errors)
    assert acted > 80, "the bound is of use"
    assert exceeded <= 100 * delta + 2 * 3  # two standard deviations


SPLIT = transcript("a", said=["Baikal", "Tanganyika"], consensus=False, answer="Baikal")
AGREED = transcript("b", said=["Baikal", "Baikal"], consensus=True, answer="Baikal")


def test_signals_of_a_split_and_of_a_consensus() -> None:
    split, agreed = signals(SPLIT, TASK), signals(AGREED, TASK)
    assert (split["agreement_last"], split["judge"], agreed["agreement_last"], agreed["judge"]) == (0.5, 0, 1, 1)
    assert {*split} <= {*SIGNALS}
    assert signals(transcript("c", said=[None, None], consensus=None, answer=None), TASK) == {}


def test_an_answer_below_the_threshold_is_deferred_with_its_reason() -> None:
    made = calibration(*[(1.0, False)] * 60, *[(0.5, True)] * 20)
    settle = Deferring(level=0.05, calibration=made).settle(TASK)
    assert settle(AGREED) == AGREED
    assert "at most 5 %" in settle(SPLIT).deferral.reason
    assert "agreement_last 0.50" in settle(SPLIT).deferral.reason


def test_a_level_is_a_share() -> None:
    assert (level_of("5%"), level_of(0.05), level_of("0.05")) == (0.05, 0.05, 0.05)
    for wrong in ("5", "0%", "x", "-1%", "1.0", ""):
        with pytest.raises(UserError, match="expected a share"):
            level_of(wrong)


def test_a_level_that_cannot_be_shown_is_refused_before_any_call(tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(calibration(*[(1.0, False)] * 40).model_dump_json(), encoding="utf-8")
    with pytest.raises(UserError, match="40 questions are too few, at least 45 are needed"):
        deferring_of(file, "5%")
    with pytest.raises(UserError, match="need each other"):
        deferring_of(file, None)
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="is not a calibration"):
        deferring_of(file, "5%")
