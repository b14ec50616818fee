"""Indexes that several benchmarks measure: made once, each by a process of its own."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval.benchmarks.measure import generated_corpus, in_own_process
from madke.encoding.encoders import Dtype, Similarity
from madke.indexing.build import build_index

DIMENSION = 768
"""DPR's."""
FACTORY = "SQ8"


class RandomEncoder:
    """Normal vectors instead of a model's: encoding costs next to nothing, so that all the rest shows."""

    name = "random"
    dtype: Dtype = "float32"
    dimension = DIMENSION
    similarity: Similarity = "inner_product"
    revision = ""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors that depend on the first text and on how many there are."""
        random = np.random.default_rng(zlib.crc32(texts[0].encode()))
        return random.standard_normal((len(texts), self.dimension), dtype=np.float32)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        """As for queries."""
        return self.encode_queries(texts)


class Built(NamedTuple):
    """An index, and what it took to build it."""

    folder: Path
    seconds: float
    peak: int
    """Bytes of anonymous memory."""


def dense_index(folder: Path, count: int) -> Path:
    """A dense index of so many generated passages with random vectors, built if it is not there."""
    index = folder / f"dense-{count}"
    return index if index.exists() else built_dense(folder, count).folder


def built_dense(folder: Path, count: int) -> Built:
    """Build the index of :func:`dense_index`."""
    corpus, index = generated_corpus(folder, count), folder / f"dense-{count}"
    seconds, peak = in_own_process(_build_dense, corpus, index)
    return Built(index, seconds, peak)


def _build_dense(corpus: Path, index: Path) -> float:
    started = time.perf_counter()
    build_index(corpus, index, encoder=RandomEncoder(), faiss=FACTORY, kind="dense")
    return time.perf_counter() - started


def bm25_index(corpus: Path) -> Path:
    """A BM25 index of a corpus, beside it, built if it is not there."""
    index = corpus.with_name(f"bm25-{corpus.stem}")
    return index if index.exists() else built_bm25(corpus).folder


def built_bm25(corpus: Path) -> Built:
    """Build the index of :func:`bm25_index`."""
    index = corpus.with_name(f"bm25-{corpus.stem}")
    seconds, peak = in_own_process(_build_bm25, corpus, index)
    return Built(index, seconds, peak)


def _build_bm25(corpus: Path, index: Path) -> float:
    started = time.perf_counter()
    build_index(corpus, index)
    return time.perf_counter() - started
