"""Hints that a person can follow as they are printed, and causes before consequences."""

from pathlib import Path

import pytest

from madke._util import assets
from madke._util.assets import install
from tests.support.cli import madke
from tests.support.dataset import write_dataset
from tests.support.openai_server import chat, openai_server


def test_extras_are_installed_into_a_checkout_or_next_to_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "PACKAGE", tmp_path / "my checkout" / "madke")
    (tmp_path / "my checkout" / "madke").mkdir(parents=True)
    assert install("wiki") == f"pip install -e '{tmp_path}/my checkout[wiki]'"
    monkeypatch.chdir(tmp_path / "my checkout")
    assert install("wiki") == "pip install -e '.[wiki]'"
    (tmp_path / "my checkout" / "madke" / "_assets").mkdir()
    assert install("wiki") == "pip install 'madke[wiki]'"


def test_replies_that_were_cut_off_are_counted_with_the_cure(tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 2)
    cut = chat("Let me first compare the depths of all of the lakes", finish_reason="length")
    with openai_server(cut) as server:
        options = ("--model", "openai/m", "--base-url", server.url, "--protocol", "standard", "--set", "max_tokens=16")
        done = madke("run", questions, *options, "--out", tmp_path / "out")
    note = "2 replies were cut off at 16 tokens and cannot be read (speak 2); --set max_tokens=N"
    assert f"madke: {note}" in done.stderr.splitlines()
    assert "unread" in done.stdout
    scored = madke("score", tmp_path / "out", "--details")
    words = " ".join(scored.stdout.split())
    assert "out: 2 replies were cut off at max_tokens and cannot be read (speak 2); --set max_tokens=N." in words
    assert "abst." not in words
