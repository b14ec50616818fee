"""Every type of FAISS index: what is built, how exact it is, and what is said where it cannot be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from madke.core.errors import UserError
from madke.retrieval.index_sources import DenseSource
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.dense import FaissType
from madke.retrieval.indexes.index_folder import Manifest
from tests.support.corpus import WordEncoder, write_corpus

faiss = pytest.importorskip("faiss", reason="needs the extra madke[dense]")

COUNT = 10_000


class NoiseEncoder(WordEncoder):
    """A random direction for each text, pulled towards one of 20 centres, so that there are neighbours to find."""

    dimension = 32

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        centres = np.random.default_rng(0).standard_normal((20, self.dimension))
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            seed = int.from_bytes(hashlib.sha256(text.strip().encode()).digest()[:8], "big")
            vectors[row] = centres[seed % 20] + 0.7 * np.random.default_rng(seed).standard_normal(self.dimension)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Training takes a hundred times as long where its threads share their cores with other work."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    passages = [{"id": str(n), "title": "", "text": f"passage number {n}"} for n in range(COUNT)]
    return write_corpus(tmp_path_factory.mktemp("many") / "passages.jsonl", passages)


@pytest.mark.parametrize(("kind", "least"), [("flat", 1.0), ("sq8", 0.9), ("hnsw", 0.9), ("ivfpq", 0.3)])
def test_each_type_is_built_in_several_files(kind: FaissType, least: float, many: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"

    def build(encoder: NoiseEncoder) -> Manifest:
        return build_index(many, out, "dense", encoder=encoder, faiss=kind, shard_rows=2_000, file_mb=0.02)

    manifest, unused = build(NoiseEncoder()), NoiseEncoder()

    assert len([file for file in manifest.files if file.path.startswith("faiss/")]) > 1 or kind == "ivfpq"
    numbers = range(0, COUNT, 200)
    source = DenseSource(out, name="wiki", encoder=NoiseEncoder())
    found = source.search([f"passage number {n}" for n in numbers], 5)
    assert np.mean([str(n) in {p.key for p in hits.passages} for n, hits in zip(numbers, found, strict=True)]) >= least
    assert build(unused) == manifest
    assert unused.passage_calls == []


def test_inverted_lists_need_enough_vectors(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--faiss ivfpq needs 9,984 passages or more, found 50; choose --faiss flat"):
        build_index(corpus, tmp_path / "index", "dense", encoder=WordEncoder(), faiss="ivfpq")


def test_vectors_that_do_not_fit_into_16_bits_are_refused(corpus: Path, tmp_path: Path) -> None:
    class Huge(WordEncoder):
        def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return super().encode_queries(texts) * 1e9

    with pytest.raises(UserError, match="exceeds float16"):
        build_index(corpus, tmp_path / "index", "dense", encoder=Huge())
