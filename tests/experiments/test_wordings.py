"""Protocols in other words in recipes: of a folder or of the paper's structure."""

from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.engine.variant import copy_variant, load_variant
from madke.experiments.experiment import ablate
from madke.experiments.experiment_spec import read_experiment_spec
from madke.experiments.recipe import Recipe
from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from madke.runs.request import RunOptions, RunRequest
from tests.data.published import write
from tests.support.dataset import write_dataset


def test_an_arm_sends_the_templates_of_its_folder_and_is_replayed(tmp_path: Path) -> None:
    copy_variant(load_variant("madke"), tmp_path / "mine" / "madke")
    template = tmp_path / "mine" / "madke" / "select.j2"
    template.write_text(template.read_text().replace("Which passages help to answer this?", "Kindly point to some."))
    arms = [{"name": "shipped"}, {"name": "mine", "prompts": str(tmp_path / "mine")}]
    base = {"protocol": "madke", "sources": "wiki,google"}
    found = Recipe.model_validate({"title": "t", "source": "s", "base": base, "arms": arms})
    questions, pools = write_dataset(tmp_path, 1)
    script = write(tmp_path / "script.yaml", "- reply: The answer is [Lake Baikal].")
    inputs: dict[str, Any] = {"model": f"scripted/{script}", "pools": pools, "out": tmp_path / "out"}
    ablate(found, questions, **inputs)

    def debates() -> dict[str, list[Transcript]]:
        return {arm.name: list(read_transcripts(arm)) for arm in (tmp_path / "out" / "arms").iterdir()}

    played = debates()
    assert {*played} == {"mine", "shipped"}
    with CallStore(tmp_path / "out" / "calls.sqlite") as store:
        for arm in played:
            asked = [call.messages for call in store.calls(payer=arm) if call.purpose.stage == "select"]
            assert {"Kindly point" in messages[-1].content for messages in asked} == {arm == "mine"}
    for arm in played:
        (tmp_path / "out" / "arms" / arm / "transcripts.jsonl").unlink()
    ablate(found, questions, options=RunOptions(replay=True), **inputs)
    assert debates() == played


def test_one_wording_for_all_arms_changes_those_that_it_has(tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 1)
    arms = [{"name": "one", "protocol": "cot"}, {"name": "du", "protocol": "mad"}]
    arms += [{"name": "own", "protocol": "mad", "wording": "paper"}]
    recipe = write(tmp_path / "recipe.yaml", {"title": "t", "source": "s", "arms": arms})
    spec = read_experiment_spec(str(recipe), [str(questions)], RunRequest(wording="paper"))
    assert {arm.name: run.record.wording for arm, run in spec.specs} == {"one": None, "du": "paper", "own": "paper"}
    plain = read_experiment_spec(str(recipe), [str(questions)], RunRequest())
    assert {arm.name: run.record.wording for arm, run in plain.specs} == {"one": None, "du": None, "own": "paper"}
    write(recipe, {"title": "t", "source": "s", "arms": arms[:1]})
    with pytest.raises(UserError, match="has prompts of none of cot"):
        read_experiment_spec(str(recipe), [str(questions)], RunRequest(wording="paper"))
