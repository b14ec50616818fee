"""What a recipe's file may say, and which arms come of it."""

from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.experiments.experiment_spec import read_experiment_spec
from madke.experiments.recipe import Recipe, read_recipe
from madke.runs.request import RunRequest

HEAD = "title: A test\nsource: nowhere\n"


def written(folder: Path, text: str) -> str:
    file = folder / "recipe.yaml"
    file.write_text(HEAD + text, encoding="utf-8")
    return str(file)


def recipe(**fields: Any) -> Recipe:
    return Recipe.model_validate({"title": "A test", "source": "nowhere", **fields})


def arms(**fields: Any) -> dict[str, dict]:
    """Name -> what the arm says, without what it leaves out."""
    return {arm.name: arm.model_dump(exclude_unset=True, exclude={"name"}) for arm in recipe(**fields).all_arms()}


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(UserError) as refused:
        read_recipe(written(folder, text))
    return str(refused.value)


def test_a_grid_has_an_arm_for_each_combination_the_first_axis_slowest_and_further_arms_after_it(
    tmp_path: Path,
) -> None:
    text = """
grid:
  protocol:
    b: {protocol: madke}
    a: {protocol: mad}
  sources:
    none: {sources: none}
    wiki: {sources: wiki}
arms:
  - {name: alone, protocol: cot}
"""
    found = list(read_recipe(written(tmp_path, text)).all_arms())
    assert [(arm.name, arm.protocol, arm.sources) for arm in found] == [
        ("b-none", "madke", "none"),
        ("b-wiki", "madke", "wiki"),
        ("a-none", "mad", "none"),
        ("a-wiki", "mad", "wiki"),
        ("alone", "cot", None),
    ]


def test_settings_and_casts_are_merged_key_by_key_and_what_is_more_special_wins() -> None:
    found = arms(
        base={"protocol": "madke", "set": {"rounds": 2, "debaters": 3}, "cast": {"judge": "a", "summarizer": "a"}},
        grid={
            "rounds": {"long": {"set": {"rounds": 5}, "cast": {"judge": "b"}}},
            "select": {"all": {"set": {"select": "all"}}},
        },
        arms=[{"name": "other", "protocol": "mad", "set": {"debaters": 4}}, {"name": "plain"}],
    )
    assert found == {
        "long-all": {
            "protocol": "madke",
            "set": {"rounds": 5, "debaters": 3, "select": "all"},
            "cast": {"judge": "b", "summarizer": "a"},
        },
        "other": {
            "protocol": "mad",
            "set": {"rounds": 2, "debaters": 4},
            "cast": {"judge": "a", "summarizer": "a"},
        },
        "plain": {
            "protocol": "madke",
            "set": {"rounds": 2, "debaters": 3},
            "cast": {"judge": "a", "summarizer": "a"},
        },
    }


def test_an_arm_names_what_has_to_be_finished_before_it() -> None:
    made = recipe(
        arms=[
            {"name": "first"},
            {"name": "unit"},
            {"name": "again", "first_round": {"arm": "first", "order": "reversed"}},
            {"name": "as-dear", "match_cost": {"arm": "first", "by": "tokens", "unit": "unit"}},
        ]
    )
    assert {arm.name: arm.needs for arm in made.all_arms()} == {
        "first": (),
        "unit": (),
        "again": ("first",),
        "as-dear": ("first", "unit"),
    }


@pytest.mark.parametrize(
    "arms",
    [
        [{"name": "again", "first_round": {"arm": "first"}}, {"name": "first"}],
        [{"name": "again", "first_round": {"arm": "again"}}],
        [{"name": "first"}, {"name": "again", "match_cost": {"arm": "first", "unit": "one"}}, {"name": "one"}],
    ],
)
def test_what_an_arm_needs_stands_before_it(arms: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"arm 'again' needs arm '\w+', which must be listed before it"):
        recipe(arms=arms)


def test_two_arms_cannot_have_one_name(tmp_path: Path) -> None:
    grid = "grid: {x: {a: {}, b: {}}, y: {c: {}}}\n"
    assert (
        refusal(tmp_path, grid + "arms: [{name: b-c}]")
        == f"{tmp_path / 'recipe.yaml'}: two arms have the name 'b-c'; names must be unique"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "a recipe needs a grid or arms"),
        ("arms: [{name: a, protocl: madke}]", ":3: unknown key 'arms.0.protocl'; did you mean 'protocol'?"),
        (
            "arms:\n- {name: a}\n- name: b\n  protocl: madke",
            ":6: unknown key 'arms.1.protocl'; did you mean 'protocol'?",
        ),
        ("grid: {x: {a: {sauces: wiki}}}", ":3: unknown key 'grid.x.a.sauces'; did you mean 'sources'?"),
        ("grid:\n  x:\n    a: {set: {}}\n    b:\n      sources: [wiki]", ":7: grid.x.b.sources: "),
        ("arms: [{name: a}]\nzzz: 5", ":4: unknown key 'zzz'; known: title, source, about"),
        (
            "arms: [{name: a}]\npublished:\n  gpt:\n    a:\n      all:\n        em: 50.3",
            ":8: published: em: found 50.3, expected a share from 0 to 1",
        ),
        ("grid: {x: {}}", "grid.x"),
        ("arms: [{name: ../a}]", "arms.0.name"),
        ("arms: [{name: a, repeats: 0}]", "arms.0.repeats"),
        ("arms: [{name: a}, {name: b, first_round: {arm: a, order: sideways}}]", "arms.1.first_round.order"),
        ("arms: [{name: a}]\nreference: b", "no arm 'b'; expected one of a"),
        ("arms: [{name: a}]\npublished: {gpt: {b: {all: {em: 0.5}}}}", "no arm 'b'; expected one of a"),
        ("arms: &a [{name: a}, *a]", "expand to more than 50,000 values"),
        ("arms: [", "is not YAML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_file(tmp_path: Path, text: str, found: str) -> None:
    said = refusal(tmp_path, text)
    assert said.startswith(str(tmp_path / "recipe.yaml"))
    assert found in said
    assert "\n" not in said


@pytest.mark.parametrize(("asked", "found"), [(None, 3), (1, 1), (5, 5)])
def test_repeats_of_a_recipe_are_a_default(asked: int | None, found: int) -> None:
    question = Question(id="q", question="?", answers=("a",))
    assert read_experiment_spec("madke-table-2", [question], RunRequest(repeats=asked)).request.repeats == found
    assert read_experiment_spec("liang-table-5", [question]).request.repeats == 1
