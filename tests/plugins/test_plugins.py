"""A package that brings a model, a source, a task, a metric and a dataset reader, used by its entry points."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import madke, refused

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parent / "package"
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The environment in which the package is installed, next to this checkout."""
    pytest.importorskip("hatchling")
    site = tmp_path_factory.mktemp("site")
    flags = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", *flags, "--target", site, PACKAGE]
    subprocess.run(pip, check=True, timeout=120)
    return {"PYTHONPATH": os.pathsep.join((str(CHECKOUT), str(site)))}


@pytest.fixture
def colours(tmp_path: Path) -> Any:
    path = tmp_path / "colours.tsv"
    path.write_text("What colour is the evening sky?\tred\nWhat colour is the noon sky?\tblue\n")
    return path


def test_its_dataset_is_listed_and_converted(installed: Any, colours: Any, tmp_path: Path) -> None:
    listed = madke("datasets", **installed).stdout
    assert "plugin-dataset" in listed

    done = madke("datasets", "convert", "plugin-dataset", colours, "--out", tmp_path / "q.jsonl", **installed)

    assert done.returncode == 0, done.stderr
    first, _ = map(json.loads, (tmp_path / "q.jsonl").read_text().splitlines())
    assert first == {
        "id": "c0",
        "question": "What colour is the evening sky?",
        "task": "plugin-task",
        "golden_answers": ["red"],
        "metadata": {"dataset": "plugin-dataset"},
    }


def test_what_it_lacks_is_told_with_what_there_is(installed: Any, colours: Any, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "q.jsonl")
    said = refused("datasets", "convert", "plugin-datset", colours, *out, **installed)
    assert "did you mean 'plugin-dataset'?" in said
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("no tab\n")
    assert "ValueError" in refused("datasets", "convert", "plugin-dataset", wrong, *out, **installed)


def test_all_five_play_one_run_from_the_command_line(installed: Any, colours: Any, tmp_path: Path) -> None:
    names = ("--dataset", "plugin-dataset", "--task", "plugin-task", "--model", "plugin-model")
    done = madke("run", colours, *names, "--sources", "plugin-source", "--out", tmp_path / "run", **installed)
    assert done.returncode == 0, done.stderr

    transcripts = [json.loads(line) for line in (tmp_path / "run" / "transcripts.jsonl").read_text().splitlines()]
    assert [(each["id"], each["answer"], each["task"]) for each in transcripts] == [
        ("c0", "red", "plugin-task"),
        ("c1", "red", "plugin-task"),
    ]
    assert {passage["source"] for each in transcripts for passage in each["pool"]} == {"plugin-source"}

    scored = madke("score", tmp_path / "run", "--json", **installed)
    assert scored.returncode == 0, scored.stderr
    assert '"plugin-metric"' in scored.stdout


def test_without_the_package_its_run_says_what_is_missing(installed: Any, colours: Any, tmp_path: Path) -> None:
    questions = tmp_path / "q.jsonl"
    done = madke("datasets", "convert", "plugin-dataset", colours, "--out", questions, **installed)
    assert done.returncode == 0, done.stderr

    said = refused("run", questions, "--protocol", "cot", "--model", "offline", "--out", tmp_path / "run")

    assert "unknown task 'plugin-task'" in said
