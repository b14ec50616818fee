"""Names that stand for code."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.registry import Registry, import_object, qualified_name


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry of numbers, and a module with one more."""
    (tmp_path / "plugged.py").write_text("three = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry("number", {"one": 1, "two": 2})
    sys.modules.pop("plugged", None)


def test_names_are_looked_up_and_imported(numbers: Registry) -> None:
    assert (numbers["two"], numbers["plugged:three"], len(numbers)) == (2, 3, 2)
    assert list(numbers) == ["one", "two"]
    with pytest.raises(UserError, match="unknown number 'tow'; did you mean 'two'"):
        numbers["tow"]
    with pytest.raises(UserError, match="number 'plugged:none' cannot be imported: AttributeError"):
        numbers["plugged:none"]


def test_a_value_of_this_process_takes_no_name_of_ours(numbers: Registry) -> None:
    numbers.add("four", 4)
    numbers.add("four", 5)
    assert numbers["four"] == 5
    with pytest.raises(UserError, match="there is a number 'one' already"):
        numbers.add("one", 5)


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


@pytest.mark.usefixtures("numbers")
def test_values_are_adapted_unless_they_are_ours() -> None:
    doubled = Registry("number", {"one": 1}, adapt=lambda name, value: 2 * value)
    assert (doubled["one"], doubled["plugged:three"]) == (1, 6)


def test_a_named_module_of_the_working_directory_is_imported_and_nothing_else_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "just_here.py").write_text("class Inner:\n    value = 7\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)

    assert import_object("just_here:Inner.value") == 7
    assert sys.path == before
    with pytest.raises(AttributeError, match="has no attribute 'Outer'"):
        import_object("just_here:Outer")


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

    assert import_object("trusted_one:lies_here") is None
