"""A request of a run: its fields are options of commands and keywords of functions, and all reach ``run.json``."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.cli import ablate, ask, run, serve
from madke.engine.deferral import Calibration
from madke.engine.variant import variant_folders
from madke.runs.request import Asker, askable, descriptions
from madke.runs.spec import resolve
from tests.data.published import write

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


def test_a_number_below_its_minimum_and_an_unknown_keyword_are_refused() -> None:
    with pytest.raises(madke.UserError, match="limit = 0; expected at least 1"):
        madke.RunRequest(limit=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'modle'; did you mean 'model'"):
        madke.run([], modle="offline")
    with pytest.raises(TypeError, match="unexpected keyword argument 'limit'"):
        madke.ask("Which lake?", limit=3)


QUESTIONS = [
    {"id": id_, "question": f"Which {id_} is the largest?", "answers": [id_]} for id_ in ("lake", "sea", "bay")
]
BASE = madke.RunRequest(questions=QUESTIONS, protocol="madke", sources="wiki")


def own_reader(path: Path) -> list[madke.Question]:
    records = map(json.loads, path.read_text().splitlines())
    return [madke.Question(id=each["id"], question=each["question"]) for each in records]


def own_prompts(folder: Path) -> Path:
    """The protocol with one more line in each template."""
    shutil.copytree(variant_folders()["madke"], folder / "madke")
    for template in (folder / "madke").glob("*.j2"):
        template.write_text(template.read_text() + "Be brief.\n")
    return folder


def calibration(file: Path, *, signal: str) -> Path:
    made = Calibration(
        run="first",
        variant="madke",
        tasks=("short_answer",),
        models=("offline",),
        signal=signal,
        points=tuple((n / 200, False) for n in range(200)),
    )
    return write(file, made.model_dump_json())


def stances(folder: Path) -> Path:
    given = [{"agent": f"S{n}", "text": "It is [it].", "answer": "it"} for n in (1, 2)]
    return write(folder / "first.jsonl", [{"id": question["id"], "stances": given} for question in QUESTIONS])


VALUES: dict[str, Callable[[Path], Any]] = {
    "questions": lambda _: QUESTIONS[:2],
    "protocol": lambda _: "madke-reference",
    "model": lambda _: "openai/m",
    "sources": lambda _: "wiki,google",
    "task": lambda _: "math",
    "cast": lambda _: {"debater-2": "openai/m"},
    "settings": lambda _: {"rounds": 2},
    "error_at_most": lambda _: 0.1,
    "calibration": lambda folder: calibration(folder / "other.json", signal="steady"),
    "prompts": own_prompts,
    "wording": lambda _: "paper",
    "first_round": stances,
    "answer_scorer": lambda _: "other-scorer",
    "dataset": lambda _: own_reader,
    "columns": lambda _: {"instructions": "id"},
    "ids": lambda folder: str(write(folder / "ids.txt", "sea\n")),
    "limit": lambda _: 2,
    "sample_seed": lambda _: 3,
    "repeats": lambda _: 2,
    "seed": lambda _: 7,
}
"""Field -> another value than that of the request it is changed in. A new field needs a line here."""


def fitting(name: str, folder: Path) -> madke.RunRequest:
    """A request in which the field has a use."""
    needs: dict[str, Any] = {}
    if name == "sample_seed":
        needs = {"limit": 2}
    elif name == "answer_scorer":
        needs = {"protocol": "rerank", "sources": "none", "answer_scorer": "scorer"}
    elif name in ("dataset", "columns", "ids"):
        needs = {"questions": write(folder / "questions.jsonl", [{**each, "golden_answers": []} for each in QUESTIONS])}
    elif name in ("error_at_most", "calibration"):
        needs = {"calibration": calibration(folder / "calibration.json", signal="judge"), "error_at_most": "5%"}
    return replace(BASE, **needs)


@pytest.mark.parametrize("name", VALUES)
def test_a_field_alone_changes_what_run_json_freezes(name: str, tmp_path: Path) -> None:
    request = fitting(name, tmp_path)
    changed = replace(request, **{name: VALUES[name](tmp_path)})
    assert resolve(changed).record != resolve(request).record


def test_run_json_freezes_the_passages_of_the_pool_file(tmp_path: Path) -> None:
    frozen = {}
    for text in ("It is Lake Como.", "It is Lake Garda."):
        records = [{**each, "passages": [{"source": "notes", "text": text}]} for each in QUESTIONS]
        pools = write(tmp_path / "pools.jsonl", records)
        request = replace(BASE, sources="notes", pools=str(pools), model=lambda messages: "I do not know.")
        frozen[text] = madke.run(request, out=tmp_path / text).record.pools
    one, other = frozen.values()
    assert [*one] == [*other] == [each["id"] for each in QUESTIONS]
    assert one != other
