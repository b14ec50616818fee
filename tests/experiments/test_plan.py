"""What a plan says of runs of several datasets, of repeats, and of first rounds that are taken over."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from madke.core.question import Question
from madke.experiments.experiment_spec import ExperimentSpec
from madke.experiments.plan import Planned, Planner, plan_arms
from madke.experiments.recipe import Recipe
from tests.data.published import write


def plans(recipe: dict[str, Any], questions: Sequence[Question], pools: Sequence[Path] = ()) -> dict[str, Planned]:
    made = Recipe.model_validate({"title": "A test", "source": "a test", **recipe})
    spec = ExperimentSpec(recipe=made, data="", questions=questions, pools=pools)
    return {plan.name: plan for plan in plan_arms(spec, Planner(prices={}))}


def questions(count: int, text: str = "Which lake is the deepest?") -> list[Question]:
    return [Question(id=f"{text[:5]}{n}", question=text) for n in range(count)]


@pytest.mark.parametrize("count", [30, 45])
def test_every_dataset_has_its_part_in_the_plan(count: int) -> None:
    arm = {"arms": [{"name": "one", "protocol": "standard"}]}
    short, long = questions(count), questions(count, "A long question. " * 100)
    tokens = [plans(arm, asked)["one"].most.prompt_tokens for asked in (short, long, short + long)]
    assert tokens[2] == pytest.approx(tokens[0] + tokens[1], rel=0.03)


MADKE = {"name": "madke", "protocol": "madke", "sources": "wiki"}
SAME: dict[str, Any] = {"protocol": "self-consistency", "match_cost": {"arm": "madke", "by": "calls", "unit": "cot"}}


def test_a_run_as_dear_as_another_is_planned_from_the_shortest_to_the_longest_of_it() -> None:
    other = {**SAME, "name": "other", "match_cost": SAME["match_cost"] | {"arm": "again"}}
    votes = {"name": "same", **SAME}, {"name": "again", **SAME, "seed": 7}, {"name": "after", **SAME}, other
    found = plans({"arms": [MADKE, {"name": "cot", "protocol": "cot"}, *votes]}, questions(3))
    # 2nr + 1 calls of two debaters in one round to three, and up to r of the judge: none where it is in no doubt.
    assert [found[name].debaters for name in ("madke", "same", "other")] == [None, (5, 16), (5, 16)]
    for name in ("same", "again", "other"):
        assert (found[name].least.calls, found[name].most.calls) == (3 * 5, 3 * 16)
    # Two equal votes make the same calls in each world.
    assert (found["same"].least.paid, found["same"].most.paid) == (3 * 5, 3 * 16)
    assert (found["after"].least.paid, found["after"].most.paid) == (0, 0)


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        (Question(id="words", question="Who?"), 16),
        (Question(id="value", question="1 + 1?", task="math"), 13),
        (Question(id="letter", question="Which?", task="choice", choices=("x", "y", "z")), 13),
        (Question(id="label", question="Baikal is deep.", task="claim"), 13),
    ],
    ids=lambda value: getattr(value, "id", None),
)
@pytest.mark.parametrize("marker", ["plain", "brackets", "boxed"])
def test_the_longest_debate_asks_the_judge_only_where_answers_can_leave_doubt(
    asked: Question, most: int, marker: str
) -> None:
    """Values, letters and labels are the same or differ; only words are the judge's."""
    base = {"sources": "wiki", "set": {"marker": marker}}
    found = plans({"base": base, "arms": [{"name": name, "protocol": name} for name in ("madke", "gated")]}, [asked])
    assert (found["madke"].least.calls, found["madke"].most.calls) == (5, most)
    # Its judge is asked after the first of two rounds.
    assert (found["gated"].least.calls, found["gated"].most.calls) == (2, 6 if most == 16 else 5)


def test_several_pool_files_are_read_together(tmp_path: Path) -> None:
    asked = questions(3)
    arms = [{"name": name, "protocol": "rag", "sources": name} for name in ("wiki", "google", "wiki,google")]
    arms[-1]["name"] = "both"
    files = []
    for name in ("wiki", "google"):
        passages = [{"source": name, "text": f"{name} " * 40}]
        lines = [{"id": each.id, "question": each.question, "passages": passages} for each in asked]
        files.append(write(tmp_path / f"{name}.jsonl", lines))
    assumed, half, whole = (plans({"arms": arms}, asked, files[:count]) for count in range(3))
    for arm, plan in assumed.items():
        # One passage of 40 words instead of five of 100, in each source.
        assert whole[arm].most.prompt_tokens < plan.most.prompt_tokens
        assert half[arm].most.prompt_tokens == (whole if arm == "wiki" else assumed)[arm].most.prompt_tokens
    said = [[name for name, plan in found.items() if plan.assumed_passages] for found in (assumed, half, whole)]
    assert said == [["wiki", "google", "both"], ["google", "both"], []]
