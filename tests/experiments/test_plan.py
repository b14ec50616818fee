"""What a plan says of runs of several datasets, of repeats, and of first rounds that are taken over."""

import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.endpoints.prices import Price
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.experiments import plan
from madke.experiments.experiment_spec import ExperimentSpec
from madke.experiments.plan import Planner, planned, planned_grading
from madke.experiments.recipe import Recipe
from madke.scoring.outside import graders_of
from madke.variants import load
from madke.variants.load import check_templates


def setting_of(recipe: Any, questions: Any, pools: Any = ()) -> Any:
    recipe = Recipe.model_validate({"title": "A test", "source": "a test", **recipe})
    return ExperimentSpec(recipe=recipe, data="", questions=questions, pools=pools)


def plans(recipe: Any, questions: Any, pools: Any = ()) -> Any:
    return {plan.name: plan for plan in planned(setting_of(recipe, questions, pools), Planner(prices={}))}


def questions(count: Any, text: str = "Which lake is the deepest?") -> Any:
    return [Question(id=f"{text[:5]}{n}", question=text) for n in range(count)]


def test_the_cost_with_cached_beginnings_stands_beside_that_without() -> None:
    recipe = {"arms": [{"name": "vote", "protocol": "self-consistency", "set": {"debaters": 8}}]}
    prices = {"offline": Price(prompt=1_000_000, cached=100_000, completion=0)}
    costs = []
    for text in ("A short question?", "A long question. " * 1000):
        (found,) = planned(setting_of(recipe, questions(1, text)), Planner(prices=prices))
        costs.append((found.most.cached_cost, found.most.cost))
    assert costs[0][0] == costs[0][1]  # too short to be kept
    one = costs[1][1] / 8
    assert costs[1][0] == pytest.approx(one + 7 * one / 10, rel=0.01)


@pytest.mark.parametrize("count", [30, 45, 100])
def test_every_dataset_has_its_part_in_the_plan(count: int) -> None:
    arm = {"arms": [{"name": "one", "protocol": "standard"}]}
    short, long = questions(count), questions(count, "A long question. " * 100)
    tokens = [plans(arm, asked)["one"].most.prompt_tokens for asked in (short, long, short + long)]
    assert tokens[2] == pytest.approx(tokens[0] + tokens[1], rel=0.03)


def test_more_repeats_than_an_earlier_arm_has_are_paid() -> None:
    repeats = {"once": 1, "often": 20, "again": 5}
    arms = [{"name": name, "protocol": "standard", "repeats": n} for name, n in repeats.items()]
    found = plans({"arms": arms}, questions(3))
    assert {name: plan.most.calls for name, plan in found.items()} == {name: 3 * n for name, n in repeats.items()}
    assert {name: plan.most.paid for name, plan in found.items()} == pytest.approx({"once": 3, "often": 57, "again": 0})
    assert found["often"].most.prompt_tokens == pytest.approx(19 * found["once"].most.prompt_tokens)


def test_what_follows_from_a_first_round_is_paid_once() -> None:
    arms = [
        {"name": "one"},
        {"name": "two", "seed": 7},
        {"name": "after", "first_round": {"arm": "one"}},
        {"name": "often", "first_round": {"arm": "one"}, "repeats": 3},
        {"name": "other", "first_round": {"arm": "two"}},
        {"name": "reversed", "first_round": {"arm": "one", "order": "reversed"}},
    ]
    found = plans({"base": {"protocol": "madke", "sources": "wiki", "set": {"rounds": 2}}, "arms": arms}, questions(3))
    # The judge on the given stances, and a summary; then selections, stances and a verdict of the second round too.
    paid = {name: (plan.least.paid, plan.most.paid) for name, plan in found.items()}
    assert {name: paid[name] for name in ("after", "other", "reversed")} == {
        "after": (0, 0),
        "other": (3 * 2, 3 * 7),
        "reversed": (3 * 2, 3 * 7),
    }
    # Its first repeat is that of the run whose first round it takes over.
    assert paid["often"] == pytest.approx((2 / 3 * 9 * 2, 2 / 3 * 9 * 7))


MADKE = {"name": "madke", "protocol": "madke", "sources": "wiki"}
SAME: dict[str, Any] = {"protocol": "self-consistency", "match_cost": {"arm": "madke", "by": "calls", "unit": "cot"}}


