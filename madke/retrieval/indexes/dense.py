"""Dense indexes: encode passages, shard by shard, and write and search FAISS files.

An index is trained once on a sample. It is a list of files that are filled one after the other and never merged; they
are searched memory-mapped.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from madke._util.assets import require
from madke._util.files import Inputs, atomic_write, disk_full, is_finished, mark_finished
from madke._util.workers import Workers
from madke.core.errors import UserError
from madke.models.encoders import MIN_ESTIMATED_PASSAGES, Encoder, time_estimate
from madke.retrieval.indexes.index_folder import DenseSettings, PassageStore, StoredPassage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

FaissType = Literal["flat", "sq8", "hnsw", "ivfpq"]
"""``flat``: exact, 4 bytes for each dimension of a passage. ``sq8``: a byte each. ``hnsw``: a graph over ``flat``,
fast. ``ivfpq``: inverted lists of product quantizers, an eighth of a byte each."""

_BLOCK_BYTES = 8 << 20
_MAX_RESULT_BYTES = 128 << 20
_MAX_SAMPLE = 65_536
"""Training vectors: 256 for each of the 256 centroids of a product quantizer, as FAISS advises."""
_MIN_SAMPLE = 39 * 256
"""Training vectors below which FAISS warns about a product quantizer."""
_SAMPLE_PER_LIST = 64
"""Training vectors per inverted list; FAISS warns below 39."""
_MAX_SAMPLE_BYTES = 2_000_000_000


def faiss_settings(kind: FaissType, count: int, dimension: int) -> dict[str, Any]:
    """``factory``, search ``parameters`` and ``file_mb`` of an index of ``count`` vectors.

    Fewer, larger files of graphs and inverted lists are faster to search.
    """
    if kind == "hnsw":
        return {"factory": "HNSW32", "parameters": "efSearch=64", "file_mb": 1024.0}
    if kind == "ivfpq":
        if count < _MIN_SAMPLE:
            need = f"{_MIN_SAMPLE:,} passages or more"
            raise UserError(f"--faiss ivfpq needs {need}, found {count:,}; choose --faiss flat")
        lists = max(1, min(1 << round(math.log2(4 * math.sqrt(count))), count // _SAMPLE_PER_LIST))
        # Each byte of a quantizer encodes the same number of dimensions. "np": no training for Hamming distances.
        codes = next(n for n in range(max(1, dimension // 8), 0, -1) if dimension % n == 0)
        return {"factory": f"IVF{lists},PQ{codes}np", "parameters": f"nprobe={max(1, lists // 8)}", "file_mb": 1024.0}
    return {"factory": "Flat" if kind == "flat" else "SQ8", "file_mb": 64.0}


def encode_shards(
    store: PassageStore,
    encoder: Encoder,
    settings: DenseSettings,
    *,
    corpus: str,
    folder: Path,
    workers: Workers,
    progress: Callable[[int, int | None], None],
) -> list[Path]:
    """Encode every passage and return the files of vectors in row order.

    Each is a ``.npy`` file in ``folder``: float16, shape ``(settings.shard_rows, dimension)``; the last may be shorter.
    A finished shard of the same corpus (``corpus`` is its identity) and encoder is reused. One worker encodes a whole
    shard, so its bytes do not depend on the workers.
    """
    import numpy as np

    paths: list[Path] = []
    missing: list[tuple[Path, Inputs, range]] = []
    for start in range(0, len(store), settings.shard_rows):
        rows = range(start, min(start + settings.shard_rows, len(store)))
        paths.append(folder / f"{start:010d}.npy")
        inputs: Inputs = {**_vector_inputs(settings, corpus), "start": start, "stop": rows.stop}
        if is_finished(paths[-1], inputs):
            progress(rows.stop, len(store))
        else:
            missing.append((paths[-1], inputs, rows))
    count = sum(len(rows) for _, _, rows in missing)
    if count > MIN_ESTIMATED_PASSAGES:
        first = [store[row] for row in missing[0][2][:MIN_ESTIMATED_PASSAGES]]
        takes = time_estimate(encoder, [each.title for each in first], [each.text for each in first], count)
        _log.warning("encoding %s passages: %s with all cores of this machine", f"{count:,}", takes)
    encoded = workers.map(partial(_encode, encoder), ([store[row] for row in rows] for _, _, rows in missing))
    for (path, inputs, rows), vectors in zip(missing, encoded, strict=True):
        if not np.isfinite(vectors).all():
            raise UserError(f"encoder {encoder.name!r}: a value of its vectors exceeds float16", file=path)
        with atomic_write(path) as file:
            np.save(file, vectors)
        mark_finished(path, inputs)
        progress(rows.stop, len(store))
    return paths


def _vector_inputs(settings: DenseSettings, corpus: str) -> Inputs:
    """Everything that determines the vectors of a corpus (``corpus`` is its identity), apart from the shard."""
    names = {"encoder", "dtype", "revision", "batching", "passage_prefix", "pooling", "normalize"}
    return {"corpus": corpus, **settings.model_dump(include=names, exclude_none=True)}


def _encode(encoder: Encoder, passages: Sequence[StoredPassage]) -> NDArray[np.float16]:
    import numpy as np

    titles, texts = [passage.title for passage in passages], [passage.text for passage in passages]
    with np.errstate(over="ignore"):  # an overflow becomes infinite; encode_shards refuses it
        return encoder.encode_passages(titles, texts).astype(np.float16)


class FaissShards:
    """Several FAISS files as one index; its rows are the concatenated rows of the files.

    UserError if a file is no FAISS index, or one of distances. ``parameters`` are in FAISS syntax (``nprobe=32``).
    """

    def __init__(self, paths: Sequence[Path], *, parameters: str = "") -> None:
        faiss = load_faiss()
        in_memory = sum(path.stat().st_size for path in paths) < total_memory()
        self._opened = []
        for path in paths:
            if in_memory:
                # Read in blocks: page faults one by one take about ten times as long.
                with path.open("rb", buffering=0) as file:
                    while file.read(_BLOCK_BYTES):
                        pass
            try:
                # Plain IO_FLAG_MMAP would read scalar quantizers and graphs whole.
                index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
                if parameters:
                    faiss.ParameterSpace().set_index_parameters(index, parameters)
            except RuntimeError as error:
                raise UserError(f"cannot be searched: {_reason(error)}", file=path) from None
            if index.metric_type != faiss.METRIC_INNER_PRODUCT:
                raise UserError("cannot be searched: found distances as scores, expected inner products", file=path)
            self._opened.append(index)
        self.dimension: int = self._opened[0].d
        self._index = faiss.IndexShards(self.dimension)
        for index in self._opened:
            self._index.add_shard(index)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The ``k`` largest inner products for each query, and their rows (-1 if fewer are found)."""
        import numpy as np

        # The results of all files (a float and an int of 8 bytes each) are in memory at the same time.
        at_once = max(1, _MAX_RESULT_BYTES // (12 * k * len(self._opened)))
        parts = [self._index.search(queries[n : n + at_once], k) for n in range(0, len(queries), at_once)]
        scores, rows = zip(*parts, strict=True) if parts else ([np.empty((0, k))], [np.empty((0, k), dtype=np.int64)])
        return np.concatenate(scores), np.concatenate(rows)


def load_faiss() -> Any:
    """Import faiss; UserError if it is not installed."""
    require("dense indexes need", "dense", "faiss")
    import faiss

    return faiss


def _reason(error: RuntimeError) -> str:
    """FAISS's message without the C++ signature and the source path."""
    return str(error).rsplit(": ", 1)[-1].splitlines()[0]


def total_memory() -> int:
    """Memory limit of this process, in bytes."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such file, or "max"
        return machine


def write_faiss_files(vectors: Sequence[Path], settings: DenseSettings, folder: Path, *, corpus: str) -> list[Path]:
    """Write the index as files of about ``settings.file_mb`` of vectors, and return their paths in row order.

    ``vectors`` are the files of :func:`encode_shards`. A finished file with the same settings and ``corpus`` (its
    identity) is reused.
    """
    import numpy as np

    whole: Inputs = {
        **_vector_inputs(settings, corpus),
        "factory": settings.factory,
        "shard_rows": settings.shard_rows,
        "faiss": version("faiss-cpu"),
    }
    trained = _train_index(vectors, settings, folder / "trained", whole)
    per_file = max(
        1, int(settings.file_mb * 1e6) // (getattr(trained, "storage", trained).sa_code_size() * settings.shard_rows)
    )
    paths = []
    for start in range(0, len(vectors), per_file):
        path = folder / f"{start // per_file:05d}.index"
        shards = vectors[start : start + per_file]
        inputs = {**whole, "first": start, "count": len(shards)}
        if not is_finished(path, inputs):
            index = load_faiss().clone_index(trained)
            for shard in shards:
                index.add(np.load(shard, mmap_mode="r").astype(np.float32))
            _write(index, path)
            mark_finished(path, inputs)
        paths.append(path)
    return paths


def _train_index(vectors: Sequence[Path], settings: DenseSettings, path: Path, inputs: Inputs) -> Any:
    """The trained empty index; it is kept on disk, so that a resumed build uses the same one."""
    faiss = load_faiss()
    if is_finished(path, inputs):
        return faiss.read_index(str(path))
    index = faiss.index_factory(settings.dimension, settings.factory, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        lists = int(faiss.extract_index_ivf(index).nlist) if settings.factory.startswith("IVF") else 0
        rows = min(max(_MAX_SAMPLE, _SAMPLE_PER_LIST * lists), _MAX_SAMPLE_BYTES // (4 * settings.dimension))
        index.train(_sample(vectors, settings.shard_rows, rows))
    _write(index, path)
    mark_finished(path, inputs)
    return index


def _sample(vectors: Sequence[Path], shard_rows: int, limit: int) -> NDArray[np.float32]:
    """At most ``limit`` random rows of all shards, the same on every call."""
    import numpy as np

    last = np.load(vectors[-1], mmap_mode="r")
    count = (len(vectors) - 1) * shard_rows + len(last)
    rows = np.arange(count)
    if count > limit:
        rows = np.sort(np.random.default_rng(0).choice(count, limit, replace=False))
    parts = []
    for number, path in enumerate(vectors):
        inside = rows[(rows >= number * shard_rows) & (rows < (number + 1) * shard_rows)]
        parts.append(np.load(path, mmap_mode="r")[inside - number * shard_rows].astype(np.float32))
    return np.concatenate(parts)


def _write(index: Any, path: Path) -> None:
    with atomic_write(path) as file:
        try:
            load_faiss().write_index(index, file.name)
        except RuntimeError as error:
            if "No space left" in str(error) or "Disk quota" in str(error):
                raise disk_full(path) from None
            raise UserError(f"cannot be written: {_reason(error)}", file=path) from None
