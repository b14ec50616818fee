import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.variant import load_variant, setting, variant_folders
from madke.tasks.short_answer import ShortAnswer

QUESTION = Question(id="q", question="Which metal is liquid?", task="choice", choices=("tin", "mercury"))
VALUES = {"question": QUESTION, "round": 1, "rounds": 3}


def test_a_setting_is_a_path_and_a_yaml_value() -> None:
    variant = load_variant("madke").with_settings(dict(map(setting, ["per_source=3", "reads={peers: none}"])))
    assert variant.protocol.knowledge.per_source == 3
    assert variant.protocol.model_dump()["reads"]["peers"] == "none"


def test_sources_can_be_chosen_dropped_and_given_back() -> None:
    variant = load_variant("madke").with_sources(["google"])
    assert variant.protocol.knowledge.sources == ("google",)
    without = variant.with_sources([])
    assert without.protocol.knowledge is None
    assert without.with_sources(["wiki"]).protocol.knowledge.select == "adaptive"
    assert variant.with_settings({"sources": "none"}).protocol == without.protocol


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"debaters": []}, "1 to 200 debaters"),
        ({"debaters": [{"name": "A"}, {"name": "A"}]}, "distinct names"),
        ({"debaters": [{"name": "judge"}]}, "reserved name 'judge'"),
        ({"debaters": 1}, "needs at least two debaters"),
        ({"function": "alone"}, "the only debater, but 2 speak"),
        ({"talk": "sequential"}, "needs reads.peers = latest"),
        ({"rounds.x": 1}, "rounds has no fields"),
        ({"temperature": -1}, "greater than or equal to 0"),
    ],
)
def test_impossible_protocols_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_variant("madke").with_settings(settings)


def test_the_fingerprint_names_every_prompt_file() -> None:
    names = load_variant("madke").files
    assert {"madke/protocol.yaml", "madke/select.j2", "_shared/question.j2", "tasks/claim.yaml"} <= set(names)


@dataclass  # which has no hash
class Haiku(ShortAnswer):
    name = "haiku"


def test_a_task_may_bring_its_own_wording() -> None:
    task = Haiku()
    variant = load_variant("madke")
    values = {**VALUES, "stances": ()}
    with pytest.raises(UserError, match="haiku"):
        variant.render("summarize", task, values)

    wording = yaml.safe_load(asset("prompts", "tasks", "short_answer.yaml").read_text())
    task.wording = {**wording, "answer": "a haiku"}
    (_, user) = variant.render("summarize", task, values)
    assert user.content.endswith('begins with "The answer is" and gives a haiku.')

    task.wording = {**wording, "goal": 5}
    with pytest.raises(UserError, match="the wording of task 'haiku': goal"):
        variant.render("summarize", task, values)


@pytest.mark.parametrize("name", sorted(variant_folders()))
def test_a_shipped_variant_passes_the_checks_of_own_variants(name: str, tmp_path: Path) -> None:
    """The templates of shipped variants are not checked as they are loaded, which would take a second for all."""
    shutil.copytree(asset("prompts", name), tmp_path / name)
    assert load_variant(name, tmp_path).protocol == load_variant(name).protocol


def test_votes_are_weighed_only_where_a_template_asks_for_a_confidence() -> None:
    assert load_variant("reconcile").with_settings({"rounds": 2}).protocol.trace.weighs
    with pytest.raises(UserError, match="mad: the votes are weighed, but no template asks for a confidence"):
        load_variant("mad").with_settings({"function": "reconcile"})
