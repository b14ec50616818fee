"""Dense indexes that are encoded by a Ray cluster, a node of which is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from madke._util.workers import Engine, open_workers
from madke.models.encoders import Encoder
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.index_folder import Manifest
from tests.support.corpus import WordEncoder
from tests.support.installed import needs
from tests.support.ray_nodes import another_node, kill, running_cluster
from tests.support.rendezvous import arrive, meet, prepare, release

needs("ray", "ray")
needs("faiss", "dense")
pytestmark = pytest.mark.slow


class WaitingEncoder(WordEncoder):
    """Meets the test in each shard."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        import ray

        arrive(self.folder, titles[0], ray.get_runtime_context().get_node_id())
        return super().encode_passages(titles, texts)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with running_cluster() as cluster:
        yield cluster


def built(corpus: Path, out: Path, encoder: Encoder, engine: Engine) -> Manifest:
    return build_index(
        corpus, out, encoder=encoder, faiss="flat", shard_rows=25, file_mb=0.002, engine=engine, kind="dense"
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def test_a_node_that_is_killed_changes_nothing(
    cluster: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    here = built(corpus, tmp_path / "here", WordEncoder(), "local")
    shards = ["Arlen volcano", "Arlen telescope"]
    encoder = WaitingEncoder(prepare(tmp_path, *shards))
    there: list[Manifest] = []
    with another_node(cluster) as doomed, open_workers("ray"):  # in this thread: Ray takes its signals
        building = threading.Thread(target=lambda: there.append(built(corpus, tmp_path / "there", encoder, "ray")))
        building.start()
        at = {meet(tmp_path, shard): shard for shard in shards}
        assert set(at) == {doomed.node_id, cluster.head_node.node_id}

        kill(cluster, doomed)
        release(tmp_path, at[cluster.head_node.node_id])
        assert meet(tmp_path, at[doomed.node_id]) == cluster.head_node.node_id
        release(tmp_path, at[doomed.node_id])
        building.join()

    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    assert there[0].files == here.files
    assert there[0].index == here.index
    assert encoder.passage_calls == [], "nothing was encoded in this process"
