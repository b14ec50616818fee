"""What the command line prints on a terminal of 80 columns: no wider line, and no path in two parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.report.run_folders import debate, write_run
from tests.support.dataset import write_dataset
from tests.support.terminal import at_terminal, too_wide

pytestmark = pytest.mark.slow

FIRST, SECOND = "the-first-run-of-the-spring-term", "the-second-run-of-the-spring-term"
LONG = "questions and answers of the spring term/of a person who likes-long-names/and-has-folders-in-folders"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A deep folder, with spaces in its name, that holds questions, pools, and two runs."""
    folder: Path = tmp_path_factory.mktemp("terminal") / LONG
    folder.mkdir(parents=True)
    write_dataset(folder, 3)
    for name, answers in ((FIRST, ["Lake Baikal"] * 6), (SECOND, ["Lake Baikal", "Lake Tanganyika"] * 3)):
        debates = [debate(f"a-long-id-of-question-{n}", [answer] * 2) for n, answer in enumerate(answers)]
        write_run(folder / "runs" / name, debates)
    return folder


def shown(folder: Path, *args: Any) -> list[str]:
    lines = at_terminal(*args, cwd=folder.parent)
    assert too_wide(lines) == []
    assert "Traceback" not in "\n".join(lines)
    return lines


OFFLINE = ("--model", "offline", "--plan")


@pytest.mark.parametrize(
    "words",
    [
        ["protocols"],
        ["protocols", "show", "per-document"],
        ["protocols", "show", "chateval"],
        ["datasets"],
        ["run", "questions.jsonl", "--pools", "pools.jsonl", "--out", "new", *OFFLINE],
        ["ablate", "equal-cost", "--data", "questions.jsonl", "--pools", "pools.jsonl", *OFFLINE],
        ["study", "questions.jsonl", "--pools", "pools.jsonl", *OFFLINE],
        ["score", "runs", "--details"],
        ["compare", "runs", "--details"],
        ["report", "runs", "--question", "a-long-id-of-question-1"],
        ["annotate", "sheet", "runs", "--out", "sheet.csv"],
        ["report", "runs", "--parquet", "tables"],
        ["score", "runs", "--calibrate", "new"],
        ["run", "missing.jsonl", "--out", "new"],
        ["score", "runs", "--scorer", "comet"],
        ["protocols", "prompt", "madke", "nothing"],
    ],
    ids=" ".join,
)
def test_no_line_is_wider_than_the_terminal_and_no_path_is_split(folder: Path, words: list[str]) -> None:
    paths = {"questions.jsonl", "pools.jsonl", "runs", "new", "sheet.csv", "tables", "missing.jsonl"}
    lines = shown(folder, *(folder / word if word in paths else word for word in words))
    assert any(lines)
    # Where a path is printed, its line holds all of it.
    assert all(str(folder) in line for line in lines if LONG.split("/")[0] in line or "folders-in-folders" in line)


def test_the_end_of_a_run_has_each_path_on_its_own_line(folder: Path) -> None:
    out = folder / "runs of today"
    lines = shown(
        *(folder, "run", folder / "questions.jsonl", "--pools", folder / "pools.jsonl", "--out", out),
        *("--model", "offline", "--protocol", "rag"),
    )
    place = lines.index("transcripts:")
    assert lines[place + 1 : place + 4] == [str(out / "transcripts.jsonl"), "report:", str(out / "report.html")]
