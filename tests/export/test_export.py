"""``madke report --answers`` and ``--trec``: what other tools read from its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.knowledge import Passage
from madke.core.transcript import PoolEntry, Transcript
from madke.report.export import COLUMNS
from madke.retrieval.pools import PoolRecord, write_pools
from tests.support.cli import madke, refused
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

ENTRIES = (
    PoolEntry(n=0, source="wiki", key="p 1", title="Lake Baikal"),
    PoolEntry(n=1, source="web", key="p2", title="Lakes"),
    PoolEntry(n=2, source="web", key="p3", title="Asked", asked_by="Debater 1", query="depth", round=1),
)

PASSAGES = tuple(
    Passage(source=e.source, key=e.key, title=e.title, text=f"text of {e.key}", score=1.0, rank=0) for e in ENTRIES[:2]
)


def debate(id_: str = "q0", **changes: Any) -> Transcript:
    return replace(
        transcript(id_, said=["Lake Baikal", "Tanganyika"], consensus=False, answer="Lake Baikal"),
        pool=ENTRIES,
        metadata={"gold_passages": ["p2", "p9"]},
        **changes,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_pools(
        tmp_path / "pools.jsonl", [PoolRecord(id="q0", question="Which lake is the deepest?", passages=PASSAGES)]
    )
    return write_run(tmp_path / "first", debate(), debate(repeat=1), pools=tmp_path / "pools.jsonl", repeats=2)


def exported(*arguments: object) -> None:
    done = madke("report", *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_pandas_and_datasets_read_the_answers(run: Path, tmp_path: Path) -> None:
    pandas, datasets = pytest.importorskip("pandas"), pytest.importorskip("datasets")
    file = tmp_path / "answers.parquet"
    exported(run, "--out", tmp_path / "page.html", "--answers", file)
    table = pandas.read_parquet(file)
    assert list(table) == list(COLUMNS)
    assert list(table["correct"]) == [1.0, 1.0]
    assert list(table["repeat"]) == [0, 1]
    assert [list(each) for each in table["supporters"]] == [["Debater 1"]] * 2
    read = datasets.Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "cache"))
    assert read.column_names == list(COLUMNS)


def test_trec_runs_and_judgements(run: Path, tmp_path: Path) -> None:
    exported(run, "--trec", tmp_path / "out")

    assert (tmp_path / "out" / "first.run.txt").read_text(encoding="utf-8").splitlines() == [
        "q0 Q0 p%201 1 2 first",
        "q0 Q0 p2 2 1 first",
    ]
    assert (tmp_path / "out" / "qrels.txt").read_text(encoding="utf-8").splitlines() == ["q0 0 p2 1", "q0 0 p9 1"]


def test_what_is_refused(run: Path) -> None:
    assert "an export writes no page" in refused("report", run, "--trec", run / "trec", "--out", "page.html")
    assert "no such run" in refused("report", run / "none", "--trec", run)
