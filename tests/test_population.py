"""The simulated population of the benchmarks: what its parameters do, in real debates over real prompts."""

import asyncio
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from statistics import fmean, median, pvariance
from typing import Any

import pytest

from eval.benchmarks.population import (
    WRONG_ANSWERS,
    Population,
    SimulatedModel,
    case_of,
    play,
    pool_of,
    questions,
)
from eval.benchmarks.population_check import check, expected_changes
from eval.benchmarks.population_fit import Changes, changes, fit, taken_from_passages
from eval.benchmarks.population_persuasion import Read, followed
from eval.benchmarks.protocols import LEAN_POOL, MAD_POOL, MARGIN, Comparison, compared, outcomes, table
from madke.core.chat import ChatRequest, Message, Purpose
from madke.core.question import Question
from madke.engine.cost import calls
from madke.scoring.rounds import round_rows
from madke.scoring.scores import score
from madke.tasks import get_task
from madke.variants import load_variant

pytestmark = pytest.mark.slow

SURE = Population(judge_errs=0.0)
"""Whose judge makes no mistakes."""


@cache
def loaded(variant: Any) -> Any:
    return load_variant(variant)


def played(population: Any, variant: Any, count: int = 40, **settings: Any) -> Any:
    chosen = loaded(variant)
    if settings:
        chosen = chosen.with_settings({path.replace("__", "."): value for path, value in settings.items()})
    return asyncio.run(play(population, chosen, questions(population, count)))


def accuracy(transcripts: Any) -> Any:
    return score(transcripts).correct.value


@pytest.mark.parametrize("variant", ["madke", "madke-lean", "madke-reference", "mad", "rag", "standard"])
def test_real_variants_play_to_the_end_and_every_reply_is_read(variant: str) -> None:
    protocol = load_variant(variant).protocol

    transcripts = played(Population(), variant, 15)

    scores = score(transcripts)
    assert (scores.failed, scores.abstained, scores.degraded) == (0, 0, 0)
    assert {found.value for found in scores.parse_failures.values()} == {0.0}
    for transcript in transcripts:
        fewest, most = calls(protocol, len(transcript.rounds))
        assert fewest <= sum(stage.calls for stage in transcript.usage.values()) <= most


def test_the_same_seed_plays_the_same_debates_and_another_seed_others() -> None:
    one, same, other = (played(Population(seed=seed), "madke", 12) for seed in (1, 1, 2))

    assert one == same
    assert one != other


def test_debaters_with_one_prompt_answer_for_themselves() -> None:
    transcripts = played(Population(known=0.5, alike=0.01), "self-consistency", 30)

    texts = [{turn.stance.text for turn in transcript.rounds[0].turns} for transcript in transcripts]
    assert fmean(map(len, texts)) > 4


def test_answers_of_a_question_differ_under_the_matcher() -> None:
    same = partial(get_task("short_answer").same, question=Question(id="q", question="?"))

    for n in range(100):
        case = case_of(Population(), f"q{n}")
        assert len(case.wrong) == WRONG_ANSWERS
        assert not any(same(*pair) for pair in combinations((case.right, *case.wrong), 2))


@pytest.mark.parametrize("alike", [0.2, 0.5, 0.8])
def test_knowledge_has_the_mean_and_the_correlation_that_were_asked_for(alike: float) -> None:
    population = Population(known=0.7, alike=alike)

    known = [case_of(population, f"q{n}").known for n in range(3000)]

    assert fmean(known) == pytest.approx(0.7, abs=0.03)
    assert pvariance(known) / (0.7 * 0.3) == pytest.approx(alike, abs=0.03)


@pytest.mark.parametrize("same", [0.3, 0.54, 0.9])
def test_two_who_are_wrong_agree_as_often_as_asked_for(same: float) -> None:
    favourite = Population(same_mistake=same).favourite

    assert favourite**2 + (1 - favourite) ** 2 / (WRONG_ANSWERS - 1) == pytest.approx(same)


def test_pools_hold_what_the_case_says_whatever_the_variant_asks_for() -> None:
    population = Population(helpful=0.5, misleading=0.5)
    sizes = {"madke": 10, "madke-reference": 15}
    protocols = {variant: load_variant(variant).protocol for variant in sizes}
    both = 0
    for question in questions(population, 40):
        case = case_of(population, question.id)
        for variant, protocol in protocols.items():
            passages = pool_of(population, question, protocol).passages
            assert len(passages) == sizes[variant]
            assert any(case.right in p.text for p in passages) == (case.helpful is not None)
            assert any(case.wrong[0] in p.text for p in passages) == (case.misleading is not None)
        both += case.helpful is not None and case.misleading is not None
    assert both
    assert pool_of(population, question, load_variant("mad").protocol).passages == ()