def equal_cost(**more: Any) -> Any:
    arms = [MADKE, {"name": "cot", "protocol": "cot"}, {"name": "same", **SAME}, {"name": "again", **SAME, "seed": 7}]
    return {"arms": [*arms, *({"name": name, **SAME, **arm} for name, arm in more.items())]}


def test_a_run_as_dear_as_another_is_planned_from_the_shortest_to_the_longest_of_it() -> None:
    found = plans(equal_cost(after={}, other={"match_cost": SAME["match_cost"] | {"arm": "again"}}), questions(3))
    # 2nr + r + 1 calls of two debaters in one round to three.
    assert {name: found[name].debaters for name in ("madke", "same", "other")} == {
        "madke": None,
        "same": (6, 16),
        "other": (6, 16),
    }
    for name in ("same", "again", "other"):
        assert (found[name].least.calls, found[name].most.calls) == (3 * 6, 3 * 16)
    # Whatever the earlier of two votes needs, at most that many less does the later one pay.
    assert (found["same"].least.paid, found["same"].most.paid) == (3 * 6, 3 * 16)
    assert (found["after"].least.paid, found["after"].most.paid) == (0, 3 * (16 - 6))


def test_what_the_others_have_cost_takes_the_place_of_their_plan() -> None:
    experiment_spec = setting_of(equal_cost(), questions(3))
    known = {"same": 9}
    found = {
        plan.name: plan
        for plan in planned(experiment_spec, Planner(prices={}), debaters=lambda arm: known.get(arm.name))
    }
    assert found["same"].least.calls == found["same"].most.calls == 3 * 9
    assert found["same"].debaters is None
    assert found["again"].debaters == (6, 16)


def test_the_cost_of_an_arm_that_may_have_no_questions_can_be_matched() -> None:
    left = {"name": "left", "protocol": "cot", "wrong_in": "cot"}
    same = {"name": "same", **SAME, "match_cost": SAME["match_cost"] | {"unit": "left"}}
    found = plans({"arms": [MADKE, {"name": "cot", "protocol": "cot"}, left, same]}, questions(3))
    assert found["same"].debaters == (6, 16)


def test_more_debaters_than_there_can_be_are_not_planned() -> None:
    dear: dict[str, Any] = {"name": "dear", "protocol": "mad", "set": {"debaters": 60, "rounds": 5}}
    same = {"name": "same", **SAME, "match_cost": SAME["match_cost"] | {"arm": "dear"}}
    with pytest.raises(UserError, match="arm 'same'"):  # it is sure to have too many
        plans({"arms": [dear, {"name": "cot", "protocol": "cot"}, same]}, questions(1))
    dear["set"]["stop"] = "agreement"
    found = plans({"arms": [dear, {"name": "cot", "protocol": "cot"}, same]}, questions(1))
    assert found["same"].debaters == (60, 200)


def test_the_shortest_debate_ends_with_the_judge_of_its_first_round() -> None:
    base = {"protocol": "madke", "sources": "wiki"}
    arms = [{"name": "one", "set": {"rounds": 1}}, {"name": "three", "set": {"rounds": 3}}]
    found = plans({"base": base, "arms": arms}, questions(2))
    assert (found["one"].least.calls, found["one"].most.calls) == (2 * 6, 2 * 6)
    assert (found["three"].least.calls, found["three"].most.calls) == (2 * 6, 2 * 16)


def test_a_shorter_run_may_share_the_end_of_a_longer_one() -> None:
    base = {"protocol": "madke", "sources": "wiki"}
    arms = [{"name": "three", "set": {"rounds": 3}}, {"name": "one", "set": {"rounds": 1}}]
    found = plans({"base": base, "arms": arms}, questions(2))
    # The summary after round 1 is asked already where the longer debate ended there, and else it is not.
    assert (found["one"].least.paid, found["one"].most.paid) == (0, 2)


def test_orders_that_turn_out_the_same_may_share_what_follows() -> None:
    base = {"protocol": "madc", "set": {"order": "fixed", "debaters": 3}}
    arms = [{"name": "fixed"}, {"name": "last", "set": {"order": "truth_last"}}]
    found = plans({"base": base, "arms": arms}, [Question(id="q", question="Which?", answers=("Baikal",))])
    # Where all or none are right, those who are right stand last already.
    assert (found["last"].least.paid, found["last"].most.paid) == (0, 3)


