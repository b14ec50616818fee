"""Folders of runs as paths of ``score``, ``compare`` and ``report``, and runs that are incomplete or failed."""

import json
from itertools import takewhile
from pathlib import Path

import pytest

from tests.data.published import write
from tests.report.run_folders import debate, write_run
from tests.support.cli import madke, refused

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder like ``runs/``: runs, a folder of runs, and what is no run."""
    debates = [debate(f"q{n}", [RIGHT if n else WRONG] * 2) for n in range(3)]
    for name in ("first", "second", "more/third"):
        write_run(tmp_path / "runs" / name, debates)
    write(tmp_path / "runs" / "notes" / "thesis.tex", "precious")
    write(tmp_path / "runs" / "pools.jsonl", {})
    return tmp_path / "runs"


def rows(text: str) -> list[str]:
    """The names of the rows, which are between the rule and an empty line."""
    lines = text.splitlines()
    rule = next(n for n, line in enumerate(lines) if set(line.strip()) == {"─"})
    return [line.split()[0] for line in takewhile(str.strip, lines[rule + 1 :])]


def test_runs_in_folders_are_found_and_the_rest_is_named(folder: Path) -> None:
    done = madke("score", *(f"runs/{path.name}" for path in sorted(folder.iterdir())), cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout) == ["first", "more/third", "second"]
    assert done.stderr == (
        "madke: skipped, because they hold no run: runs/notes, runs/pools.jsonl; "
        "for predictions, give the questions with --data\n"
    )
    whole = madke("score", "runs", cwd=folder.parent)
    assert (rows(whole.stdout), whole.stderr) == (rows(done.stdout), "")
    assert "misspelt: no such run directory or file" in refused("score", folder, folder / "misspelt")


def test_an_incomplete_run_says_so_in_every_output(tmp_path: Path) -> None:
    debates = [debate(f"q{n}", [RIGHT] * 2) for n in range(4)]
    whole, part = write_run(tmp_path / "whole", debates), write_run(tmp_path / "part", debates)
    (part / "transcripts.jsonl").write_bytes(b"".join((part / "transcripts.jsonl").read_bytes().splitlines(True)[:3]))
    record = json.loads((part / "run.json").read_text())
    record["sessions"][-1]["ended"] = "--deadline"
    (part / "run.json").write_text(json.dumps(record))
    said = "3 of 4 (stopped at --deadline; the same command goes on)"
    table = tmp_path / "scores.csv"
    scored = madke("score", whole, part, "--tables", table, "--tables", tmp_path / "scores.tex")
    assert r"\begin{tabular}" in (tmp_path / "scores.tex").read_text()
    assert f"part: {said}." in scored.stdout
    assert " 3 of 4 " in scored.stdout
    assert "part,3 of 4," in table.read_text()
    records = [json.loads(line) for line in madke("score", whole, part, "--json").stdout.splitlines()]
    assert [each.get("incomplete") for each in records] == [None, said]
    by_dataset = json.loads(madke("score", part, "--json", "--by-dataset").stdout)["lakes"]
    assert by_dataset["incomplete"] == json.loads((part / "metrics.json").read_text())["incomplete"] == said
    assert json.loads((whole / "metrics.json").read_text())["incomplete"] is None
    assert f"part: {said}." in madke("compare", whole, part).stdout
    assert json.loads(madke("compare", whole, part, "--json").stdout)["scores"]["part"]["incomplete"] == said
