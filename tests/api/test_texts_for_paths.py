"""Every path of the public API may be a text, relative to the working directory."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import madke
from madke._util.assets import asset
from tests.support.dataset import write_dataset


def model(messages: Any) -> str:
    return "The answer is [Lake Baikal]."


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dataset(tmp_path, 2)
    given = {"agent": "Debater 1", "text": "It is Baikal.", "answer": "Lake Baikal"}
    lines = [{"id": f"q{n}", "stances": [given, {**given, "agent": "Debater 2"}]} for n in range(2)]
    Path("first.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("prices.yaml").write_text("openai/m: {prompt: 1, completion: 1}\n")
    Path("ids.txt").write_text("q1\n")
    copytree(asset("prompts", "mad"), tmp_path / "words" / "mad")
    Path("recipe.yaml").write_text(
        "title: T\nsource: a test\narms: [{name: a, protocol: rag, sources: wiki}, {name: b, protocol: mad}]\n"
    )


def test_run_score_and_compare() -> None:
    options: Any = {"prices": "prices.yaml"}
    run = madke.run(
        "questions.jsonl",
        out="one",
        model=model,
        protocol="rag",
        sources="wiki",
        pools="pools.jsonl",
        ids="ids.txt",
        options=madke.RunOptions(**options),
    )
    assert [transcript.id for transcript in run.transcripts()] == ["q1"]
    madke.run("questions.jsonl", out="two", model=model, protocol="mad", prompts="words", first_round="first.jsonl")
    folder: Any = "two"
    assert len(list(madke.Run(folder).transcripts())) == 2
    assert madke.Run(folder) == madke.Run(Path("two"))
    assert madke.Run(folder).report("report.html").is_file()
    assert madke.score("two").correct is not None
    assert len(madke.compare("one", "two").questions) == 1


def test_a_request_and_a_protocol_folder() -> None:
    request = madke.RunRequest(
        questions="questions.jsonl", protocol="words/mad", model=model, first_round="first.jsonl"
    )
    assert len(list(madke.run(request, out="out").transcripts())) == 2
