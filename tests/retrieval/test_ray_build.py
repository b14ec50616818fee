"""Dense indexes that are encoded by a Ray cluster, a node of which is killed."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from madke._util.workers import open_workers
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


def test_a_node_that_is_killed_changes_nothing(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"kind": "dense", "shard_rows": 25, "file_mb": 0.002}
    here = build_index(corpus, tmp_path / "here", encoder=WordEncoder(), **settings)
    shards = ["Arlen volcano", "Arlen telescope"]
    encoder = WaitingEncoder(prepare(tmp_path, *shards))
    there: list[Manifest] = []

    def build() -> None:
        there.append(build_index(corpus, tmp_path / "there", encoder=encoder, engine="ray", **settings))

    with running_cluster() as cluster, another_node(cluster) as doomed:
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        with open_workers("ray"):  # in this thread: Ray takes its signals
            building = threading.Thread(target=build)
            building.start()
            at = {meet(tmp_path, shard): shard for shard in shards}
            assert set(at) == {doomed.node_id, cluster.head_node.node_id}

            kill(cluster, doomed)
            release(tmp_path, at[cluster.head_node.node_id])
            assert meet(tmp_path, at[doomed.node_id]) == cluster.head_node.node_id
            release(tmp_path, at[doomed.node_id])
            building.join()

    assert there[0].files == here.files  # with the SHA-256 of each
    assert there[0].index == here.index
    assert encoder.passage_calls == [], "nothing was encoded in this process"
