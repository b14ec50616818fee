"""The shipped recipes: arms that can run, what they cost, and the papers' figures in them."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from madke._util.assets import asset
from madke.core.knowledge import EMPTY_POOL
from madke.core.question import Question
from madke.core.transcript import Stance, Turn
from madke.data.first_round import FirstRounds
from madke.engine.protocol import hold_debate
from madke.engine.scene import Scene
from madke.experiments.experiment_spec import ExperimentSpec
from madke.experiments.plan import Planner, plan_arms
from madke.experiments.recipe import read_recipe, recipe_files
from madke.models.scripted import ScriptedChat
from madke.runs.request import RunRequest
from madke.runs.spec import with_first_rounds
from madke.tasks import get_task

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


@pytest.mark.parametrize(
    ("name", "order"),
    [("same", [*range(10)]), ("again", [*range(10)]), ("reversed", [*range(9, -1, -1)]), ("rotated", [9, *range(9)])],
)
def test_the_position_audit_changes_the_order_of_what_is_read_and_nothing_else(name: str, order: Any) -> None:
    experiment_spec = ExperimentSpec(recipe=RECIPES["position-audit"], data="", questions=QUESTIONS)
    arms = {arm.name: arm for arm in experiment_spec.arms}
    speakers = [debater.name for debater in experiment_spec.spec(arms["stances"]).protocol.cast]
    said = [Turn(agent=agent, stance=Stance(text=f"Said <{n}>.", answer="it")) for n, agent in enumerate(speakers)]
    given = FirstRounds(rounds={"q0": {0: tuple(said)}}).reorder(arms[name].first_round.order)
    spec = with_first_rounds(experiment_spec.spec(arms[name]), given)
    protocol, model = spec.protocol, ScriptedChat(lambda request: "(it)")
    cast = dict.fromkeys(protocol.roles, model)
    played = hold_debate(
        Scene(
            QUESTIONS[0],
            protocol,
            cast,
            EMPTY_POOL,
            task=get_task("short_answer"),
            prompts=spec.variant,
            first_round=spec.first_round.of("q0", 0),
        )
    )
    asyncio.run(played)
    prompts = {tuple((message.role, message.content) for message in call.messages) for call in model.requests}
    assert len(model.requests) == 10
    (prompt,) = prompts
    text = prompt[-1][1]
    assert [int(n) for n in re.findall(r"Said <(\d)>", text)] == order
    assert not any(speaker in text for speaker in speakers)


@pytest.mark.parametrize(
    ("name", "model", "arm", "dataset", "metric", "value"),
    [
        ("madke-table-2", "GPT-4-Turbo", "standard", "2wikimultihopqa", "grader", 0.284),
        ("madke-table-2", "GPT-3.5-Turbo", "mad", "hotpotqa", "f1", 0.287),
        ("madke-table-2", "Qwen1.5-72B-Chat", "madke", "triviaqa", "grader", 0.874),
        ("madke-figure-4", "GPT-3.5-Turbo", "madke-google", "nq_open", "co2_judge_grader", 0.58),
        ("madke-figure-4", "Qwen1.5-72B-Chat", "madke-both", "2wikimultihopqa", "co2_judge_grader", 0.342),
        ("madke-table-4", "GPT-4-Turbo", "standard", "mmlu_med", "choice_accuracy", 0.861),
        ("madke-figure-6", "Qwen1.5-32B-Chat", "madke-32B-both", "hotpotqa", "grader", 0.57),
        ("madke-figures-7-9", "GPT-3.5-Turbo", "madke-agents-2", "hotpotqa", "cons_judge", 0.64),
        ("liang-table-3", "GPT-3.5-Turbo", "maps", "commonmt", "comet", 0.819),
        ("liang-table-3", "GPT-3.5-Turbo", "self-reflect", "commonmt", "human_quality", 3.43),
        ("liang-table-5", "GPT-3.5-Turbo", "liang", "ciar", "math_equivalence", 0.36),
        ("liang-table-7", "GPT-3.5-Turbo and GPT-4", "gpt4-turbo-gpt4", "commonmt", "sided_with_Affirmative", 0.6),
        ("madc-table-1", "GPT-4o-mini", "madc", "bbh_logical_deduction", "choice_accuracy", 0.892),
        ("madc-table-1", "GLM-4-FlashX", "self-consistency", "math500", "math_equivalence", 0.538),
        ("madc-agents", "Qwen2.5-7B-Instruct", "madc-3", "bbh_geometric_shapes", "choice_accuracy", 0.58),
    ],
)
def test_published_figures_are_those_of_the_papers(
    name: str, model: str, arm: str, dataset: str, metric: str, value: float
) -> None:
    assert RECIPES[name].published[model][arm][dataset][metric] == pytest.approx(value)


def test_the_averages_in_madkes_text_are_those_of_the_figures() -> None:
    """Section 5.1: Co2 gains 7.8 points with all knowledge and Cons loses 1.6 (Qwen1.5-72B-Chat, Table 3)."""
    figures = RECIPES["madke-figure-4"].published["Qwen1.5-72B-Chat"]

    def gain(*metrics: Any) -> Any:
        both, none = (
            [next(by_dataset[name] for name in metrics if name in by_dataset) for by_dataset in figures[arm].values()]
            for arm in ("madke-both", "madke-none")
        )
        return sum(both) / len(both) - sum(none) / len(none)

    assert gain("co2_judge_grader", "co2_judge") == pytest.approx(0.078, abs=5e-4)
    assert gain("cons_judge") == pytest.approx(-0.016, abs=5e-4)
