"""What a recipe's file may say, and which arms come of it."""

from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.experiments.experiment_spec import read_experiment_spec
from madke.experiments.recipe import Recipe, read_recipe
from madke.runs.request import RunRequest
from tests.data.published import write

HEAD = "title: A test\nsource: nowhere\n"


def written(folder: Path, text: str) -> str:
    return str(write(folder / "recipe.yaml", HEAD + text))


def recipe(**fields: Any) -> Recipe:
    return Recipe.model_validate({"title": "A test", "source": "nowhere", **fields})


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(UserError) as refused:
        read_recipe(written(folder, text))
    return str(refused.value)


def test_a_grid_has_an_arm_for_each_combination_the_first_axis_slowest_and_further_arms_after_it() -> None:
    found = recipe(
        grid={
            "protocol": {"b": {"protocol": "madke"}, "a": {"protocol": "mad"}},
            "sources": {"none": {"sources": "none"}, "wiki": {"sources": "wiki"}},
        },
        arms=[{"name": "alone", "protocol": "cot"}],
    )
    assert [(arm.name, arm.protocol, arm.sources) for arm in found.all_arms()] == [
        ("b-none", "madke", "none"),
        ("b-wiki", "madke", "wiki"),
        ("a-none", "mad", "none"),
        ("a-wiki", "mad", "wiki"),
        ("alone", "cot", None),
    ]


def test_settings_and_casts_are_merged_key_by_key_and_what_is_more_special_wins() -> None:
    found = recipe(
        base={"protocol": "madke", "set": {"rounds": 2, "debaters": 3}, "cast": {"judge": "a", "summarizer": "a"}},
        grid={
            "rounds": {"long": {"set": {"rounds": 5}, "cast": {"judge": "b"}}},
            "select": {"all": {"set": {"select": "all"}}},
        },
        arms=[{"name": "other", "protocol": "mad", "set": {"debaters": 4}}],
    )
    grid, other = found.all_arms()
    assert (grid.name, grid.protocol, grid.cast) == ("long-all", "madke", {"judge": "b", "summarizer": "a"})
    assert grid.set == {"rounds": 5, "debaters": 3, "select": "all"}
    assert (other.name, other.protocol, other.cast) == ("other", "mad", {"judge": "a", "summarizer": "a"})
    assert other.set == {"rounds": 2, "debaters": 4}


def test_an_arm_names_what_has_to_be_finished_before_it_and_stands_after_it() -> None:
    first, unit = {"name": "first"}, {"name": "unit"}
    again = {"name": "again", "first_round": {"arm": "first", "order": "reversed"}}
    as_dear = {"name": "as-dear", "match_cost": {"arm": "first", "by": "tokens", "unit": "unit"}}
    made = {arm.name: arm.needs for arm in recipe(arms=[first, unit, again, as_dear]).all_arms()}
    assert made == {"first": (), "unit": (), "again": ("first",), "as-dear": ("first", "unit")}
    for wrong, name, needed in (([again, first], "again", "first"), ([first, as_dear, unit], "as-dear", "unit")):
        with pytest.raises(ValueError, match=f"arm '{name}' needs arm '{needed}', which must be listed before it"):
            recipe(arms=wrong)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "a recipe needs a grid or arms"),
        ("grid: {x: {a: {}}}\narms: [{name: a}]", ": two arms have the name 'a'; names must be unique"),
        ("arms:\n- {name: a}\n- name: b\n  protocl: cot", ":6: unknown key 'arms.1.protocl'; did you mean 'protocol'?"),
        ("grid:\n  x:\n    a: {set: {}}\n    b:\n      sources: [wiki]", ":7: grid.x.b.sources: "),
        ("arms: [{name: a}]\npublished:\n  gpt: {a: {all: {em: 50.3}}}", ":5: published: em: found 50.3, expected"),
        ("arms: [{name: ../a}]", "arms.0.name"),
        ("arms: [{name: a}]\nreference: b", "no arm 'b'; expected one of a"),
        ("arms: &a [{name: a}, *a]", "expand to more than 50,000 values"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_file(tmp_path: Path, text: str, found: str) -> None:
    said = refusal(tmp_path, text)
    assert said.startswith(str(tmp_path / "recipe.yaml"))
    assert found in said
    assert "\n" not in said


def test_repeats_of_a_recipe_are_a_default() -> None:
    question = Question(id="q", question="?", answers=("a",))
    for asked, found in ((None, 3), (1, 1), (5, 5)):
        assert read_experiment_spec("madke-table-2", [question], RunRequest(repeats=asked)).request.repeats == found
    assert read_experiment_spec("liang-table-5", [question]).request.repeats == 1
