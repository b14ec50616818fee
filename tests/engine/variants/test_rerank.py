"""Reranking, a baseline of Liang et al., 2023, section 4.1: four samples and an answer scorer."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pytest

from madke.core.chat import Completion
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from tests.support.debates import SENTENCE, failing, play, shown

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


def test_another_number_of_samples() -> None:
    _, model = play(
        "rerank", lambda r: "[It is so.]", question=SENTENCE, score_answers=Estimator(), settings={"debaters": 7}
    )
    assert model.calls == 7


def test_the_earliest_of_equals_is_taken_and_the_tie_recorded() -> None:
    transcript, _ = play("rerank", sampled("aa", "bbbb", "cccc", "d"), question=SENTENCE, score_answers=Estimator())
    assert (transcript.answer, transcript.final.agent, transcript.final.tie) == ("bbbb", "Debater 2", True)


def test_only_samples_with_an_answer_are_candidates() -> None:
    estimator = Estimator()
    reply = failing(lambda r: "I cannot say." if r.purpose.agent == "Debater 3" else FOUR(r), agent="Debater 2")
    transcript, _ = play("rerank", reply, question=SENTENCE, score_answers=estimator)
    assert estimator.calls == [(SENTENCE, ["He is late", "He never comes"])]
    assert (transcript.answer, transcript.degraded) == ("He never comes", True)


def test_without_a_candidate_nothing_is_estimated() -> None:
    estimator = Estimator()
    transcript, _ = play("rerank", lambda r: "I cannot say.", question=SENTENCE, score_answers=estimator)
    assert (transcript.status, transcript.answer, estimator.calls) == ("abstained", None, [])


def test_with_all_failed_the_question_failed() -> None:
    gone = Completion(outcome="failed", error="the server is gone")
    transcript, _ = play("rerank", lambda r: gone, question=SENTENCE, score_answers=Estimator())
    assert (transcript.status, transcript.stop_reason) == ("failed", "all_failed")


@pytest.mark.parametrize("scores", [[0.5], [0.5, 0.5, 0.5, math.nan]])
def test_scores_that_do_not_fit_the_candidates_fail_the_question(scores: list[float]) -> None:
    async def wrong(question: Question, candidates: Sequence[str]) -> list[float]:
        return scores

    transcript, _ = play("rerank", FOUR, question=SENTENCE, score_answers=wrong)
    assert (transcript.status, transcript.answer) == ("failed", None)
    assert "expected 4 finite scores" in transcript.final.error


def test_an_estimator_that_fails_fails_the_question_not_the_run() -> None:
    async def broken(question: Question, candidates: list[str]) -> NoReturn:
        raise UserError("no such model")

    transcript, _ = play("rerank", FOUR, question=SENTENCE, score_answers=broken)
    assert (transcript.status, transcript.answer) == ("failed", None)
    assert "no such model" in transcript.final.error


def test_without_an_answer_scorer_no_model_is_called() -> None:
    model_calls = []
    with pytest.raises(UserError, match="needs an answer scorer"):
        play("rerank", lambda r: model_calls.append(r), question=SENTENCE)
    assert model_calls == []


def test_it_can_be_given_a_pool(pool: KnowledgePool) -> None:
    _, model = play("rerank", FOUR, sources=("wiki", "google"), pool=pool, score_answers=Estimator())
    assert all("Passage 2 (Deep lakes):" in shown(request) for request in model.requests)
