"""What explains madke: help of every verb, the description for agents, and hints that can be followed as printed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from madke._util import assets
from madke.cli import app
from tests.support.cli import madke, refused
from tests.support.dataset import write_dataset
from tests.support.openai_server import chat, openai_server


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name in getattr(command, "commands", {}):
        yield from verbs(command.get_command(None, name), (*path, name))


@pytest.mark.parametrize("verb", [*verbs(typer.main.get_command(app.app))], ids=" ".join)
def test_common_options_fit_one_screen(verb: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(app.app, [*verb, "--help"])
    assert done.exit_code == 0
    shown = done.stdout.strip("\n").splitlines()
    (start,) = [n for n, line in enumerate(shown) if line.startswith("╭─ Options ")]
    end = next(n for n, line in enumerate(shown) if n > start and line.startswith("╰"))
    assert end < 40  # lines of a screen


def test_madke_describes_everything_as_one_object_or_as_a_guide_for_agents() -> None:
    found: dict[str, Any] = json.loads(madke("describe", "--json").stdout)
    verbs = {verb["name"]: verb for verb in found["verbs"]}
    assert len([name for name in verbs if name.count(" ") == 1]) <= 15
    out = next(each for each in verbs["madke index build"]["parameters"] if "--out" in each["names"])
    assert (out["usage"], out["required"]) == ("--out DIR", True)
    protocols = {each["name"]: each for each in found["protocols"]}
    assert protocols["madke"]["calls"] == {"fewest": 5, "most": 16}
    assert found["settings"]["properties"]["select"]["enum"] == ["adaptive", "all", "one_each", "views", "none"]
    assert found["sources"]["wiki"] == "built in"
    assert madke("describe").stdout.startswith("---\nname: madke\n")


def test_a_verb_of_earlier_versions_names_todays() -> None:
    assert "madke serve --mcp" in refused("mcp", "anything")
    assert "madke report PATH --answers" in refused("export", "anything")
    assert "madke score PATH --calibrate" in refused("calibrate", "anything")
    assert "madke protocols prompt" in refused("prompts", "anything")


def test_extras_are_installed_into_a_checkout_or_next_to_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "my checkout"
    (checkout / "madke").mkdir(parents=True)
    monkeypatch.setattr(assets, "PACKAGE", checkout / "madke")
    assert assets.install("wiki") == f"pip install -e '{checkout}[wiki]'"
    monkeypatch.chdir(checkout)
    assert assets.install("wiki") == "pip install -e '.[wiki]'"
    (checkout / "madke" / "_assets").mkdir()
    assert assets.install("wiki") == "pip install 'madke[wiki]'"


def test_replies_that_were_cut_off_are_counted_with_the_cure(tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 2)
    cut = chat("Let me first compare the depths of all of the lakes", finish_reason="length")
    with openai_server(cut) as server:
        options = ("--model", "openai/m", "--base-url", server.url, "--protocol", "standard", "--set", "max_tokens=16")
        done = madke("run", questions, *options, "--out", tmp_path / "out")
    note = "2 replies were cut off at 16 tokens and cannot be read (speak 2); --set max_tokens=N"
    assert f"madke: {note}" in done.stderr.splitlines()
    assert "unread" in done.stdout
    words = " ".join(madke("score", tmp_path / "out", "--details").stdout.split())
    assert "out: 2 replies were cut off at max_tokens and cannot be read (speak 2); --set max_tokens=N." in words
    assert "abst." not in words
