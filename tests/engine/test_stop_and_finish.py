"""When a debate ends, and how its answer is taken: every rule through whole debates."""

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Final
from madke.engine.cost import possible_rounds
from madke.engine.ending import STOPS, vote_weight
from madke.models.scripted import ScriptedChat
from tests.support.plain import calls, play, protocol, signed

GONE = Completion(outcome="failed", error="the server is gone")


def stages(model: ScriptedChat, *names: str) -> list[tuple[str, int]]:
    return [(stage, round_n) for stage, _, round_n in calls(model) if stage in names]


def except_for(agent: str, round_n: int, completion: Completion, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Replies in which one debater's call of a round ends otherwise."""

    def reply(request: ChatRequest) -> str | Completion:
        there = (request.purpose.agent, request.purpose.round) == (agent, round_n)
        return completion if there else otherwise(request)

    return reply


# When it stops.


@pytest.mark.parametrize("rule", ["agreement", "agreement_then_judge"])
def test_no_answer_is_no_agreement_and_neither_is_one_survivor(rule: str) -> None:
    transcript, _ = play(signed({"A": "Oslo", "B": "Oslo", "C": None}, judge="[No]"), stop=rule)
    assert transcript.stop_reason == "rounds"
    nobody, _ = play(signed(lambda agent, n: None, judge="[No]"), stop=rule)
    assert nobody.stop_reason == "rounds"
    alone = except_for("B", 1, GONE, except_for("C", 1, GONE, signed(judge="[No]")))
    transcript, _ = play(alone, stop=rule, rounds=3)
    assert len(transcript.rounds) > 1


def test_it_ends_after_the_round_that_used_up_its_tokens() -> None:
    unlimited, _ = play(rounds=4)
    first = sum(used.prompt_tokens + used.completion_tokens for used in play(rounds=1)[0].usage.values())
    for budget, rounds in ((first, 1), (first + 1, 2), (10**6, 4)):
        transcript, _ = play(stop="budget", token_budget=budget, rounds=4)
        assert len(transcript.rounds) == rounds
        assert transcript.stop_reason == ("budget" if rounds < 4 else "rounds")
    assert unlimited.stop_reason == "rounds"


@pytest.mark.parametrize("stop", sorted(STOPS))
def test_a_round_in_which_everybody_failed_ends_the_debate_without_an_answer(stop: str) -> None:
    extra: dict[str, Any] = {"token_budget": 10**6} if stop == "budget" else {}
    answers = signed({"A": "Oslo", "B": "Bern", "C": "Rome"}, judge="[No]", reflect="[No]")

    def reply(request: ChatRequest) -> str | Completion:
        return GONE if request.purpose.round == 2 else answers(request)

    transcript, model = play(reply, stop=stop, finish="summarizer", rounds=4, **extra)
    assert (transcript.status, transcript.stop_reason, transcript.answer) == ("failed", "all_failed", None)
    assert transcript.final.error == "the server is gone"
    assert stages(model, "summarize") == []


@pytest.mark.parametrize("stop", sorted(STOPS))
def test_the_earliest_end_of_a_rule_is_the_fewest_rounds_that_are_planned(stop: str) -> None:
    extra: dict[str, Any] = {"token_budget": 1} if stop == "budget" else {}
    said = signed(judge="[Yes]", reflect="[Yes]")
    transcript, _ = play(said, stop=stop, finish="summarizer", rounds=4, **extra)
    planned = possible_rounds(protocol(stop=stop, finish="summarizer", rounds=4, **extra))
    assert len(transcript.rounds) == planned[0]


# How the answer is taken.


def final(replies: Callable[..., Any], **settings: Any) -> tuple[Final, ScriptedChat]:
    transcript, model = play(replies, **settings)
    return transcript.final, model


@pytest.mark.parametrize(("said", "status"), [("They all agree.", "unmarked"), (GONE, "failed")])
@pytest.mark.parametrize(
    ("finish", "stage"),
    [
        ("summarizer", "summarize"),
        ("agreed_or_summarizer", "summarize"),
        ("judge_extract", "extract"),
        ("judge_pick", "pick"),
    ],
)
def test_a_closing_call_without_a_result_is_never_replaced_by_a_vote(
    finish: str, stage: str, said: str | Completion, status: str
) -> None:
    answers = {"A": "Oslo", "B": "Oslo", "C": "Bern"}
    taken, _ = final(signed(answers, **{stage: said}), finish=finish)
    assert (taken.answer, taken.status) == (None, status)
    assert taken.error == ("the server is gone" if status == "failed" else None)


@pytest.mark.parametrize(
    ("answers", "answer", "tie"),
    [
        ("Oslo Bern Bern", "Bern", False),
        ("Oslo bern Bern", "bern", False),
        ("Oslo Bern Rome", "Oslo", True),
        ("- Bern Oslo", "Bern", True),
        ("- - Oslo", "Oslo", False),
    ],
)
def test_the_majority_under_the_matcher_a_tie_going_to_the_earliest_debater(
    answers: str, answer: str, tie: bool
) -> None:
    said = {agent: None if text == "-" else text for agent, text in zip("ABC", answers.split(), strict=True)}
    for order in ("fixed", "madc", "random"):
        # Earliest means in the cast, whoever was read, or spoke, first.
        talk = {"talk": {"later": "sequential"}, "order": order}
        taken, _ = final(signed(said), finish="majority", **talk)
        assert (taken.answer, taken.tie, taken.rule) == (answer, tie, "tie" if tie else "votes")


def worded(**texts: Any) -> Callable[..., Any]:
    return lambda request: texts[request.purpose.agent]


async def by_length(question: Question, candidates: list[str]) -> list[int]:
    return [len(candidate) for candidate in candidates]


def test_the_estimator_ranks_the_candidates() -> None:
    taken, _ = final(signed({"A": "Oslo", "B": None, "C": "Canberra"}), finish="rerank", score_answers=by_length)
    assert (taken.agent, taken.answer, taken.tie) == ("C", "Canberra", False)
    assert taken.scores == {"A": 4, "C": 8}
    taken, _ = final(signed({"A": "Oslo", "B": "Rome", "C": "Ulm"}), finish="rerank", score_answers=by_length)
    assert (taken.agent, taken.tie) == ("A", True)


def test_an_estimator_is_needed_and_its_failure_is_a_failed_question() -> None:
    with pytest.raises(UserError, match="finish = rerank needs an answer scorer"):
        play(finish="rerank")

    async def broken(question: Question, candidates: list[str]) -> NoReturn:
        raise UserError("the command ended with status 3")

    taken, _ = final(signed(), finish="rerank", score_answers=broken)
    assert (taken.status, taken.answer) == ("failed", None)
    assert "status 3" in taken.error


def test_the_answer_with_the_most_confidence_behind_it() -> None:
    said = worded(A="[Oslo]\nConfidence: 0.5", B="[oslo]\nConfidence: 0.7", C="[Bern]\nConfidence: 1.0")
    taken, _ = final(said, finish="weighted", rounds=1)
    assert (taken.answer, taken.tie) == ("Bern", False)
    assert taken.scores == pytest.approx({"Oslo": 0.1 + 0.3, "Bern": 1.0})
    said = worded(A="[Oslo]", B="[Bern]\nConfidence: 0.6", C="no answer\nConfidence: 1")
    taken, _ = final(said, finish="weighted", rounds=1)
    assert (taken.answer, taken.tie, taken.scores) == ("Oslo", True, pytest.approx({"Oslo": 0.1, "Bern": 0.1}))


@pytest.mark.parametrize(
    ("confidence", "weight"),
    [(None, 0.1), (0, 0.1), (0.6, 0.1), (0.61, 0.3), (0.79, 0.3), (0.8, 0.5), (0.9, 0.8), (0.99, 0.8), (1, 1.0)],
)
def test_stated_confidence_is_recalibrated(confidence: float | None, weight: float) -> None:
    assert vote_weight(confidence) == weight
