"""When a debate ends, and how its answer is taken: every rule through whole debates."""

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Final
from madke.engine.cost import possible_rounds
from madke.engine.ending import FINISHES, STOPS, vote_weight
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import FINISH_RULES, STOP_RULES
from madke.llm.scripted import ScriptedChat
from tests.support.plain import calls, play, prompts, protocol, signed, tokens

GONE = Completion(outcome="failed", error="the server is gone")
ANSWERS = {1: "Oslo Bern Rome", 2: "Oslo Oslo Rome", 3: "oslo Oslo Oslo", 4: "Oslo Oslo Oslo"}


def nearing(agent: str, round_n: int) -> str:
    """Debaters who come together: all different, two of three, then all the same."""
    return dict(zip("ABC", ANSWERS[round_n].split(), strict=True))[agent]


def stages(model: ScriptedChat, *names: str) -> list[tuple[str, int]]:
    return [(stage, round_n) for stage, _, round_n in calls(model) if stage in names]


def except_for(agent: str, round_n: int, completion: Completion, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Replies in which one debater's call of a round ends otherwise."""

    def reply(request: ChatRequest) -> str | Completion:
        there = (request.purpose.agent, request.purpose.round) == (agent, round_n)
        return completion if there else otherwise(request)

    return reply


def test_every_rule_that_a_protocol_can_name_exists() -> None:
    fields = Protocol.model_fields
    assert set(STOPS) == set(STOP_RULES) == set(fields["stop"].annotation.__args__)
    assert set(FINISHES) == set(FINISH_RULES) == set(fields["finish"].annotation.__args__)


# When it stops.


def test_never_plays_every_round_whatever_is_said() -> None:
    transcript, model = play(stop="never", rounds=3)
    assert (transcript.stop_reason, len(transcript.rounds), model.calls) == ("rounds", 3, 9)


@pytest.mark.parametrize(
    ("settled_in", "rounds", "reason"), [(1, 1, "consensus"), (3, 3, "consensus"), (9, 3, "rounds")]
)
def test_the_judge_ends_it_when_it_finds_it_settled(settled_in: int, rounds: int, reason: str) -> None:
    said = signed(judge=lambda purpose: "[Yes]" if purpose.round >= settled_in else "[No]")
    transcript, model = play(said, stop="judge", rounds=3)
    assert (transcript.stop_reason, len(transcript.rounds)) == (reason, rounds)
    assert stages(model, "judge") == [("judge", n + 1) for n in range(rounds)]
    assert transcript.consensus == (reason == "consensus")


@pytest.mark.parametrize("said", ["Perhaps.", "[Yes or No]", "", GONE])
def test_a_verdict_that_cannot_be_read_or_failed_ends_nothing(said: str | Completion) -> None:
    transcript, _ = play(signed(judge=said), stop="judge", rounds=3)
    assert (transcript.stop_reason, len(transcript.rounds), transcript.consensus) == ("rounds", 3, None)
    assert transcript.degraded == (said is GONE)
    assert transcript.rounds[0].verdict.error == ("the server is gone" if said is GONE else None)


def test_one_survivor_is_not_judged() -> None:
    said = except_for("B", 1, GONE, except_for("C", 1, GONE, signed(judge="[Yes]")))
    transcript, model = play(said, stop="judge")
    assert transcript.rounds[0].verdict.rule == "too_few"
    assert stages(model, "judge") == [("judge", 2)]


def test_the_judge_is_asked_about_texts_whether_or_not_they_were_parsed() -> None:
    transcript, model = play(signed({"A": "Oslo", "B": None, "C": None}, judge="[No]"), stop="judge", rounds=1)
    assert stages(model, "judge") == [("judge", 1)]
    assert transcript.rounds[0].verdict.consensus is False


def test_agreement_under_the_matcher_ends_it() -> None:
    transcript, model = play(signed(nearing), stop="agreement", rounds=4)
    assert (transcript.stop_reason, len(transcript.rounds), model.calls) == ("agreement", 3, 9)


@pytest.mark.parametrize("rule", ["agreement", "agreement_then_judge"])
def test_no_answer_is_no_agreement_and_neither_is_one_survivor(rule: str) -> None:
    transcript, _ = play(signed({"A": "Oslo", "B": "Oslo", "C": None}, judge="[No]"), stop=rule)
    assert transcript.stop_reason == "rounds"
    nobody, _ = play(signed(lambda agent, n: None, judge="[No]"), stop=rule)
    assert nobody.stop_reason == "rounds"
    alone = except_for("B", 1, GONE, except_for("C", 1, GONE, signed(judge="[No]")))
    transcript, _ = play(alone, stop=rule, rounds=3)
    assert len(transcript.rounds) > 1


def test_the_rest_may_agree_though_one_debater_failed() -> None:
    transcript, _ = play(except_for("B", 1, GONE, signed("Oslo")), stop="agreement")
    assert (transcript.stop_reason, len(transcript.rounds), transcript.degraded) == ("agreement", 1, True)


def test_the_judge_is_asked_only_where_the_matcher_sees_no_agreement() -> None:
    settings: dict[str, Any] = {"stop": "agreement_then_judge", "rounds": 4}
    transcript, model = play(signed(nearing, judge="[No]"), **settings)
    assert (transcript.stop_reason, stages(model, "judge")) == ("agreement", [("judge", 1), ("judge", 2)])
    transcript, model = play(signed(nearing, judge="[Yes]"), **settings)
    assert (transcript.stop_reason, len(transcript.rounds)) == ("consensus", 1)


@pytest.mark.parametrize(("finish", "asked"), [("majority", [1]), ("judge_extract", [1, 2])])
def test_after_the_last_round_it_is_asked_only_where_the_finish_takes_its_verdict(
    finish: str, asked: list[int]
) -> None:
    apart = signed(lambda agent, n: agent, judge="[No]")
    _, model = play(apart, stop="agreement_then_judge", rounds=2, finish=finish)
    assert [n for _, n in stages(model, "judge")] == asked


def test_it_ends_when_every_debater_is_satisfied_with_its_own_answer() -> None:
    doubts = {("B", 1): "B finds a mistake. [No]"}
    said = signed(reflect=lambda purpose: doubts.get((purpose.agent, purpose.round), "[Yes]"))
    transcript, model = play(said, stop="satisfied", rounds=4)
    assert (transcript.stop_reason, len(transcript.rounds)) == ("satisfied", 2)
    assert [turn.reflection.satisfied for turn in transcript.rounds[0].turns] == [True, False, True]
    assert stages(model, "reflect") == [("reflect", 1)] * 3 + [("reflect", 2)] * 3
    assert [tokens(prompt) for prompt in prompts(model, "reflect", 2)] == [["A@2"], ["B@2"], ["C@2"]]
    (second,) = prompts(model, "reply", 2, "B")
    assert "critique: B finds a mistake. [No]" in second
    assert "finds" not in prompts(model, "reply", 2, "A")[0]


@pytest.mark.parametrize("said", ["Hm.", GONE])
def test_a_reflection_that_cannot_be_read_is_no_satisfaction_and_the_last_round_needs_none(
    said: str | Completion,
) -> None:
    transcript, model = play(signed(reflect=said), stop="satisfied", rounds=2)
    assert transcript.stop_reason == "rounds"
    assert stages(model, "reflect") == [("reflect", 1)] * 3
    assert "gone" not in prompts(model, "reply", 2, "A")[0]


def test_it_ends_when_nobody_has_changed_its_answer() -> None:
    stays = {1: "Oslo", 2: "Bern", 3: "bern", 4: "Rome"}
    transcript, _ = play(signed(lambda agent, n: f"{agent} {stays[n]}"), stop="stability", rounds=4)
    assert (transcript.stop_reason, len(transcript.rounds)) == ("stability", 3)


@pytest.mark.parametrize("unsaid", [1, 2])
def test_no_answer_is_not_the_same_answer_again(unsaid: int) -> None:
    said = signed(lambda agent, n: None if (agent, n) == ("B", unsaid) else "Oslo")
    transcript, _ = play(said, stop="stability", rounds=2)
    assert transcript.stop_reason == "rounds"
    nobody, _ = play(signed(lambda agent, n: None), stop="stability", rounds=3)
    assert nobody.stop_reason == "rounds"


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


def test_the_summarizer_reads_the_last_round_and_states_the_answer() -> None:
    taken, model = final(signed(summarize="After all, [Bern]."), finish="summarizer")
    assert (taken.by, taken.answer, taken.status) == ("summarizer", "Bern", "ok")
    assert tokens(prompts(model, "summarize")[0]) == ["A@2", "B@2", "C@2"]


@pytest.mark.parametrize(("said", "status"), [("They differ.", "unmarked"), (GONE, "failed")])
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


@pytest.mark.parametrize(
    ("answers", "verdict", "split"),
    [
        ("Oslo Oslo Bern", "[No]", True),
        ("Oslo oslo Oslo", "[No]", False),
        ("Oslo Bern Bern", "[Yes]", False),
        ("Oslo - -", "[No]", False),
    ],
)
def test_a_summary_of_a_debate_that_ends_with_two_answers_is_marked_as_a_split(
    answers: str, verdict: str, split: bool
) -> None:
    said = {agent: None if text == "-" else text for agent, text in zip("ABC", answers.split(), strict=True)}
    taken, _ = final(signed(said, judge=verdict, summarize="[Oslo]"), stop="judge", finish="summarizer")
    assert (taken.by, taken.answer, taken.tie) == ("summarizer", "Oslo", split)


@pytest.mark.parametrize("finish", ["majority", "convergence", "rerank", "weighted"])
def test_without_any_stated_answer_the_final_answer_is_none(finish: str) -> None:
    taken, _ = final(signed(lambda agent, n: None), finish=finish, score_answers=by_length)
    assert (taken.answer, taken.status) == (None, "unmarked")


SETTLED = '{"settled": true, "side": "B", "reason": "B is right.", "answer": "Bern"}'


def test_the_judges_own_answer_is_taken_where_it_settled_the_debate() -> None:
    taken, model = final(signed(judge=SETTLED), stop="judge", finish="judge_extract")
    assert (taken.by, taken.answer, taken.agent) == ("judge", "Bern", "B")
    assert stages(model, "extract") == []


@pytest.mark.parametrize(
    ("judge", "settings"),
    [("[No]", {}), ("[Yes]", {}), (SETTLED, {"extract": "always"})],
    ids=["never settled", "settled without an answer", "always"],
)
def test_else_the_judge_extracts_one_from_the_whole_history(judge: str, settings: dict[str, Any]) -> None:
    said = signed(judge=judge, extract="[Rome]")
    transcript, model = play(said, stop="judge", finish="judge_extract", **settings)
    n = len(transcript.rounds)
    assert (transcript.final.by, transcript.answer) == ("judge", "Rome")
    assert stages(model, "extract") == [("extract", n)]
    assert tokens(prompts(model, "extract")[0]) == [f"{name}@{r + 1}" for r in range(n) for name in "ABC"]


def test_an_answer_may_be_extracted_after_every_round_and_the_last_one_is_taken() -> None:
    said = signed(judge="[No]", extract=lambda purpose: f"[answer {purpose.round}]")
    settings: dict[str, Any] = {"stop": "judge", "finish": "judge_extract", "extract": "each_round"}
    transcript, model = play(said, rounds=3, **settings)
    assert [entry.extracted.answer for entry in transcript.rounds] == ["answer 1", "answer 2", "answer 3"]
    assert transcript.final == transcript.rounds[-1].extracted
    assert stages(model, "extract") == [("extract", 1), ("extract", 2), ("extract", 3)]


def test_the_judge_picks_a_debater_whose_last_stance_counts() -> None:
    answers = {"A": "Oslo", "B": "Bern", "C": None}
    taken, model = final(signed(answers, pick="[B]"), finish="judge_pick")
    assert (taken.agent, taken.answer, taken.status) == ("B", "Bern", "ok")
    assert tokens(prompts(model, "pick")[0]) == ["A@2", "B@2", "C@2"]
    taken, _ = final(signed(answers, pick="[C]"), finish="judge_pick")
    assert (taken.agent, taken.answer, taken.status) == ("C", None, "unmarked")


def test_a_debater_whose_call_failed_cannot_be_picked() -> None:
    taken, _ = final(except_for("B", 2, GONE, signed(pick="[B]")), finish="judge_pick")
    assert (taken.answer, taken.status) == (None, "unmarked")


def worded(**texts: Any) -> Callable[..., Any]:
    return lambda request: texts[request.purpose.agent]


def test_convergence_takes_the_stance_whose_words_the_others_share_most() -> None:
    said = worded(A="so it is [Oslo]", B="I think it is [Bern]", C="I think [Rome]")
    taken, _ = final(said, finish="convergence", rounds=1)
    # Shared words over all words: A and B 2/7, A and C 0/7, B and C 2/6; the sum over the others is highest for B.
    assert (taken.agent, taken.answer, taken.tie) == ("B", "Bern", False)
    assert taken.scores == pytest.approx({"A": 2 / 7, "B": 2 / 7 + 2 / 6, "C": 2 / 6})


def test_convergence_leaves_out_who_gave_no_answer_and_ties_go_to_the_earliest() -> None:
    said = worded(A="we do not know what to say", B="we do not know [Bern]", C="we do not know [Rome]")
    taken, _ = final(said, finish="convergence", rounds=1)
    assert (taken.agent, taken.tie, set(taken.scores)) == ("B", True, {"B", "C"})


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


@pytest.mark.parametrize(("answer", "status"), [("Oslo", "ok"), (None, "abstained")])
def test_the_only_debaters_answer(answer: str | None, status: str) -> None:
    transcript, _ = play(signed({"A": answer}), finish="only", debaters=[{"name": "A"}], rounds=1)
    assert (transcript.answer, transcript.status, transcript.final.by) == (answer, status, "only")


def test_an_agreed_answer_needs_no_summarizer() -> None:
    taken, model = final(signed(nearing, summarize="[Ulm]"), finish="agreed_or_summarizer", rounds=3)
    assert (taken.by, taken.answer) == ("agreement", "oslo")
    assert stages(model, "summarize") == []
    taken, model = final(signed(nearing, summarize="[Ulm]"), finish="agreed_or_summarizer", rounds=2)
    assert (taken.by, taken.answer) == ("summarizer", "Ulm")
