"""``eval/mirage.py`` as a user runs it, on made-up files and on the recorded ones."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import script

SCRIPT = Path(__file__).parents[1] / "eval" / "mirage.py"
FILES = ("gpt-35-turbo-16k_cot", "gpt-35-turbo-16k_rag_32", "gpt-4-32k_cot", "gpt-4-32k_rag_32")
OPTIONS = {"A": "tin", "B": "iron", "C": "zinc", "D": "gold"}
SAID = {
    "gpt-35-turbo-16k_cot": ("B", "None of the above", "A/B", "D"),
    "gpt-35-turbo-16k_rag_32": ("B", "A", "A. tin", "D"),
    "gpt-4-32k_cot": ("B", "A", "A", "D"),
    "gpt-4-32k_rag_32": ("C", "A", "B", "D"),
}
GOLD = "BAAC"


def run(*arguments: Any) -> Any:
    return script(SCRIPT, *arguments)


def reply(choice: Any) -> Any:
    return json.dumps({"step_by_step_thinking": "(A) and (B) are metals.", "answer_choice": choice})


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    for name, said in SAID.items():
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            for n, (choice, gold) in enumerate(zip(said, GOLD, strict=True)):
                line = {"id": f"q{n}", "question": "Which?", "options": OPTIONS, "gold": gold}
                file.write(json.dumps(line | {"outputs": [reply(choice)]}) + "\n")
    return tmp_path


def cells(page: Any, start: Any) -> Any:
    return [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(f"| {start}")]


def test_ours_and_the_published_rule_are_told_apart_reply_by_reply(folder: Any) -> None:
    done = run("--data", folder, "--out", folder / "page.md", "--keep", folder / "kept")
    assert done.returncode == 0, done.stderr
    page = (folder / "page.md").read_text(encoding="utf-8")
    assert page == done.stdout
    first, *differing = cells(page, "GPT-3.5, chain of thought |")
    assert first[:5] == ["GPT-3.5, chain of thought", "4", "25.00 (4.6 to 69.9)", "2", "75.00"]
    assert sorted(row[1:] for row in differing) == [
        ["no letter, so A", "nothing", "1", "1", "0"],
        ["the first of several letters", "nothing", "1", "1", "0"],
    ]
    ours, by_rule = (
        [row[3:5] for row in cells(part, "GPT")] for part in page.partition("Read by our")[2].split("Read by MIRAGE")
    )
    assert (ours, by_rule) == ([["0", "2"], ["2", "0"]], [["0", "0"], ["2", "0"]])
    kept = (folder / "kept" / f"{FILES[0]}.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(kept[0]) == {"id": "q0", "output": reply("B")}


def test_files_about_other_questions_and_missing_ones_are_one_line(folder: Any) -> None:
    other = folder / f"{FILES[2]}.jsonl.gz"
    with gzip.open(other, "rt") as file:
        changed = file.read().replace("Which?", "Why?")
    with gzip.open(other, "wt") as file:
        file.write(changed)
    done = run("--data", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{other}: is about other questions than the first file\n"
    other.unlink()
    assert "cannot be read" in run("--data", folder).stderr


@pytest.mark.slow
def test_the_published_figures_are_those_of_the_published_rule(shared_data: Path) -> None:
    done = run("--data", shared_data / "recorded" / "mirage_mmlu_med")
    assert done.returncode == 0, done.stderr
    rows = cells(done.stdout.partition("## Why")[0], "GPT")
    assert [(row[1], row[4], row[5]) for row in rows] == [
        ("1089", figure, figure) for figure in ("72.91", "75.48", "89.44", "87.24")
    ]
    # What the two rules read differently is all of the difference.
    lost = {row[0]: round((float(row[4]) - float(row[2].split()[0])) * 10.89) for row in rows}
    for row in cells(done.stdout.partition("## Why")[2].partition("## Does")[0], "GPT"):
        lost[row[0]] -= int(row[4]) - int(row[5])
    assert set(lost.values()) == {0}


@pytest.mark.slow
def test_the_page_is_what_the_script_writes(shared_data: Path) -> None:
    done = run("--data", shared_data / "recorded" / "mirage_mmlu_med")
    assert done.stdout == SCRIPT.with_suffix(".md").read_text(encoding="utf-8")
