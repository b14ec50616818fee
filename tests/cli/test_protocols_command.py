"""``madke protocols``: the list, one of them, its prompts, and a copy whose words are your own."""

import json
from pathlib import Path

import pytest

from madke.engine.variant import copy_variant, load_variant, variant_folders
from madke.report.protocol_text import sample_prompt
from tests.data.published import write
from tests.support.cli import madke, refused

MINE = {
    "protocol.yaml": 'source: "our own"\nfunction: mad\ndebaters: 2\nearly_stop: agreement\n',
    "speak.j2": "{% block system %}{% endblock %}{% block user %}{{ question.question }}{% endblock %}",
    "reply.j2": "{% block system %}{% endblock %}{% block user %}{{ peers }}{% endblock %}",
}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    for name, text in MINE.items():
        write(tmp_path / "mine" / "pair" / name, text)
    return tmp_path / "mine"


def test_all_are_listed_with_their_source(mine: Path) -> None:
    assert "madke 5-16 Wang et al., 2023" in " ".join(madke("protocols").stdout.split())
    assert "pair 2-4 our own" in " ".join(madke("protocols", "--prompts", mine).stdout.split())


def test_one_is_printed_with_settings_changed(mine: Path) -> None:
    done = madke("protocols", "show", "pair", "--prompts", mine, "--set", "debaters=3", "--set", "rounds=4")
    assert done.returncode == 0, done.stderr
    assert "pair: our own\n" in done.stdout
    shown = " ".join(done.stdout.split())
    assert "debaters=3 early_stop=agreement" in shown
    assert "If no answers are ever the same, 12 calls: round 1 Debater 1: speak Debater 2: speak" in shown
    assert "Calls per question: 3-12\n" in done.stdout
    assert "  reply: reply.j2\n" in done.stdout


def test_a_prompt_is_shown_as_it_is_sent() -> None:
    shown = madke("protocols", "prompt", "madke", "select").stdout
    assert shown.startswith("Debater 1: select, round 1\n\n--- system\nYou are a debater.")
    assert "Question: Who reached the top of Kilimanjaro" in shown
    assert "Passage 9 (" in shown
    assert "Choose at most 2." in madke("protocols", "prompt", "madke", "select", "--set", "max_selected=2").stdout
    record = json.loads(madke("protocols", "prompt", "liang", "judge", "--json").stdout)
    system, user = record.pop("messages")
    assert record == {"protocol": "liang", "stage": "judge", "agent": "judge", "round": 1}
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Affirmative's answer in round 1" in user["content"]


def test_a_protocol_is_copied_to_change_its_words(tmp_path: Path) -> None:
    done = madke("protocols", "copy", "madke", tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"use them with --prompts {tmp_path}" in done.stdout
    assert "exists already" in refused("protocols", "copy", "madke", tmp_path)


def test_what_cannot_be_shown_is_one_line(mine: Path) -> None:
    assert "unknown protocol 'makde'; did you mean 'madke'?" in refused("protocols", "show", "makde")
    assert "rounds: Input should be" in refused("protocols", "show", "madke", "--set", "rounds=0")
    assert "unknown stage of mad 'jugde'" in refused("protocols", "prompt", "mad", "jugde")
    assert "to the list" in refused("protocols", "--prompts", mine, "show", "pair")
    (mine / "pair" / "reply.j2").unlink()
    assert "reply.j2: missing" in refused("protocols", "show", "pair", "--prompts", mine)
    assert "reply.j2: missing" in refused("protocols", "--prompts", mine)


@pytest.mark.parametrize("name", variant_folders())
def test_a_copy_sends_the_same_prompts(name: str, tmp_path: Path) -> None:
    shipped = load_variant(name)
    copy_variant(shipped, tmp_path / name)
    copied = load_variant(name, tmp_path)
    assert copied.folder == tmp_path / name
    given = {"speak"} if shipped.protocol.first_round_given else set()  # a stage that no debate reaches
    for stage in {*shipped.protocol.trace.stages} - given:
        assert sample_prompt(copied, stage).messages == sample_prompt(shipped, stage).messages
