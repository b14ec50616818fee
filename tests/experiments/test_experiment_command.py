"""What ``madke ablate`` says and does besides running arms: arms that cannot run, tests, replays."""

import json
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from madke.cli import ablate
from madke.runs.directory import read_transcripts
from tests.support.cli import madke
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import openai_server

ARMS = """
title: Lakes
source: a test
reference: second
arms:
  - {name: first, protocol: cot, seed: 1}
  - {name: second, protocol: cot, seed: 2}
  - {name: third, protocol: standard, seed: 3}
  - {name: fourth, protocol: standard, seed: 4}
"""


def invoke(folder: Any, *more: Any, recipe: Any = ARMS, model: Any = None) -> Any:
    """Run the verb in this process, with a script for a model where nothing else is said."""
    write_dataset(folder, 3)
    (folder / "recipe.yaml").write_text(recipe)
    script = folder / "script.yaml"
    script.write_text('- {reply: "The answer is [Lake Baikal].", stage: speak}\n')
    app = typer.Typer()
    app.command()(ablate.command)
    data = ("--data", folder / "questions.jsonl", "--model", model or f"scripted/{script}")
    return CliRunner().invoke(app, [str(each) for each in (folder / "recipe.yaml", *data, *more)])


def answers(folder: Any) -> Any:
    return {transcript.id: transcript.answer for transcript in read_transcripts(folder)}


def test_an_arm_that_cannot_run_leaves_the_others_and_their_report(tmp_path: Path) -> None:
    out = tmp_path / "out"
    strange = out / "arms" / "second" / "notes.txt"
    strange.parent.mkdir(parents=True)
    strange.write_text("mine")
    recipe = ARMS + "  - {name: fifth, protocol: mad, first_round: {arm: second}}\n"
    done = invoke(tmp_path, "--out", out, recipe=recipe)
    assert done.exit_code == 1, done.output
    assert "arm 'second' is not finished: " in done.stderr
    assert "holds 'notes.txt' but no run" in done.stderr
    assert "arm 'fifth' is not finished: it needs arm second" in done.stderr
    ran = [folder.name for folder in sorted((out / "arms").iterdir()) if (folder / "run.json").exists()]
    assert ran == ["first", "fourth", "third"]
    assert (out / "report.html").exists()
    strange.unlink()
    done = invoke(tmp_path, "--out", out)
    assert done.exit_code == 0, done.output
    assert (out / "arms" / "second" / "transcripts.jsonl").exists()


def test_the_reference_is_tested_against_the_others(tmp_path: Path) -> None:
    done = invoke(tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "Paired tests" not in done.stdout  # they are in the report
    tests = json.loads(madke("compare", tmp_path / "out", "--json").stdout)["tests"]
    tested = [(each["left"], each["right"]) for each in tests if each["metric"] == "em"]
    assert tested[:3] == [("second", name) for name in ("first", "third", "fourth")]
    assert len(tested) == 6


def test_a_replay_makes_all_transcripts_anew_and_asks_nobody(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with openai_server(debating) as server:
        endpoint = ("--base-url", server.url, "--out", out)
        assert invoke(tmp_path, *endpoint, model="openai/m").exit_code == 0
    folders = sorted((out / "arms").iterdir())
    before = [answers(folder) for folder in folders]
    for folder in folders:
        (folder / "transcripts.jsonl").unlink()
    done = invoke(tmp_path, *endpoint, "--replay", model="openai/m")
    assert done.exit_code == 0, done.output
    assert [answers(folder) for folder in folders] == before
