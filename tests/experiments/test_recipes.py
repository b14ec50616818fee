"""The shipped recipes: arms that can run, what they cost, and the papers' figures in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from madke._util.assets import asset
from madke.core.question import Question
from madke.experiments.experiment import ablate
from madke.experiments.experiment_spec import ExperimentSpec
from madke.experiments.plan import Planner, plan_arms
from madke.experiments.recipe import read_recipe, recipe_files
from madke.models.scripted import ScriptedChat
from madke.models.store import CallStore
from madke.runs.request import RunRequest

SCORED = RunRequest(answer_scorer="answer_scorer")
QUESTIONS = [Question(id="q0", question="Which lake is the deepest, in survey 0?", answers=("Lake Baikal",))]
RECIPES = {name: read_recipe(name) for name in recipe_files()}
LARGE = ("madc-tables-6-11",)
"""240 arms of up to 80 stances; ``madc-figure-9`` has 39 of them."""
SLOW = [name for name, recipe in RECIPES.items() if len(list(recipe.all_arms())) > 6]


def plans_of(name: Any) -> Any:
    experiment_spec = ExperimentSpec(recipe=RECIPES[name], data="", questions=QUESTIONS, request=SCORED)
    return {plan.name: plan for plan in plan_arms(experiment_spec, Planner(prices={}))}


def rows_of_readme() -> Iterator[Any]:
    text = asset("eval", "recipes", "README.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("| `"):
            name, _, _, calls, _ = (cell.strip() for cell in line.strip("|").split(" |"))
            yield name.strip("` "), calls


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in RECIPES if name not in LARGE],
)
def test_every_arm_can_run_and_a_question_takes_the_calls_that_the_table_says(name: Any) -> None:
    plans = plans_of(name)
    calls = [(plan.least.calls / len(QUESTIONS), plan.most.calls / len(QUESTIONS)) for plan in plans.values()]
    matched = [arm for arm in RECIPES[name].all_arms() if arm.match_cost and arm.match_cost.by == "tokens"]
    if not matched:
        least, most = (round(sum(each)) for each in zip(*calls, strict=True))
        assert dict(rows_of_readme())[name] == (f"{least} to {most}" if least < most else f"{most:,}")
    for arm in matched:
        for bound in ("least", "most"):
            target, unit, vote = (getattr(plans[other], bound).all_tokens for other in (*arm.needs, arm.name))
            assert abs(vote - target) <= 0.51 * unit


def test_the_position_audit_changes_the_order_of_what_is_read_and_nothing_else(tmp_path: Path) -> None:
    model = ScriptedChat(lambda request: f"Said <{request.purpose.agent.removeprefix('Speaker ')}>: [it]")
    ablate("position-audit", QUESTIONS, out=tmp_path / "out", model=model)
    read = {}
    with CallStore(tmp_path / "out" / "calls.sqlite") as store:
        for arm in ("same", "again", "reversed", "rotated"):
            replies = [call.messages for call in store.calls(payer=arm) if call.purpose.stage == "reply"]
            assert len(replies) == 10
            (prompt,) = set(replies)
            assert "Speaker" not in prompt[-1].content
            read[arm] = [int(n) for n in re.findall(r"Said <(\d+)>", prompt[-1].content)]
    assert read["same"] == read["again"] == [*range(1, 11)]
    assert read["reversed"] == [*range(10, 0, -1)]
    assert read["rotated"] == [10, *range(1, 10)]


@pytest.mark.parametrize(
    ("name", "model", "arm", "dataset", "metric", "value"),
    [
        ("madke-table-2", "GPT-4-Turbo", "standard", "2wikimultihopqa", "grader", 0.284),
        ("madke-figure-4", "Qwen1.5-72B-Chat", "madke-both", "2wikimultihopqa", "co2_judge_grader", 0.342),
        ("liang-table-3", "GPT-3.5-Turbo", "self-reflect", "commonmt", "human_quality", 3.43),
        ("liang-table-7", "GPT-3.5-Turbo and GPT-4", "gpt4-turbo-gpt4", "commonmt", "sided_with_Affirmative", 0.6),
        ("madc-table-1", "GPT-4o-mini", "madc", "bbh_logical_deduction", "choice_accuracy", 0.892),
    ],
)
def test_published_figures_are_those_of_the_papers(
    name: str, model: str, arm: str, dataset: str, metric: str, value: float
) -> None:
    assert RECIPES[name].published[model][arm][dataset][metric] == pytest.approx(value)
