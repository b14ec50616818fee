"""``madke export``: what other tools read from its files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.knowledge import Passage
from madke.core.transcript import PoolEntry, Transcript
from madke.export.tables import COLUMNS
from madke.pools.pool_file import PoolRecord, write_pools
from tests.support.cli import madke, refused
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

ENTRIES = (
    PoolEntry(n=0, source="wiki", key="p 1", title="Lake Baikal"),
    PoolEntry(n=1, source="web", key="p2", title="Lakes"),
    PoolEntry(n=2, source="web", key="p3", title="Asked", asked_by="Debater 1", query="depth", round=1),
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
    texts = [
        Passage(source=e.source, key=e.key, title=e.title, text=f"text of {e.key}", score=1.0, rank=e.n)
        for e in ENTRIES[:2]
    ]
    write_pools(
        tmp_path / "pools.jsonl", [PoolRecord(id="q0", question="Which lake is the deepest?", passages=tuple(texts))]
    )
    return write_run(tmp_path / "first", debate(), debate(repeat=1), pools=tmp_path / "pools.jsonl", repeats=2)


def exported(*arguments: object) -> None:
    done = madke("export", *arguments)
    assert done.returncode == 0, done.stderr


def test_tables_have_their_columns_and_the_values_of_the_run(run: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    exported(run, "--parquet", tmp_path / "out")
    tables = {name: pandas.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in COLUMNS}

    assert {name: list(table) for name, table in tables.items()} == {name: list(each) for name, each in COLUMNS.items()}
    assert list(tables["questions"]["correct"]) == [1.0, 1.0]
    assert list(tables["questions"]["repeat"]) == [0, 1]
    assert list(tables["turns"]["answer"]) == ["Lake Baikal", "Tanganyika"] * 2
    assert [list(each) for each in tables["turns"]["selected"]] == [[0]] * 4
    first = tables["passages"][:3]
    assert list(first["text"])[:2] == ["text of p 1", "text of p2"]
    assert first["text"].isna().tolist() == [False, False, True]
    assert [list(each) for each in first["selected_by"]] == [["Debater 1", "Debater 2"], [], []]


def test_token_sums_are_those_of_score(run: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    exported(run, "--parquet", tmp_path / "out")
    usage = json.loads(madke("score", run, "--json").stdout)["usage"].values()
    questions = pandas.read_parquet(tmp_path / "out" / "questions.parquet")

    for name in ("calls", "prompt_tokens", "completion_tokens"):
        assert questions[name].sum() == sum(each[name] for each in usage) > 0


def test_polars_duckdb_and_datasets_read_the_tables(run: Path, tmp_path: Path) -> None:
    polars, duckdb, datasets = (pytest.importorskip(name) for name in ("polars", "duckdb", "datasets"))
    exported(run, "--parquet", tmp_path / "out")

    for name in COLUMNS:
        file = str(tmp_path / "out" / f"{name}.parquet")
        rows = polars.read_parquet(file).height
        assert duckdb.sql(f"select count(*) from '{file}'").fetchall() == [(rows,)]
        loaded = datasets.Dataset.from_parquet(file, cache_dir=str(tmp_path / "cache"))
        assert (loaded.num_rows, loaded.column_names) == (rows, list(COLUMNS[name]))


def test_calls_of_a_real_run(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    (tmp_path / "q.jsonl").write_text(
        '{"id": "a", "question": "Which lake?", "answers": ["Baikal"]}\n', encoding="utf-8"
    )
    (tmp_path / "script.yaml").write_text("default: The answer is Baikal.\n", encoding="utf-8")
    done = madke("run", "q.jsonl", "--protocol", "mad", "--model", "scripted/script.yaml", "--out", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    exported(tmp_path / "r", "--parquet", tmp_path / "out")
    calls, questions = (pandas.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in ("calls", "questions"))

    assert len(calls) == questions["calls"].sum() > 0
    assert calls["prompt_tokens"].sum() == questions["prompt_tokens"].sum() > 0
    assert all("Which lake?" in prompt for prompt in calls["prompt"])


def test_trec_runs_and_judgements(run: Path, tmp_path: Path) -> None:
    exported(run, "--trec", tmp_path / "out")

    assert (tmp_path / "out" / "first.run.txt").read_text(encoding="utf-8").splitlines() == [
        "q0 Q0 p%201 1 2 first",
        "q0 Q0 p2 2 1 first",
    ]
    assert (tmp_path / "out" / "qrels.txt").read_text(encoding="utf-8").splitlines() == ["q0 0 p2 1", "q0 0 p9 1"]


def test_trec_files_are_measured_by_ir_measures(run: Path, tmp_path: Path) -> None:
    measures = pytest.importorskip("ir_measures")
    exported(run, "--trec", tmp_path / "out")
    found = measures.calc_aggregate(
        [measures.RR, measures.R @ 2],
        measures.read_trec_qrels(str(tmp_path / "out" / "qrels.txt")),
        measures.read_trec_run(str(tmp_path / "out" / "first.run.txt")),
    )

    assert {str(name): value for name, value in found.items()} == {"RR": 0.5, "R@2": 0.5}


def test_what_is_refused(run: Path) -> None:
    assert "--parquet FOLDER or --trec FOLDER" in refused("export", run)
    assert "no such run" in refused("export", run / "none", "--trec", run)
