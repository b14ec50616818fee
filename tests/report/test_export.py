"""``madke report --answers`` and ``--trec``: what other tools read from its files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.transcript import PoolEntry, Transcript
from madke.report.export import COLUMNS, write_answers
from tests.support.cli import madke, refused
from tests.support.run_folder import write_run
from tests.support.transcripts import arm, transcript

POOL = (
    PoolEntry(n=0, source="wiki", key="p 1", title="Lake Baikal"),
    PoolEntry(n=1, source="web", key="p2", title="Lakes"),
    PoolEntry(n=2, source="web", key="p3", title="Asked", asked_by="Debater 1", query="depth", round=1),
)


def debate(id_: str = "q0", answer: str | None = "Lake Baikal", **changes: Any) -> Transcript:
    made = transcript(id_, said=["Lake Baikal", "Tanganyika"], consensus=False, answer=answer, pool=POOL)
    return replace(made, metadata={"gold_passages": ["p2", "p9"]}, **changes)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "first", debate(), debate(repeat=1), repeats=2)


def report(*arguments: object) -> None:
    done = madke("report", *arguments)
    assert done.returncode == 0, done.stderr


def test_answers_as_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    write_answers([arm("one", [debate(), debate("q1", None)]), arm("two", [debate(answer="x", repeat=1)])], file)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["run"], row["id"], row["repeat"], row["answer"], row["correct"], row["status"]) for row in rows] == [
        ("one", "q0", 0, "Lake Baikal", 1.0, "ok"),
        ("one", "q1", 0, None, 0.0, "abstained"),
        ("two", "q0", 1, "x", 0.0, "ok"),
    ]
    assert (rows[0]["gold"], rows[0]["question"]) == (["Lake Baikal"], "Which lake is the deepest?")


@pytest.mark.slow
def test_pandas_and_datasets_read_the_answers(run: Path, tmp_path: Path) -> None:
    pandas, datasets = pytest.importorskip("pandas"), pytest.importorskip("datasets")
    file = tmp_path / "answers.parquet"
    report(run, "--out", tmp_path / "page.html", "--answers", file)
    table = pandas.read_parquet(file)
    assert list(table) == list(COLUMNS)
    assert list(table["correct"]) == [1.0, 1.0]
    assert list(table["repeat"]) == [0, 1]
    assert [list(each) for each in table["supporters"]] == [["Debater 1"]] * 2
    read = datasets.Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "cache"))
    assert read.column_names == list(COLUMNS)


def test_trec_runs_and_judgements(run: Path, tmp_path: Path) -> None:
    report(run, "--trec", tmp_path / "out")
    ranking, judgements = tmp_path / "out" / "first.run.txt", tmp_path / "out" / "qrels.txt"
    assert ranking.read_text(encoding="utf-8") == "q0 Q0 p%201 1 2 first\nq0 Q0 p2 2 1 first\n"
    assert judgements.read_text(encoding="utf-8") == "q0 0 p2 1\nq0 0 p9 1\n"
    assert "an export writes no page" in refused("report", run, "--trec", run / "trec", "--out", "page.html")
    assert "no such run" in refused("report", run / "none", "--trec", run)
