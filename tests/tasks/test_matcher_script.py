"""``eval/matcher.py`` as a user runs it, on a made-up file."""

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import script

SCRIPT = Path(__file__).parents[2] / "eval" / "matcher.py"
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")


def item(answer: str, right: bool | None, improper: bool = False) -> dict[str, Any]:
    judged = {f"answer_{name}": answer for name in SYSTEMS} | {f"judge_{name}": right for name in SYSTEMS}
    return {"question": "who?", "golden_answer": "John F. Kennedy/JFK", "improper": improper, **judged}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return script(SCRIPT, *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    items = [item("Nixon", False), item("JFK", True), item("John Kennedy", True), item("Nixon", None, improper=True)]
    for name in ("NQ_1800", "TQ_1000"):
        with gzip.open(tmp_path / f"{name}.json.gz", "wt", encoding="utf-8") as file:
            # Another question in each set: equal prompts would be graded once.
            json.dump([each | {"question": f"who is it, says {name}?"} for each in items], file)
    return tmp_path


def test_the_page_compares_matchers_on_the_second_half(folder: Path) -> None:
    done = run("--data", folder, "--out", folder / "page.md")
    assert done.returncode == 0, done.stderr
    page = (folder / "page.md").read_text(encoding="utf-8")
    assert page.strip() == done.stdout.strip()
    held_out = page.partition("## Development")[0]
    row = next(line for line in held_out.splitlines() if line.startswith("| NQ | fid |"))
    # One proper question of two: EM misses "John Kennedy"; the baseline, same and accepts do not.
    nothing, everything = "0.0 / 0.0 / **0.0**", "100.0 / 100.0 / **100.0**"
    assert row.split(" | ")[2:] == [
        "1",
        "1",
        "100 %",
        nothing,
        everything,
        nothing,
        everything,
        everything,
        everything,
        "20.7 to 100.0 |",
    ]


def test_the_graders_agreement_is_shown_next_to_the_matchers(folder: Path) -> None:
    rules = [
        {"question": "NQ-2", "reply": "Kennedy is meant.\n[True]"},
        {"question": "TriviaQA-2", "reply": "I cannot tell."},
        {"reply": "[False]"},
    ]
    (folder / "grader.yaml").write_text(json.dumps(rules))
    grader = ("--grader", f"scripted/{folder / 'grader.yaml'}", "--grades", folder / "grades.sqlite")
    done = run("--data", folder, *grader, "--limit", "1")
    assert done.returncode == 0, done.stderr
    heading = "(held out, the first 1 questions of NQ and the first 1 questions of TriviaQA)\n"
    part = done.stdout.partition(heading)[2].partition("## Development")[0]
    assert "graded 5 of 10 answers; 5 replies held no grade and 0 calls failed" in part
    assert "`grader` agrees with people on 100.0 % of the answers (20.7 to 100.0)." in part
    assert "`EM` agrees with people on 0.0 % of the answers (0.0 to 79.3, kappa 0.00)." in part
    table, people = part.split("Agreement with people, percent and kappa:")
    row = next(line for line in table.splitlines() if line.startswith("| NQ | fid |"))
    assert "| grader |" in table
    assert row.split(" | ")[-2:] == ["100.0 / 100.0 / **100.0**", "20.7 to 100.0 |"]
    row = next(line for line in people.splitlines() if line.startswith("| both | the other four |"))
    assert row.split(" | ")[2:] == [
        "4",
        "0.0 (0.00)",
        "100.0 (-)",
        "0.0 (0.00)",
        "100.0 (-)",
        "100.0 (-)",
        "100.0 (-)",
        "100.0 (-)",
        "100.0 (-) |",
    ]
    again = run("--data", folder, *grader, "--limit", "1", "--keep", folder / "kept.csv")
    assert again.stdout == done.stdout
    kept = (folder / "kept.csv").read_text(encoding="utf-8").splitlines()
    assert kept[0] == "model,question,system,grade"
    assert [line.rpartition(",")[2] for line in kept[1:]] == ["True"] * 5 + ["no grade in the reply"] * 5


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    done = run("--data", tmp_path)
    assert done.returncode == 2
    assert "NQ_1800.json.gz" in done.stderr
    assert len(done.stderr.splitlines()) == 1
