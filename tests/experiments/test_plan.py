"""What a plan says of runs of several datasets, of repeats, and of first rounds that are taken over."""

import pytest

from madke.core.question import Question
from madke.experiments.plan import Planner, planned
from madke.experiments.recipe import Recipe
from madke.experiments.setting import Setting


def plans(recipe, questions):
    recipe = Recipe.model_validate({"title": "A test", "source": "a test", **recipe})
    setting = Setting(recipe=recipe, data="", questions=questions)
    return {plan.name: plan for plan in planned(setting, Planner(prices={}), None)}


def questions(count, text="Which lake is the deepest?"):
    return [Question(id=f"{text[:5]}{n}", question=text) for n in range(count)]


@pytest.mark.parametrize("count", [30, 45, 100])
def test_every_dataset_has_its_part_in_the_plan(count):
    arm = {"arms": [{"name": "one", "protocol": "standard"}]}
    short, long = questions(count), questions(count, "A long question. " * 100)
    tokens = [plans(arm, asked)["one"].most.prompt_tokens for asked in (short, long, short + long)]
    assert tokens[2] == pytest.approx(tokens[0] + tokens[1], rel=0.03)


def test_more_repeats_than_an_earlier_arm_has_are_paid():
    repeats = {"once": 1, "often": 20, "again": 5}
    arms = [{"name": name, "protocol": "standard", "repeats": n} for name, n in repeats.items()]
    found = plans({"arms": arms}, questions(3))
    assert {name: plan.most.calls for name, plan in found.items()} == {name: 3 * n for name, n in repeats.items()}
    assert {name: plan.most.paid for name, plan in found.items()} == pytest.approx({"once": 3, "often": 57, "again": 0})
    assert found["often"].most.prompt_tokens == pytest.approx(19 * found["once"].most.prompt_tokens)


@pytest.mark.parametrize("other", [{"arm": "two"}, {"arm": "one", "order": "reversed"}])
def test_what_follows_from_another_first_round_is_paid(other):
    arms = [
        {"name": "one"},
        {"name": "two", "seed": 7},
        {"name": "after", "given": {"arm": "one"}},
        {"name": "same", "given": {"arm": "one"}},
        {"name": "other", "given": other},
    ]
    found = plans({"base": {"protocol": "madke", "sources": "wiki", "set": {"rounds": 2}}, "arms": arms}, questions(3))
    # The judge on the given stances, and a summary; then selections, stances and a verdict of the second round too.
    paid = {name: (plan.least.paid, plan.most.paid) for name, plan in found.items()}
    assert {name: paid[name] for name in ("after", "same", "other")} == {
        "after": (3 * 2, 3 * 7),
        "same": (0, 0),
        "other": (3 * 2, 3 * 7),
    }
