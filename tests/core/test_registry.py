"""Names that stand for code."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.registry import Registry, imported, qualified_name


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry of numbers, of which an installed package brings two."""
    info = tmp_path / "site" / "plugged-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[test.numbers]\nthree = plugged:three\nbroken = plugged:none\n")
    (tmp_path / "site" / "plugged.py").write_text("three = 3\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield Registry("number", {"one": 1, "two": 2}, "test.numbers")
    sys.modules.pop("plugged", None)


def test_ours_come_first_and_plugins_are_found_by_name(numbers: Registry) -> None:
    assert list(numbers) == ["one", "two", "three", "broken"]
    assert (numbers["two"], numbers["three"], len(numbers)) == (2, 3, 4)
    assert numbers.code("three") == "plugged 2.0, plugged:three"


def test_the_nearest_name_is_told(numbers: Registry) -> None:
    with pytest.raises(UserError, match="unknown number 'thre'; did you mean 'three'"):
        numbers["thre"]


def test_a_plugin_that_cannot_be_imported_is_one_line(numbers: Registry) -> None:
    with pytest.raises(UserError, match="number 'broken' cannot be imported: AttributeError"):
        numbers["broken"]


def test_a_plugin_does_not_take_a_name_of_ours(numbers: Registry) -> None:
    taken = Registry("number", {"three": 4}, "test.numbers")
    with pytest.raises(UserError, match="the package plugged defines a number 'three', which exists already"):
        taken["four"]


def test_a_value_of_this_process_takes_no_name_of_ours_or_of_a_package(numbers: Registry) -> None:
    numbers.add("four", 4)
    numbers.add("four", 5)
    assert numbers["four"] == 5
    for taken in ("one", "three"):
        with pytest.raises(UserError, match=f"there is a number '{taken}' already"):
            numbers.add(taken, 5)


def asked(temperature: float) -> Callable[..., Any]:
    return lambda messages: f"{temperature}"


def test_functions_of_one_name_are_told_apart_by_what_they_do() -> None:
    names = [
        qualified_name(each)
        for each in (
            asked(0.1),
            asked(0.5),
            lambda messages: "yes",
            lambda messages: "no",
            lambda messages: messages in {"a", "b"},
            partial(asked, 0.1),
            partial(asked, 0.5),
        )
    ]
    assert len({*names}) == len(names)
    assert qualified_name(asked(0.1)) == names[0]  # the same in another call, and in another process
    assert qualified_name(asked) == f"{__name__}:asked"


def test_values_are_adapted_unless_they_are_ours(numbers: Registry) -> None:
    doubled = Registry("number", {"one": 1}, "test.numbers", adapt=lambda name, value: 2 * value)
    assert (doubled["one"], doubled["three"]) == (1, 6)


def test_a_named_module_of_the_working_directory_is_imported_and_nothing_else_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "just_here.py").write_text("class Inner:\n    value = 7\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)

    assert imported("just_here:Inner.value") == 7
    assert sys.path == before
    with pytest.raises(AttributeError, match="has no attribute 'Outer'"):
        imported("just_here:Outer")


def test_imports_of_a_module_that_lies_elsewhere_do_not_search_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "trusted_one.py").write_text(
        "try:\n    import lies_here\nexcept ImportError:\n    lies_here = None\n"
    )
    (tmp_path / "lies_here.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)

    assert imported("trusted_one:lies_here") is None
