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
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.experiments.experiment_spec import ExperimentSpec
from madke.experiments.plan import Planner, planned
from madke.experiments.recipe import read_recipe, recipe_files
from madke.models.scripted import ScriptedChat
from madke.runs.request import RunRequest
from madke.runs.spec import with_first_rounds
from madke.tasks import get_task

SCORED = RunRequest(answer_scorer="answer_scorer")
QUESTIONS = [
    Question(id=f"q{n}", question=f"Which lake is the deepest, in survey {n}?", answers=("Lake Baikal",))
    for n in range(3)
]
RECIPES = {name: read_recipe(name) for name in recipe_files()}
MADKE = ("madke", "madke-reference")


def madke(agents: int = 2, rounds: int = 3, *, select: bool = True) -> Any:
    """Calls of the shortest and of the longest debate: at most 2nr + r + 1, or nr + r + 1 without selection.

    The judge is asked only in doubt, so the shortest debate has no call of it.
    """
    each = agents * (2 if select else 1)
    return each + 1, (each + 1) * rounds + 1


def of(variant: str, calls: Any) -> Any:
    """Those calls of a variant of MADKE. The reference asks its judge after each round, of the shortest debate too."""
    return (calls[0] + 1, calls[1]) if variant == "madke-reference" else calls


LIANG = (3, 10)
"""3r, and an extraction where the judge never settles; at most 3 iterations."""


def either(label: Any, calls: Any) -> Any:
    """An arm with both variants of MADKE."""
    return {f"{variant}-{label}": of(variant, calls) for variant in MADKE}


def table() -> Any:
    return {"standard": 1, "cot": 1, "self-consistency": 5, "rag": 1, "mad": 2 * 3} | BOTH


BOTH = {variant: of(variant, madke()) for variant in MADKE}


BY_SOURCE = {"none": madke(select=False), "wiki": madke(), "google": madke(), "both": madke()}
SIZES = {f"agents-{n}": madke(n) for n in (2, 3, 4, 5)} | {f"rounds-{r}": madke(rounds=r) for r in (2, 4, 5)}