@pytest.mark.parametrize("variant", ["rag", "madke"])
def test_a_helpful_passage_teaches_those_who_know_nothing(variant: str) -> None:
    ignorant = replace(SURE, known=0.001, misleading=0.0, use_helpful=1.0, picks_helpful=1.0)

    assert accuracy(played(replace(ignorant, helpful=1.0), variant, 15)) == 1
    assert accuracy(played(replace(ignorant, helpful=0.0), variant, 15)) < 0.2
    assert accuracy(played(replace(ignorant, helpful=1.0, use_helpful=0.0), variant, 15)) < 0.2


def test_a_misleading_passage_harms_those_who_pick_it() -> None:
    wise = replace(SURE, known=0.999, helpful=0.0, misleading=1.0, use_misleading=1.0)

    assert accuracy(played(replace(wise, picks_misleading=1.0), "madke", 15)) == 0
    assert accuracy(played(replace(wise, picks_misleading=0.0), "madke", 15)) == 1


def test_whoever_is_right_persuades_everybody_where_right_peers_always_do() -> None:
    open_minded = replace(SURE, known=0.5, alike=0.3, persuaded_by_right=1.0, persuaded_by_wrong=0.0)

    for transcript in played(open_minded, "mad", 60):
        first, last = round_rows(transcript)
        assert last["right"] == (first["right"] > 0)


def test_nobody_changes_where_nobody_persuades() -> None:
    stubborn = replace(SURE, persuaded_by_right=0.0, persuaded_by_wrong=0.0)

    rounds = [round_rows(transcript)[1] for transcript in played(stubborn, "mad", 40)]

    assert {row["self_disagreement"] for row in rounds} == {0.0}
    assert fmean(row["cons"] for row in rounds) < 1


def test_who_thinks_again_after_another_answer_may_find_the_right_one_that_nobody_had() -> None:
    def found(rethinks: Any) -> Any:
        population = replace(SURE, known=0.5, alike=0.1, persuaded_by_right=0.0, persuaded_by_wrong=0.0)
        rounds = [round_rows(transcript) for transcript in played(replace(population, rethinks=rethinks), "mad", 60)]
        return sum(last["right"] > 0 for first, last in rounds if first["right"] == 0)

    assert found(0.0) == 0 < found(1.0)


def test_a_judge_without_mistakes_sees_what_the_matcher_sees_and_one_with_them_does_not() -> None:
    def verdicts(judge_errs: Any) -> Any:
        transcripts = played(replace(SURE, judge_errs=judge_errs), "madke", 25, rounds=1)
        return [(transcript.consensus, bool(round_rows(transcript)[0]["cons"])) for transcript in transcripts]

    assert all(verdict == agreed for verdict, agreed in verdicts(0.0))
    assert all(verdict != agreed for verdict, agreed in verdicts(1.0))


def test_a_summarizer_settles_ties_with_its_probability() -> None:
    def settled(settles_right: Any) -> Any:
        stubborn = replace(SURE, settles_right=settles_right, persuaded_by_right=0.0, persuaded_by_wrong=0.0)
        transcripts = played(stubborn, "madke", 60, knowledge=None, rounds=1)
        return {t.answer in t.answers for t in transcripts if round_rows(t)[0]["right"] == 0.5}

    assert settled(1.0) == {True}
    assert settled(0.0) == {False}


def test_replies_are_as_long_as_those_on_record_and_bare_answers_are_not() -> None:
    population = Population()

    said = [turn.stance.text for t in played(population, "mad", 60) for e in t.rounds for turn in e.turns]
    bare = [transcript.rounds[0].turns[0].stance.text for transcript in played(population, "standard", 5)]

    assert median(map(len, said)) == pytest.approx(population.argument.median, rel=0.15)
    assert max(map(len, bare)) < 40


def test_a_stage_without_parameters_fails_as_a_value() -> None:
    purpose = Purpose(question="q1", stage="note", agent="A", round=1)
    request = ChatRequest(
        messages=(Message(role="user", content="Write down what you know."),),
        purpose=purpose,
        temperature=0.0,
        max_tokens=9,
    )

    completion = asyncio.run(SimulatedModel(population=Population()).complete(request))

    assert completion.outcome == "failed"
    assert "note" in completion.error


