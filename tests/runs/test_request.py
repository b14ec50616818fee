"""A request of a run: its fields are the options of commands and the keywords of functions."""

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.api.batch import inputs_of
from madke.cli import ablate, ask, run, serve
from madke.runs.options import descriptions
from madke.runs.request import Asker, askable

ASKED_BY: dict[Asker, tuple[Any, Any]] = {
    "run": (madke.run, run.command),
    "ask": (madke.ask, ask.command),
    "serve": (None, serve.command),
    "experiment": (madke.ablate, ablate.command),
}


@pytest.mark.parametrize("asker", ASKED_BY)
def test_what_an_asker_may_set_is_an_option_and_a_keyword(asker: Asker) -> None:
    function, command = ASKED_BY[asker]
    about, options = descriptions(madke.RunRequest), signature(command).parameters
    for name in askable(asker):
        (option,) = options[name].annotation.__metadata__
        assert option.help == about[name].help
        assert function is None or name in signature(function).parameters
        assert options[name].default in (madke.RunRequest.__dataclass_fields__[name].default, None)


@pytest.mark.parametrize(("field", "value"), [("limit", 0), ("repeats", 0)])
def test_a_number_below_its_minimum_is_refused(field: str, value: int) -> None:
    with pytest.raises(madke.UserError, match=f"{field} = {value}; expected at least 1"):
        replace(madke.RunRequest(), **{field: value})  # type: ignore[arg-type]


def test_an_unknown_keyword_names_the_nearest_one() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'modle'; did you mean 'model'"):
        madke.run([], modle="offline")
    with pytest.raises(TypeError, match="unexpected keyword argument 'limit'"):
        madke.ask("Which lake?", limit=3)


def test_the_files_that_a_request_names_are_inputs() -> None:
    request = madke.RunRequest(questions="q.jsonl", first_round="first.jsonl", calibration="calibration.json")
    inputs = inputs_of(request, {"web": "web.jsonl"}, madke.RunOptions(prices=Path("prices.yaml")))
    assert {path.name for path in inputs} == {"q.jsonl", "web.jsonl", "first.jsonl", "calibration.json", "prices.yaml"}


def test_a_whole_request_is_the_same_as_its_fields(tmp_path: Path) -> None:
    request = madke.RunRequest(questions=["Which lake is the deepest?"], protocol="standard", seed=3)
    first = madke.run(request, out=tmp_path / "a")
    second = madke.run(["Which lake is the deepest?"], protocol="standard", seed=3, out=tmp_path / "b")
    assert first.spec == second.spec
    assert madke.run(request, seed=4, out=tmp_path / "c").spec.seed == 4
