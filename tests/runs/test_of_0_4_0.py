"""A run directory that 0.4.0 wrote: it is scored, compared and reported as before, and not gone on with."""

import shutil
from pathlib import Path

import pytest

from tests.support.cli import madke, refused

WRITTEN = Path(__file__).parent / "of_0_4_0"
QUESTIONS = """\
{"id": "q1", "question": "What is the capital of France?", "golden_answers": ["Paris"]}
{"id": "q2", "question": "Which metal is liquid at room temperature?", "golden_answers": ["mercury"]}
"""
REPLIES = """\
- {stage: select, reply: "Selected: [0]"}
- {stage: judge, reply: "Verdict: SAME"}
- {question: q1, reply: "The answer is Paris."}
- {reply: "The answer is mercury."}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The old run, its questions, and a script of replies."""
    shutil.copytree(WRITTEN, tmp_path / "old")
    (tmp_path / "questions.jsonl").write_text(QUESTIONS)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def debate(out: str) -> tuple[str, ...]:
    pools = ("--pools", "old/pools.jsonl", "--sources", "docs")
    return ("run", "questions.jsonl", *pools, "--model", "scripted/replies.yaml", "--out", out)


def test_it_is_scored_reported_and_compared(folder: Path) -> None:
    (row,) = (line.split() for line in madke("score", "old").stdout.splitlines() if line.startswith(" old "))
    assert row[:3] == ["old", "2", "50.0"]
    assert row[-7:] == ["50.0", "50.0", "100.0", "50.0", "1.50", "17", "2,473"]
    assert madke("report", "old").returncode == 0
    assert (folder / "old" / "report.html").is_file()
    assert "Final answer, by summarizer: [gallium]" in madke("report", "old", "--question", "q2").stdout
    assert madke(*debate("today")).returncode == 0
    compared = madke("compare", "old", "today")
    assert "match %  2" in compared.stdout


def test_it_is_not_gone_on_with(folder: Path) -> None:
    before = {file: file.read_bytes() for file in (folder / "old").iterdir()}
    assert "madke: old: holds another run: " in refused(*debate("old"))
    assert {file: file.read_bytes() for file in (folder / "old").iterdir() if file.name != "lock"} == before
