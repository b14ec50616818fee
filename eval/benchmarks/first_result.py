"""From opening a dense index to its first result, with the files in the page cache and without."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from eval.benchmarks.indexes import RandomEncoder, dense_index
from eval.benchmarks.measure import Setting, anonymous_memory, curve, duration, in_own_process, report, size
from madke.indexing.dense import load_faiss
from madke.knowledge.index_sources import DenseSource

SIZES = (50_000, 100_000, 200_000, 400_000)
QUICK = (1_000,)
_REPEATS = 3
_MOST_SECONDS = 1.0
_MOST_MEMORY = 100_000_000


class _First(NamedTuple):
    """A first result in a fresh process."""

    seconds: float
    memory: int
    """Bytes of anonymous memory after it."""
    grown: int
    """How many of them came since the imports."""


def main(setting: Setting) -> None:
    """Cold first, then warm; a fresh process for each."""
    sizes = QUICK if setting.quick else SIZES
    cold, warm = {}, {}
    for count in sizes:
        index = dense_index(setting.folder, count)
        _forget(index)
        cold[count] = in_own_process(_first_of_source, index)[0]
        warm[count] = min(in_own_process(_first_of_source, index)[0] for _ in range(_REPEATS))
    bare = min(in_own_process(_first_of_bare_faiss, dense_index(setting.folder, sizes[-1]))[0] for _ in range(_REPEATS))
    ours = warm[sizes[-1]]
    report(
        f"open to first result, {sizes[-1]:,} vectors",
        f"{duration(ours.seconds)} warm, {duration(cold[sizes[-1]].seconds)} cold, anonymous memory "
        f"{size(ours.memory)}, of which {size(ours.grown)} since the imports",
        f"{duration(bare.seconds)} and {size(bare.memory)} with bare FAISS reading the files into memory",
        bare.seconds / ours.seconds,
        f"warm below {duration(_MOST_SECONDS)}, memory below {size(_MOST_MEMORY)}",
        ours.seconds < _MOST_SECONDS and ours.memory < _MOST_MEMORY,
    )
    curve(setting, "warm", [(count, first.seconds) for count, first in warm.items()], duration)
    curve(setting, "cold", [(count, first.seconds) for count, first in cold.items()], duration)
    curve(
        setting, "anonymous memory", [(count, first.memory) for count, first in warm.items()], size, extrapolated=False
    )


def _forget(index: Path) -> None:
    """Take the files of an index out of the page cache."""
    os.sync()  # what is not on the disk yet cannot be dropped
    for path in (path for path in index.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _first_of_source(index: Path) -> _First:
    import faiss  # noqa: F401
    import pyarrow.ipc  # noqa: F401

    before, started = anonymous_memory(), time.perf_counter()
    source = DenseSource(index, name="wiki", encoder=RandomEncoder())
    (hits,) = source.search(["first"], 10)
    seconds, after = time.perf_counter() - started, anonymous_memory()
    assert len(hits.passages) == 10
    return _First(seconds, after, after - before)


def _first_of_bare_faiss(index: Path) -> _First:
    faiss = load_faiss()
    before, started = anonymous_memory(), time.perf_counter()
    query = RandomEncoder().encode_queries(["first"])
    opened = [faiss.read_index(str(path)) for path in sorted(index.rglob("*.index"))]
    for part in opened:
        part.search(query, 10)
    seconds, after = time.perf_counter() - started, anonymous_memory()
    return _First(seconds, after, after - before)
