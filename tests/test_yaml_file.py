"""YAML with errors for people."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel

from madke._util.yaml_file import read_entries, read_mapping, read_yaml
from madke.core.errors import UserError


def test_a_key_that_stands_twice_is_refused_wherever_it_is(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text("grid:\n  size:\n    one: {a: 1}\n    one: {a: 2}\n")
    with pytest.raises(UserError, match=r"recipe\.yaml:4: is not YAML: 'one' is already on line 3"):
        read_mapping(file)


def test_a_merged_mapping_may_be_overridden(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text("base: &base {a: 1, b: 2}\narm: {<<: *base, b: 3}\n")
    assert read_mapping(file)["arm"] == {"a": 1, "b": 3}


class Leaf(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int
    name_of: str = Field("", alias="name")


class Tree(BaseModel):
    model_config = ConfigDict(extra="forbid")

    leaves: list[Leaf] = []
    by_name: dict[str, Leaf | list[Leaf]] = {}
    best: Leaf | None = None


class Forest(RootModel[dict[str, Tree]]):
    pass


def refusal(folder: Any, text: Any, model: Any = Tree) -> Any:
    file = folder / "tree.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as refused:
        read_yaml(file, model)
    return str(refused.value).removeprefix(f"{file}:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("best: {size: 1}\nleavs: []\n", "2: unknown key 'leavs'; did you mean 'leaves'?"),
        ("zzz: 1\n", "1: unknown key 'zzz'; known: leaves, by_name, best"),
        ("leaves:\n- size: 1\n- size: 1\n  siez: 2\n", "4: unknown key 'leaves.1.siez'; did you mean 'size'?"),
        ("leaves:\n- size: 1\n- {}\n", "3: leaves.1.size: Field required"),
        ("best:\n  name: x\n  size: big\n", "3: best.size: Input should be a valid integer"),
        ("by_name:\n  a: {size: 1}\n  b:\n  - size: 1\n  - size: x\n", "5: by_name.b."),
        ("by_name:\n  base: &b\n    size: x\n  other: {<<: *b}\n", "3: by_name.base."),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    assert refusal(tmp_path, text).startswith(said)


def test_a_file_that_is_all_entries_has_lines_and_suggestions_too(tmp_path: Path) -> None:
    assert refusal(tmp_path, "one:\n  leavs: []\n", Forest) == "2: unknown key 'one.leavs'; did you mean 'leaves'?"


def test_an_entry_whose_name_is_a_number_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("small:\n  model: m\n7:\n  model: n\n")
    with pytest.raises(UserError, match=r"models\.yaml:3: expected a name, found 7"):
        read_entries(file)