CALLS = {
    "study": {"alone": 1, "rag": 1, "debate": madke(), "votes": madke()},
    "source-ablation": BY_SOURCE,
    "selection-ablation": {"adaptive": madke(), "all": madke(select=False), "none": madke(select=False)},
    "retrieval-ablation": {
        f"{source}-{rerank}-{query}-{k}": 1 + (rerank == "reranked") + (query != "question")
        for source in ("bm25", "dense")
        for rerank in ("plain", "reranked")
        for query in ("question", "rewrite", "decompose")
        for k in ("k3", "k5")
    }
    | {"(pools)": 2 + 6},  # two query stages, and a reranking of each source's pool for each query setting
    "madke-table-2": table(),
    "madke-figure-4": {k: v for label, calls in BY_SOURCE.items() for k, v in either(label, calls).items()},
    "madke-table-4": table(),
    "madke-figure-5": {
        f"{variant}-{pool}-{select}": of(variant, madke(select=select == "adaptive"))
        for variant in MADKE
        for pool in ("wiki", "google", "both")
        for select in ("adaptive", "all")
    },
    "madke-figure-6": {
        f"{variant}-{size}-{label}": of(variant, calls)
        for variant in MADKE
        for size in ("1.8B", "7B", "14B", "32B", "72B")
        for label, calls in BY_SOURCE.items()
    },
    "madke-figures-7-9": either("rounds-1", madke(rounds=1))
    | {k: v for label, calls in SIZES.items() for k, v in either(label, calls).items()},
    "liang-table-3": {"standard": 1, "rerank": 4, "maps": 7, "self-reflect": (2, 5), "liang": LIANG},
    "liang-table-4": {"self-reflect": (2, 5), "liang": LIANG},
    "liang-table-5": {"standard": 1, "cot": 1, "self-consistency": 5, "self-reflect": (2, 5), "liang": LIANG},
    "liang-table-7": dict.fromkeys(
        ("turbo-turbo-turbo", "gpt4-gpt4-gpt4", "turbo-gpt4-turbo", "turbo-gpt4-gpt4", "gpt4-turbo-gpt4"), LIANG
    ),
    "liang-figure-4": {f"level-{n}": LIANG for n in range(4)},
    "liang-figure-1": {"cot": 1, "self-reflect": (0, 7), "debate": (0, 2 * 4 + 1)},
    "liang-figure-3": {f"forced-{r}": 2 * r + 1 for r in (1, 2, 3, 4)}
    | {"self-reflect-1": 1, "self-reflect-2": (2, 3), "self-reflect-3": (2, 5), "self-reflect-4": (2, 7)}
    | {"adaptive": LIANG},
    "liang-weak-and-strong": {
        f"{debaters}-{judge}": LIANG
        for debaters in ("strong", "weak", "weak-affirmative", "weak-negative")
        for judge in ("strong-judge", "weak-judge")
    }
    | {"strong-alone": 1, "weak-alone": 1},
    "madc-table-1": {"mad": 20, "single": 1, "self-consistency": 10, "truth-last": 20, "madc": 20},
    "madc-figure-1": {"fixed": 20, "single": 1, "random": 20, "truth-first": 20, "truth-last": 20},
    "madc-figures-3-5": dict.fromkeys(("fixed", "random", "truth-first", "truth-last"), 20 * 20),
    "madc-agents": {f"{order}-{n}": 2 * n for order in ("mad", "madc") for n in range(3, 11)},
    "madc-figure-7": dict.fromkeys(("mad", "truth-last", "madc"), 10 * 6),
    "madc-figure-9": {"stances": 400}
    | {
        f"{order}-{read}": (0, 10)
        for order in ("correct-first", "incorrect-first", "alternating")
        for read in (1, 10, 20, 30, 40, 45, 50, 55, 60, 65, 70, 75, 80)
    },
    "position-audit": dict.fromkeys(("stances", "same", "again", "reversed", "rotated"), 10),
    "equal-cost": BOTH
    | {"cot": 1, "rag": 1, "mad": 2 * 3, "vote-same-calls": madke(), "rag-vote-same-calls": madke()}
    | {"vote-same-tokens": ..., "rag-vote-same-tokens": ...},
    "gain-parts": dict.fromkeys(("cot", "rag", "rag-reasoned"), 3)
    | {arm: (3 * least, 3 * most) for arm, (least, most) in (BOTH | {"votes": madke()}).items()},
    "prompt-sensitivity": {"madke": (3 * madke()[0], 3 * madke()[1])},
    "swap-audit": {"stances": 2}
    | {
        f"{variant}-{order}": calls
        for variant, calls in ((MADKE[0], 5), (MADKE[1], 5), ("gated", (2, 3)), ("mad", 2), ("reconcile", 2))
        for order in ("given", "exchanged")
    },
    "gold-passages": {f"rag-{pool}": 1 for pool in ("none", "retrieved", "context", "gold")}
    | either("none", madke(select=False))
    | {f"{variant}-{pool}": of(variant, madke()) for variant in MADKE for pool in ("retrieved", "context", "gold")},
}
"""Recipe -> arm -> calls a question, fewest and most (one number where they are the same; ``...``: as tokens say)."""

SLOW = [name for name, recipe in RECIPES.items() if len(list(recipe.all_arms())) > 6]


def plans_of(name: Any) -> Any:
    experiment_spec = ExperimentSpec(recipe=RECIPES[name], data="", questions=QUESTIONS, request=SCORED)
    return {plan.name: plan for plan in planned(experiment_spec, Planner(prices={}))}


def calls_of(plan: Any) -> Any:
    return tuple(load.calls / len(QUESTIONS) for load in (plan.least, plan.most))


def bounds(calls: Any) -> Any:
    return calls if isinstance(calls, tuple) else (calls, calls)


def rows_of_readme() -> Iterator[Any]:
    text = asset("eval", "recipes", "README.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("| `"):
            name, _, _, calls, _ = (cell.strip() for cell in line.strip("|").split(" |"))
            yield name.strip("` "), calls


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CALLS])
def test_every_arm_can_run_and_its_calls_are_those_of_its_formula(name: Any) -> None:
    plans = plans_of(name)
    found = {arm: calls_of(plan) for arm, plan in plans.items()}
    expected = {arm: bounds(calls) for arm, calls in CALLS[name].items() if calls is not ...}
    assert {arm: found[arm] for arm in expected} == expected
    assert set(found) == set(CALLS[name])
    stated = dict(rows_of_readme())[name]
    if ... not in CALLS[name].values():
        least, most = (round(sum(calls)) for calls in zip(*found.values(), strict=True))
        assert stated == (f"{least} to {most}" if least < most else f"{most:,}")
    for arm in RECIPES[name].all_arms():
        if arm.match_cost and arm.match_cost.by == "tokens":
            for bound in ("least", "most"):
                target, unit, vote = (getattr(plans[other], bound).all_tokens for other in (*arm.needs, arm.name))
                assert abs(vote - target) <= 0.51 * unit