def pool_file(path: Any, asked: Any, source: Any, text: Any) -> Any:
    lines = [{"id": q.id, "question": q.question, "passages": [{"source": source, "text": text}]} for q in asked]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_several_pool_files_are_read_together(tmp_path: Path) -> None:
    asked = questions(3)
    arms = [{"name": name, "protocol": "rag", "sources": name} for name in ("wiki", "google")]
    arms.append({"name": "both", "protocol": "rag", "sources": "wiki,google"})
    files = [pool_file(tmp_path / f"{name}.jsonl", asked, name, f"{name} " * 40) for name in ("wiki", "google")]
    assumed = plans({"arms": arms}, asked)
    half = plans({"arms": arms}, asked, files[:1])
    whole = plans({"arms": arms}, asked, files)
    tokens = [[found[arm].most.prompt_tokens for arm in ("wiki", "google", "both")] for found in (assumed, half, whole)]
    # One passage of 40 words instead of five of 100, in each source.
    assert tokens[1][0] == tokens[2][0] < tokens[0][0]
    assert tokens[1][1:] == tokens[0][1:]
    assert tokens[2][1] < tokens[0][1]
    assert tokens[2][2] < tokens[0][2]
    said = [[name for name, plan in found.items() if plan.assumed_passages] for found in (assumed, half, whole)]
    assert said == [["wiki", "google", "both"], ["google", "both"], []]


def test_a_pool_file_of_other_questions_is_refused(tmp_path: Path) -> None:
    file = pool_file(tmp_path / "wiki.jsonl", questions(1), "wiki", "Some text.")
    with pytest.raises(UserError, match="for 2 questions"):
        plans({"arms": [{"name": "rag", "protocol": "rag", "sources": "wiki"}]}, questions(3), [file])


def test_a_question_is_played_once_for_an_arm_however_its_debates_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    async def counted(scene: Scene) -> Any:
        played.append(scene.question.id)
        return await hold_debate(scene)

    monkeypatch.setattr(plan, "hold_debate", counted)
    vote = {"name": "same", **SAME}
    arms = [{"name": "liang", "protocol": "liang"}, MADKE, {"name": "cot", "protocol": "cot"}, vote]
    found = plans({"arms": arms}, questions(2))
    assert len(played) == 4 * 2
    assert {name: (each.least.calls, each.most.calls) for name, each in found.items()} == {
        "liang": (2 * 3, 2 * 10),
        "madke": (2 * 6, 2 * 16),
        "cot": (2, 2),
        "same": (2 * 6, 2 * 16),
    }


def test_a_protocol_is_validated_once_for_each_arm_and_once_as_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []

    def counted(variant: Any) -> None:
        checked.append(variant.name)
        check_templates(variant)

    monkeypatch.setattr(load, "check_templates", counted)
    base = {"sources": "wiki", "set": {"temperature": 0.1}}
    arms = [{"name": "a", "protocol": "rag"}, {"name": "b", "protocol": "madke"}, {"name": "c", "protocol": "madke"}]
    of_sample = questions(1, "In which village did Vincent van Gogh die?")
    experiment_spec = setting_of({"base": base, "arms": arms}, of_sample)
    experiment_spec.check()
    assert not experiment_spec.unknown_sources()
    planned(experiment_spec, Planner(prices={}))
    planned(experiment_spec, Planner(prices={}))
    assert sorted(checked) == ["madke"] * 3 + ["rag"] * 2


def test_grading_is_planned_from_one_answer_a_question_to_a_different_one_in_each_debate() -> None:
    asked = [Question(id=f"q{n}", question=f"Which lake, {n}?", answers=("Lake Baikal",)) for n in range(6)]
    asked.append(Question(id="open", question="Why?"))
    prices = {"openai/judge": Price(prompt=10, completion=20)}
    (found,) = planned_grading(asked, 4 * len(asked), graders_of("openai/judge"), prices, 50)
    assert (found.name, found.debates, found.unpriced) == ("grading", 24, ())
    assert (found.least.calls, found.most.calls) == (pytest.approx(6), pytest.approx(24))
    assert found.most.completion_tokens == pytest.approx(24 * 50)
    by_hand = (found.most.prompt_tokens * 10 + found.most.completion_tokens * 20) / 1e6
    assert found.most.cost == pytest.approx(by_hand)
    names = [each.name for each in planned_grading(asked, 7, graders_of("openai/judge,openai/other"), prices, 50)]
    assert names == ["grading by openai/judge", "grading by openai/other"]
    assert planned_grading(questions(2), 2, graders_of("openai/judge"), prices, 50) == []
