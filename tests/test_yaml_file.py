"""YAML with errors for people."""

import pytest

from madke.core.errors import UserError
from madke.yaml_file import read_mapping


def test_a_key_that_stands_twice_is_refused_wherever_it_is(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("grid:\n  size:\n    one: {a: 1}\n    one: {a: 2}\n")
    with pytest.raises(UserError, match=r"recipe\.yaml:4: is not YAML: 'one' stands on line 3 already"):
        read_mapping(file)


def test_a_merged_mapping_may_be_overridden(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("base: &base {a: 1, b: 2}\narm: {<<: *base, b: 3}\n")
    assert read_mapping(file)["arm"] == {"a": 1, "b": 3}
