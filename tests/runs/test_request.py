"""A request of a run: its fields are the options of commands and the keywords of functions."""

from dataclasses import replace
from inspect import signature
from typing import Any

import pytest

import madke
from madke.cli import ablate, ask, run, serve
from madke.runs.request import Asker, askable, descriptions

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