@pytest.mark.parametrize(
    ("name", "order"),
    [("same", [*range(10)]), ("again", [*range(10)]), ("reversed", [*range(9, -1, -1)]), ("rotated", [9, *range(9)])],
)
def test_the_position_audit_changes_the_order_of_what_is_read_and_nothing_else(name: str, order: Any) -> None:
    experiment_spec = ExperimentSpec(recipe=RECIPES["position-audit"], data="", questions=QUESTIONS[:1])
    arms = {arm.name: arm for arm in experiment_spec.arms}
    speakers = [debater.name for debater in experiment_spec.spec(arms["stances"]).protocol.cast]
    said = [Turn(agent=agent, stance=Stance(text=f"Said <{n}>.", answer="it")) for n, agent in enumerate(speakers)]
    given = FirstRounds(rounds={"q0": {0: tuple(said)}}).reordered(arms[name].first_round.order)
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
        ("madke-table-2", "GPT-3.5-Turbo", "rag", "nq_open", "grader", 0.436),
        ("madke-table-2", "GPT-3.5-Turbo", "mad", "hotpotqa", "f1", 0.287),
        ("madke-table-2", "Qwen1.5-32B-Chat", "standard", "2wikimultihopqa", "grader", 0.22),
        ("madke-table-2", "Qwen1.5-72B-Chat", "cot", "fever", "label_accuracy", 0.625),
        ("madke-table-2", "Qwen1.5-72B-Chat", "madke", "triviaqa", "grader", 0.874),
        ("madke-table-2", "Qwen1.5-72B-Chat", "madke-reference", "fever", "label_accuracy", 0.686),
        ("madke-figure-4", "GPT-3.5-Turbo", "madke-google", "nq_open", "co2_judge_grader", 0.58),
        ("madke-figure-4", "Qwen1.5-32B-Chat", "madke-none", "triviaqa", "cons_judge", 0.958),
        ("madke-figure-4", "Qwen1.5-72B-Chat", "madke-both", "2wikimultihopqa", "co2_judge_grader", 0.342),
        ("madke-table-4", "GPT-4-Turbo", "standard", "mmlu_med", "choice_accuracy", 0.861),
        ("madke-table-4", "Qwen1.5-72B-Chat", "rag", "mmlu_med", "choice_accuracy", 0.524),
        ("madke-figure-6", "Qwen1.5-32B-Chat", "madke-32B-both", "hotpotqa", "grader", 0.57),
        ("madke-figures-7-9", "GPT-3.5-Turbo", "madke-agents-2", "hotpotqa", "cons_judge", 0.64),
        ("liang-table-3", "GPT-3.5-Turbo", "maps", "commonmt", "comet", 0.819),
        ("liang-table-3", "GPT-3.5-Turbo", "liang", "commonmt", "bleurt", 0.709),
        ("liang-table-3", "GPT-3.5-Turbo", "self-reflect", "commonmt", "human_quality", 3.43),
        ("liang-table-3", "GPT-4", "standard", "commonmt", "human_ambiguity_resolved", 0.685),
        ("liang-table-5", "GPT-3.5-Turbo", "liang", "ciar", "math_equivalence", 0.36),
        ("liang-table-7", "GPT-3.5-Turbo and GPT-4", "gpt4-turbo-gpt4", "commonmt", "sided_with_Affirmative", 0.6),
        ("liang-table-7", "GPT-3.5-Turbo and GPT-4", "turbo-gpt4-gpt4", "commonmt", "judge_tie", 0.06),
        ("madc-table-1", "GPT-4o-mini", "madc", "bbh_logical_deduction", "choice_accuracy", 0.892),
        ("madc-table-1", "Qwen2.5-3B-Instruct", "truth-last", "bbh_geometric_shapes", "choice_accuracy", 0.48),
        ("madc-table-1", "GLM-4-FlashX", "self-consistency", "math500", "math_equivalence", 0.538),
        ("madc-table-1", "qwen-plus", "madc", "math500", "math_equivalence", 0.808),
        ("madc-table-1", "DeepSeek-R1-Distill-Qwen-14B", "madc", "math500", "math_equivalence", 0.908),
        ("madc-agents", "Qwen2.5-7B-Instruct", "madc-3", "bbh_geometric_shapes", "choice_accuracy", 0.58),
        ("madc-agents", "DeepSeek-R1-Distill-Qwen-7B", "mad-7", "bbh_logical_deduction", "choice_accuracy", 0.736),
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
