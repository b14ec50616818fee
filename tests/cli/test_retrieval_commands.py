"""``madke pool score``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from madke.core.knowledge import Hits, Passage
from madke.data import read_dataset
from madke.retrieval.pools import retrieve_pools
from tests.support.cli import madke, refused
from tests.support.installed import needs

needs("ir_measures", "retrieval")


class Listed:
    """``sure`` has the right passage first. Every second query of ``noisy`` has a wrong one far above it."""

    def __init__(self, name: str) -> None:
        self.name = self.description = self.fingerprint = name

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        return [self._hits(query) for query in queries]

    def _hits(self, query: str) -> Hits:
        if query == "fail":
            return Hits(error="timeout")
        scores = {f"right {query}": 1.0, "wrong": 0.55, "other": 0.0}
        if self.name == "noisy" and int(query) % 2:
            scores = {"wrong": 9.0, f"right {query}": 1.0, "other": 0.0}
        return Hits(
            passages=tuple(
                Passage(source=self.name, key=key, title=key.title(), text=key, score=score, rank=rank)
                for rank, (key, score) in enumerate(scores.items())
            )
        )


SURE, NOISY = Listed("sure"), Listed("noisy")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    questions = [{"id": f"q{n}", "question": str(n), "golden_answers": ["a"]} for n in range(40)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    (tmp_path / "qrels.tsv").write_text(
        "qid\tpassage_id\trel\n" + "".join(f"q{n}\tright {n}\t2\nq{n}\twrong\t1\n" for n in range(40))
    )
    return tmp_path


def test_a_pool_file_is_measured_by_source_and_fusion_on_screen_and_in_json(folder: Path) -> None:
    retrieve_pools(read_dataset(folder / "questions.jsonl"), [SURE, NOISY], 10, folder / "pools.jsonl")
    score = ("pool", "score", "pools.jsonl", "--qrels", "qrels.tsv", "--relevance", 2, "--k", "2,1")

    done = madke(*score, cwd=folder)
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    rows = [line.split() for line in shown.splitlines() if "40" in line]
    assert [" ".join(row[: row.index("40")]) for row in rows] == ["sure", "noisy", "rank fusion", "sure+noisy"]
    assert "hit@1" in shown
    assert "50.0 ±15" in shown
    assert "nDCG@2" in shown

    found = {each["name"]: each for each in json.loads(madke(*score, "--json", cwd=folder).stdout)}
    assert {name: each["measures"]["hit@1"]["value"] for name, each in found.items()} == {
        "sure": 1.0,
        "noisy": 0.5,
        "rank fusion": 1.0,
        "sure+noisy": 0.5,
    }
    assert found["noisy"]["measures"]["MRR"]["value"] == 0.75
    assert (found["noisy"]["n"], found["noisy"]["depth"]) == (40, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.jsonl", "--qrels", "qrels.tsv"), "none.jsonl: cannot be read"),
        (("pools.jsonl", "--qrels", "torn.tsv"), "torn.tsv:2: found 1 columns"),
        (("pools.jsonl", "--qrels", "qrels.tsv", "--k", "5,0"), "--k '5,0': expected whole numbers"),
        (("pools.jsonl", "--qrels", "qrels.tsv", "--k", "9" * 5000), "expected whole numbers"),
        (("pools.jsonl", "--qrels", "other.tsv"), "none of the 1 questions of 'w' has a relevant"),
    ],
)
def test_what_cannot_be_scored_is_one_line(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "torn.tsv").write_text("qid\tpassage_id\trel\nq1\n")
    (folder / "other.tsv").write_text("9 0 p 1\n")
    pool = {"id": "q1", "question": "1", "passages": [{"source": "w", "text": "a"}]}
    (folder / "pools.jsonl").write_text(json.dumps(pool) + "\n")

    assert message in refused("pool", "score", *arguments, cwd=folder)
