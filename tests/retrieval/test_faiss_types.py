"""Every type of FAISS index: what is built, how exact it is, and what is said where it cannot be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from madke.core.errors import UserError
from madke.models.encoders import Dtype, Similarity
from madke.retrieval.index_sources import DenseSource
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.dense import choose
from madke.retrieval.indexes.index_folder import DenseSettings, Manifest
from tests.support.corpus import write_corpus

faiss = pytest.importorskip("faiss", reason="needs the extra madke[dense]")

COUNT = 3_000
DIMENSION = 32


class NoiseEncoder:
    """A random direction for each text, pulled towards one of 20 centres, so that there are neighbours to find."""

    name = "noise"
    dtype: Dtype = "float32"
    dimension = DIMENSION
    similarity: Similarity = "cosine"
    revision = ""

    def __init__(self) -> None:
        self.encoded = 0

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        centres = np.random.default_rng(0).standard_normal((20, DIMENSION))
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for row, text in enumerate(texts):
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
            vectors[row] = centres[seed % 20] + 0.7 * np.random.default_rng(seed).standard_normal(DIMENSION)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += len(texts)
        return self.encode_queries(texts)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Training takes a hundred times as long where its threads share their cores with other work."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    passages = [{"id": str(n), "title": "", "text": f"passage number {n}"} for n in range(COUNT)]
    return write_corpus(tmp_path_factory.mktemp("many") / "passages.jsonl", passages)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vectors")


def build(
    corpus: Path, vectors: Path, out: Path, factory: str, parameters: str | None = None, file_mb: float = 0.1
) -> Manifest:
    return build_index(
        corpus,
        out,
        encoder=NoiseEncoder(),
        faiss=factory,
        faiss_parameters=parameters,
        shard_rows=400,
        file_mb=file_mb,
        vectors=vectors,
        kind="dense",
    )


def keys_found(index: Path, numbers: Sequence[int], k: int = 5) -> list[set[str]]:
    source = DenseSource(index, name="wiki", encoder=NoiseEncoder())
    return [{p.key for p in hits.passages} for hits in source.search([f"passage number {n}" for n in numbers], k)]


@pytest.mark.parametrize(
    ("factory", "least"),
    [
        ("Flat", 1.0),
        ("SQ8", 0.9),
        ("IVF16,SQ8", 0.5),
        ("PQ16np", 0.5),
        ("PCA16,SQ8", 0.3),
        ("HNSW16,SQ8", 0.9),
    ],
)
def test_each_type_is_built_in_several_files(
    factory: str, least: float, corpus: Path, vectors: Path, tmp_path: Path
) -> None:
    manifest = build(corpus, vectors, tmp_path / "index", factory, file_mb=0.02)

    assert len([file for file in manifest.files if file.path.startswith("faiss/")]) > 1
    numbers = range(0, COUNT, 50)
    found = keys_found(tmp_path / "index", numbers)
    assert np.mean([str(n) in keys for n, keys in zip(numbers, found, strict=True)]) >= least - 0.1


def test_vectors_that_are_kept_serve_the_next_index(corpus: Path, vectors: Path, tmp_path: Path) -> None:
    build(corpus, vectors, tmp_path / "first", "Flat")
    encoder = NoiseEncoder()

    build_index(
        corpus, tmp_path / "second", encoder=encoder, faiss="SQ8", shard_rows=400, vectors=vectors, kind="dense"
    )

    assert encoder.encoded == 0


def test_auto_says_what_it_chose_and_the_same_command_again_accepts_it(corpus: Path, tmp_path: Path) -> None:
    first = build_index(corpus, tmp_path / "index", encoder=NoiseEncoder(), kind="dense")
    encoder = NoiseEncoder()

    assert isinstance(first.index, DenseSettings)
    assert first.index.factory == "Flat"
    assert first.index.reason.startswith("exact; 0.0 GB of ")
    assert build_index(corpus, tmp_path / "index", encoder=encoder, kind="dense") == first
    assert encoder.encoded == 0


@pytest.mark.parametrize(
    ("factory", "parameters", "message"),
    [
        ("IVF,Nonsense", "", "expected auto or a FAISS factory string"),
        ("PQ7", "", "expected auto or a FAISS factory string"),
        ("Flat", "nprobe=4", "'Flat' with 'nprobe=4'"),
        ("auto", "nprobe=4", "requires an explicit --faiss type"),
    ],
)
def test_what_faiss_refuses_is_refused_before_anything_is_encoded(
    factory: str, parameters: str, message: str, corpus: Path, tmp_path: Path
) -> None:
    encoder = NoiseEncoder()

    with pytest.raises(UserError, match=message):
        build_index(
            corpus, tmp_path / "index", encoder=encoder, faiss=factory, faiss_parameters=parameters, kind="dense"
        )
    assert encoder.encoded == 0
    assert list(tmp_path.iterdir()) == []


def test_vectors_that_do_not_fit_into_16_bits_are_refused(tmp_path: Path) -> None:
    class Huge(NoiseEncoder):
        def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
            return super().encode_passages(titles, texts) * 1e9

    corpus = write_corpus(tmp_path / "few.jsonl")
    with pytest.raises(UserError, match="exceeds float16"):
        build_index(corpus, tmp_path / "index", encoder=Huge(), faiss="Flat", kind="dense")


GB = 10**9
WIKIPEDIA = 21_015_324


@pytest.mark.parametrize(
    ("count", "dimension", "memory", "factory"),
    [
        (103_515, 384, 24 * GB, "Flat"),
        (1_953_125, 768, 24 * GB, "Flat"),  # exactly a quarter
        (1_953_126, 768, 24 * GB, "SQ8"),
        (WIKIPEDIA, 768, 24 * GB, "SQ8"),
        (WIKIPEDIA, 768, 16 * GB, "PQ192np"),
        (WIKIPEDIA, 768, 300 * GB, "Flat"),
        (WIKIPEDIA, 768, 4 * GB, "PQ96np"),
        (WIKIPEDIA, 768, 2 * GB, "PQ48np"),
        (1, 10, 1, "PQ1np"),
    ],
)
def test_the_most_exact_index_that_fits_the_memory(count: int, dimension: int, memory: int, factory: str) -> None:
    assert choose(count, dimension, memory)[0] == factory
