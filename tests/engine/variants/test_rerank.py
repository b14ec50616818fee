"""Reranking, a baseline of Liang et al., 2023, section 4.1: four samples and an answer scorer."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from tests.support.debates import SENTENCE, play

NAMES = [f"Debater {number}" for number in (1, 2, 3, 4)]


class Estimator:
    """Scores candidates by their length, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def __call__(self, question: Question, candidates: Sequence[str]) -> list[float]:
        self.calls.append((question, list(candidates)))
        return [float(len(candidate)) for candidate in candidates]


def sampled(*answers: str) -> Callable[..., Any]:
    return lambda request: f"I would say [{answers[NAMES.index(request.purpose.agent)]}]."


FOUR = sampled("He is late", "He never turns up", "He lets pigeons go", "He never comes")


def test_four_samples_of_one_prompt_and_one_estimate() -> None:
    estimator = Estimator()
    transcript, model = play("rerank", FOUR, question=SENTENCE, score_answers=estimator, seed=3)
    assert model.calls == 4
    assert len({request.messages for request in model.requests}) == 1
    assert len({request.seed for request in model.requests}) == 4
    assert {request.temperature for request in model.requests} == {0.5}
    candidates = ["He is late", "He never turns up", "He lets pigeons go", "He never comes"]
    assert estimator.calls == [(SENTENCE, candidates)]
    assert (transcript.stop_reason, transcript.final.by, transcript.final.rule) == ("rounds", "rerank", "answer_scorer")
    assert (transcript.answer, transcript.final.agent, transcript.final.tie) == (
        "He lets pigeons go",
        "Debater 3",
        False,
    )
    assert transcript.final.scores == dict(zip(NAMES, map(float, map(len, candidates)), strict=True))
    assert [turn.reads for turn in transcript.rounds[0].turns] == [()] * 4


@pytest.mark.parametrize("scores", [[0.5], [0.5, 0.5, 0.5, math.nan]])
def test_scores_that_do_not_fit_the_candidates_fail_the_question(scores: list[float]) -> None:
    async def wrong(question: Question, candidates: Sequence[str]) -> list[float]:
        return scores

    transcript, _ = play("rerank", FOUR, question=SENTENCE, score_answers=wrong)
    assert (transcript.status, transcript.answer) == ("failed", None)
    assert "expected 4 finite scores" in transcript.final.error


def test_without_an_answer_scorer_no_model_is_called() -> None:
    model_calls = []
    with pytest.raises(UserError, match="needs an answer scorer"):
        play("rerank", lambda r: model_calls.append(r), question=SENTENCE)
    assert model_calls == []
