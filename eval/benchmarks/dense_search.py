"""Searching mapped FAISS files in batches, against bare FAISS over the same vectors in memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from eval.benchmarks.indexes import RandomEncoder, dense_index
from eval.benchmarks.measure import Setting, best_of, curve, duration, report
from madke.indexing.dense import FaissShards, load_faiss

SIZES = (50_000, 100_000, 400_000)
QUICK = (1_000, 2_000)
QUERIES = 1_000
DEPTHS = (10, 100)
_AIM = 0.9


def main(setting: Setting) -> None:
    """Compare at the largest size for every depth; both use the threads that FAISS takes by itself."""
    sizes = QUICK if setting.quick else SIZES
    vectors = RandomEncoder().encode_queries(["queries"] * (100 if setting.quick else QUERIES))
    files = _files(dense_index(setting.folder, sizes[-1]))
    mapped, in_memory = FaissShards(files), _in_memory(files)
    for k in DEPTHS:
        assert (mapped.search(vectors[:8], k)[1] == in_memory.search(vectors[:8], k)[1]).all()
        ours, bare = best_of(3, partial(mapped.search, vectors, k), partial(in_memory.search, vectors, k))
        report(
            f"dense search, {len(vectors):,} queries, k = {k}",
            f"{len(vectors) / ours:.0f} queries/s over {len(files)} mapped files of {sizes[-1]:,} vectors",
            f"{len(vectors) / bare:.0f} with bare FAISS in memory",
            bare / ours,
            f"{_AIM}",
            bare / ours >= _AIM,
        )
    points = []
    for count in sizes:
        index = FaissShards(_files(dense_index(setting.folder, count)))
        points.append((count, best_of(2, partial(index.search, vectors, DEPTHS[0]))[0] / len(vectors)))
    curve(setting, f"time of a query, k = {DEPTHS[0]},", points, duration)


def _files(index: Path) -> list[Path]:
    return sorted(index.rglob("*.index"))


def _in_memory(files: list[Path]) -> Any:
    """The files' vectors as one index of the same kind."""
    faiss = load_faiss()
    joined, *others = [faiss.read_index(str(path)) for path in files]
    for other in others:
        joined.merge_from(other)
    return joined
