"""``madke report --parquet`` and ``--trec``: what other tools read from its files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.knowledge import Passage
from madke.core.transcript import PoolEntry, Transcript
from madke.export.tables import TABLE_COLUMNS
from madke.retrieval.pools.pool_file import PoolRecord, write_pools
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


def test_tables_have_their_columns_and_the_values_of_the_run(run: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    exported(run, "--parquet", tmp_path / "out")
    tables = {name: pandas.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in TABLE_COLUMNS}

    assert {name: list(table) for name, table in tables.items()} == {
        name: list(each) for name, each in TABLE_COLUMNS.items()
    }
    assert list(tables["questions"]["correct"]) == [1.0, 1.0]
    assert list(tables["questions"]["repeat"]) == [0, 1]
    assert list(tables["turns"]["answer"]) == ["Lake Baikal", "Tanganyika"] * 2
    assert [list(each) for each in tables["turns"]["selected"]] == [[0]] * 4
    first = tables["passages"][:3]
    assert list(first["text"])[:2] == ["text of p 1", "text of p2"]
    assert first["text"].isna().tolist() == [False, False, True]
    assert [list(each) for each in first["selected_by"]] == [["Debater 1", "Debater 2"], [], []]
    other = [replace(each, text="another text") for each in PASSAGES]
    write_pools(tmp_path / "pools.jsonl", [PoolRecord(id="q0", question="Which?", passages=tuple(other))])
    exported(run, "--parquet", tmp_path / "changed")
    assert pandas.read_parquet(tmp_path / "changed" / "passages.parquet")["text"].isna().all()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a run that made calls and had a pool, so that none is empty."""
    folder = tmp_path_factory.mktemp("played")
    asked = "Which lake is the deepest?"
    line = {"id": "q0", "question": asked, "golden_answers": ["Baikal"]}
    (folder / "q.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    (folder / "script.yaml").write_text('- {reply: "The answer is Baikal."}\n', encoding="utf-8")
    write_pools(folder / "pools.jsonl", [PoolRecord(id="q0", question=asked, passages=PASSAGES)])
    known = ("--pools", "pools.jsonl", "--sources", "web,wiki")
    model = ("--protocol", "madke", "--model", "scripted/script.yaml", "--out", "run")
    done = madke("run", "q.jsonl", "--task", "short_answer", *known, *model, cwd=folder)
    assert done.returncode == 0, done.stderr
    exported(folder / "run", "--parquet", folder / "tables")
    return folder / "tables"


def test_other_tools_read_the_tables(played: Path) -> None:
    datasets = pytest.importorskip("datasets")
    for name, columns in TABLE_COLUMNS.items():
        file = played / f"{name}.parquet"
        table = datasets.Dataset.from_parquet(str(file), cache_dir=str(played / "cache"))
        assert table.num_rows > 0
        assert table.column_names == list(columns)


def test_the_calls_of_a_run_add_up_to_its_debates(played: Path) -> None:
    pandas = pytest.importorskip("pandas")
    calls, questions = (pandas.read_parquet(played / f"{name}.parquet") for name in ("calls", "questions"))

    assert len(calls) == questions["calls"].sum() > 0
    for name in ("prompt_tokens", "completion_tokens"):
        assert calls[name].sum() == questions[name].sum() > 0
    assert all("Which lake is the deepest?" in prompt for prompt in calls["prompt"])


def test_trec_runs_and_judgements(run: Path, tmp_path: Path) -> None:
    exported(run, "--trec", tmp_path / "out")

    assert (tmp_path / "out" / "first.run.txt").read_text(encoding="utf-8").splitlines() == [
        "q0 Q0 p%201 1 2 first",
        "q0 Q0 p2 2 1 first",
    ]
    assert (tmp_path / "out" / "qrels.txt").read_text(encoding="utf-8").splitlines() == ["q0 0 p2 1", "q0 0 p9 1"]


def test_what_is_refused(run: Path) -> None:
    assert "an export writes no page" in refused("report", run, "--parquet", run / "tables", "--out", "page.html")
    assert "no such run" in refused("report", run / "none", "--trec", run)
