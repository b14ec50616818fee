"""``madke pool score``."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.published import write
from tests.support.cli import madke, refused
from tests.support.installed import needs

needs("ir_measures", "retrieval")


def passages(source: str, n: int) -> list[dict[str, Any]]:
    """``sure`` has the right passage first. Every second query of ``noisy`` has a wrong one far above it."""
    scores = {f"right {n}": 1.0, "wrong": 9.0 if source == "noisy" and n % 2 else 0.55, "other": 0.0}
    ranked = sorted(scores.items(), key=lambda each: -each[1])
    return [{"source": source, "key": key, "text": key, "score": score} for key, score in ranked]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    judged = "".join(f"q{n}\tright {n}\t2\nq{n}\twrong\t1\n" for n in range(40))
    write(tmp_path / "qrels.tsv", f"qid\tpassage_id\trel\n{judged}")
    return tmp_path


def test_a_pool_file_is_measured_by_source_and_fusion_on_screen_and_in_json(folder: Path) -> None:
    lines = [
        {"id": f"q{n}", "question": str(n), "passages": [*passages("sure", n), *passages("noisy", n)]}
        for n in range(40)
    ]
    write(folder / "pools.jsonl", lines)
    score = ("pool", "score", "pools.jsonl", "--qrels", "qrels.tsv", "--relevance", 2, "--k", "2,1")

    done = madke(*score, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if "40" in line]
    assert [" ".join(row[: row.index("40")]) for row in rows] == ["sure", "noisy", "rank fusion", "sure+noisy"]
    assert all(part in done.stdout for part in ("hit@1", "nDCG@2", "50.0 ±15"))

    found = {each["name"]: each for each in json.loads(madke(*score, "--json", cwd=folder).stdout)}
    hits = {name: each["measures"]["hit@1"]["value"] for name, each in found.items()}
    assert hits == {"sure": 1.0, "noisy": 0.5, "rank fusion": 1.0, "sure+noisy": 0.5}
    assert found["noisy"]["measures"]["MRR"]["value"] == 0.75
    assert (found["noisy"]["n"], found["noisy"]["depth"]) == (40, 3)


def test_what_cannot_be_scored_is_one_line(folder: Path) -> None:
    write(folder / "other.tsv", "9 0 p 1\n")
    write(folder / "pools.jsonl", {"id": "q1", "question": "1", "passages": [{"source": "w", "text": "a"}]})
    score = ("pool", "score", "pools.jsonl", "--qrels")
    assert "none of the 1 questions of 'w' has a relevant" in refused(*score, "other.tsv", cwd=folder)
    for depths in ("5,0", "9" * 5000):
        assert "expected whole numbers" in refused(*score, "qrels.tsv", "--k", depths, cwd=folder)