def test_what_passages_did_is_found_again_in_what_changed() -> None:
    population = Population(known=0.7, alike=0.6, helpful=0.3, misleading=0.2)
    won, lost = expected_changes(population)
    n = 1_000_000
    found = Changes(both=round(n * (0.7 - lost)), lost=round(n * lost), won=round(n * won), neither=round(n * 0.3))

    # `neither` is what is left of those who were wrong.
    found = replace(found, neither=n - found.both - found.lost - found.won)

    helped, misled = taken_from_passages(found, 0.6)
    assert helped == pytest.approx(0.3 * population.use_helpful, abs=1e-4)
    assert misled == pytest.approx(0.2 * population.use_misleading, abs=1e-4)


def test_no_share_is_below_nothing() -> None:
    assert taken_from_passages(Changes(both=70, lost=0, won=0, neither=30), 0.1) == (0.0, 0.0)


def test_changes_are_counted_question_by_question() -> None:
    without, with_ = [True, True, False, False, True], [True, False, True, False, False]

    assert changes(without, with_) == Changes(both=1, lost=2, won=1, neither=1)


def test_who_gives_way_in_a_recorded_debate_is_read_from_its_quotations() -> None:
    pytest.importorskip("sacrebleu")
    mine, theirs = "He swallowed the whole insult in silence.", "He put up with the whole insult in silence."
    still = f'I see why. Still, "{mine}" is the more accurate translation.'
    entry = {
        "base translation": mine,
        "debate translation": theirs,
        "correct reference": "He put up with the insult without a word.",
        "incorrect reference": "He swallowed an insult.",
        "players": {
            "Affirmative side": spoken(mine, "As I said.", still, f'I agree that "{theirs}" is better.', still),
            "Negative side": spoken(f'No: "{theirs}" is right.', "One word, that is all.", f'"{theirs}" is better.'),
        },
    }

    found = followed([entry])

    assert found.replies == (
        Read(own_right=False, peer_right=True, changed=False),
        Read(own_right=False, peer_right=True, changed=True),
        Read(own_right=True, peer_right=False, changed=False),
    )
    assert found.settled == (True,)


def spoken(*texts: Any) -> Any:
    return [{"role": "system", "content": "You debate."}, *({"role": "assistant", "content": text} for text in texts)]


def test_a_protocol_is_held_against_mad_on_the_same_questions() -> None:
    found = outcomes(SURE, questions(SURE, 15), (MAD_POOL, LEAN_POOL))

    against = compared(found[LEAN_POOL], found[MAD_POOL])
    lean = sum(stage.calls for t in played(SURE, "madke-lean", 15) for stage in t.usage.values())
    assert against.calls == pytest.approx(lean / (15 * 6))
    assert against.test.n == 15
    assert against.share == max(against.calls, against.tokens) < 0.5
    assert [line.split(" | ")[1] for line in list(table(found))[2:]] == list(found)


def test_the_aim_asks_for_calls_tokens_and_accuracy() -> None:
    found = outcomes(SURE, questions(SURE, 5), (MAD_POOL, LEAN_POOL))
    test = compared(found[LEAN_POOL], found[MAD_POOL]).test

    def verdict(calls: Any, tokens: Any, low: Any) -> Any:
        difference = replace(test.difference, value=0.0, low=low, high=0.1)
        return Comparison(calls=calls, tokens=tokens, test=replace(test, difference=difference)).verdict

    assert verdict(0.5, 0.4, -MARGIN / 2) == "met"
    assert verdict(0.5, 0.4, -MARGIN) == "a loss is not excluded"
    assert verdict(0.4, 0.51, 0.0) == verdict(0.51, 0.4, 0.0) == "too dear"


def test_the_defaults_are_what_the_recorded_sets_say(shared_data: Path) -> None:
    pytest.importorskip("sacrebleu")
    population = Population()

    found = fit(shared_data / "recorded")

    assert len(found) == 15
    for fitted in found:
        value: Any = population
        for part in fitted.name.split("."):
            value = getattr(value, part)
        assert value == round(fitted.value, 0 if fitted.name.endswith(".median") else 2), fitted
        assert fitted.low is None or fitted.low <= fitted.value <= fitted.high


def test_the_model_is_shown_beside_the_record(shared_data: Path) -> None:
    lines = [str(line) for line in check(Population(), shared_data / "recorded", 30)]

    assert len(lines) == 8
    assert all("model " in line and "record " in line for line in lines)
