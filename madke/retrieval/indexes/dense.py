"""Dense indexes: encode passages, shard by shard, and write and search FAISS files.

An index is trained once on a sample. It is a list of files that are filled one after the other and never merged; they
are searched memory-mapped.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madke._util.assets import require
from madke._util.files import Inputs, atomic_write, disk_full, is_finished, made_from, mark_finished
from madke._util.workers import Workers
from madke.core.errors import UserError
from madke.models.encoders import Encoder, time_estimate
from madke.retrieval.indexes.index_folder import DenseSettings, PassageStore, StoredPassage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

_LONG = 1_000
"""Passages, from which the build says how long it will take."""
_BLOCK = 8 << 20
_ANSWER_BYTES = 128 << 20


def encode_shards(
    store: PassageStore,
    encoder: Encoder,
    settings: DenseSettings,
    *,
    corpus: str,
    folder: Path,
    replace: bool,
    workers: Workers,
    progress: Callable[[int, int | None], None],
) -> list[Path]:
    """Encode every passage and return the files of vectors in row order.

    Each is a ``.npy`` file in ``folder``: float16, shape ``(settings.shard_rows, dimension)``; the last may be shorter.
    A finished shard of the same corpus (``corpus`` is its identity) and encoder is reused; any other shard is replaced,
    or refused without ``replace``. One worker encodes a whole shard, so its bytes do not depend on the workers.
    """
    import numpy as np

    paths: list[Path] = []
    missing: list[tuple[Path, Inputs, range]] = []
    for start in range(0, len(store), settings.shard_rows):
        rows = range(start, min(start + settings.shard_rows, len(store)))
        path = folder / f"{start:010d}.npy"
        paths.append(path)
        inputs: Inputs = {**vector_inputs(settings, corpus), "start": start, "stop": rows.stop}
        if is_finished(path, inputs):
            progress(rows.stop, len(store))
        elif not replace and made_from(path) not in (None, inputs):
            raise UserError("this folder holds vectors of another corpus or encoder; choose another", file=folder)
        else:
            missing.append((path, inputs, rows))
    count = sum(len(rows) for _, _, rows in missing)
    if count > _LONG:
        _, titles, texts = zip(*store.read(missing[0][2]), strict=True)
        estimate = time_estimate(encoder, titles, texts, count)
        _log.warning("encoding %s passages: %s with all cores of this machine", f"{count:,}", estimate)
    passages = (store.read(rows) for _, _, rows in missing)
    encoded = workers.map(partial(_encode, encoder), passages)
    for (path, inputs, rows), vectors in zip(missing, encoded, strict=True):
        if not np.isfinite(vectors).all():
            raise UserError(f"encoder {encoder.name!r}: a value of its vectors exceeds float16", file=path)
        with atomic_write(path) as file:
            np.save(file, vectors)
        mark_finished(path, inputs)
        progress(rows.stop, len(store))
    return paths


def vector_inputs(settings: DenseSettings, corpus: str) -> Inputs:
    """Everything that determines the vectors of a corpus (``corpus`` is its identity), apart from the shard."""
    names = {"encoder", "dtype", "revision", "batching", "passage_prefix", "pooling", "normalize"}
    return {"corpus": corpus, **settings.model_dump(include=names, exclude_none=True)}


def load_vectors(path: Path) -> NDArray[np.float32]:
    """A shard's vectors as float32."""
    import numpy as np

    vectors: NDArray[np.float32] = np.load(path, mmap_mode="r").astype(np.float32)
    return vectors


def _encode(encoder: Encoder, passages: Sequence[StoredPassage]) -> NDArray[np.float16]:
    import numpy as np

    titles, texts = [passage.title for passage in passages], [passage.text for passage in passages]
    with np.errstate(over="ignore"):  # an overflow becomes infinite; encode_shards refuses it
        return encoder.encode_passages(titles, texts).astype(np.float16)


class FaissShards:
    """Several FAISS files as one index; its rows are the concatenated rows of the files.

    UserError if a file is no FAISS index or ``parameters`` (FAISS syntax, such as ``nprobe=32``) are invalid for it.
    """

    def __init__(self, paths: Sequence[Path], *, parameters: str = "") -> None:
        faiss = load_faiss()
        in_memory = sum(path.stat().st_size for path in paths) < total_memory()
        self._opened = []
        for path in paths:
            if in_memory:
                # Read in blocks: page faults one by one take about ten times as long.
                with path.open("rb", buffering=0) as file:
                    while file.read(_BLOCK):
                        pass
            try:
                # Plain IO_FLAG_MMAP would read scalar quantizers and graphs whole.
                index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
                _set_parameters(index, parameters)
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
        at_once = max(1, _ANSWER_BYTES // (12 * k * len(self._opened)))
        parts = [self._index.search(queries[n : n + at_once], k) for n in range(0, len(queries), at_once)]
        scores, rows = zip(*parts, strict=True) if parts else ([np.empty((0, k))], [np.empty((0, k), dtype=np.int64)])
        return np.concatenate(scores), np.concatenate(rows)


def load_faiss() -> Any:
    """Import faiss; UserError if it is not installed."""
    require("dense indexes need", "dense", "faiss")
    import faiss

    return faiss


def _set_parameters(index: Any, parameters: str) -> None:
    if parameters:
        load_faiss().ParameterSpace().set_index_parameters(index, parameters)


def _reason(error: RuntimeError) -> str:
    """FAISS's message without the C++ signature and the source path."""
    return str(error).rsplit(": ", 1)[-1].splitlines()[0]


_SAMPLE = 65_536
"""Training vectors: 256 for each of the 256 centroids of a product quantizer, as FAISS advises."""
_SAMPLE_PER_LIST = 64
"""Training vectors per inverted list; FAISS warns below 39."""
_SAMPLE_BYTES = 2_000_000_000


def search_parameters(factory: str, dimension: int, given: str | None = None) -> str:
    """The search parameters: ``given``, or by default an eighth of the inverted lists, or 64 nodes of a graph."""
    try:
        whole = _empty(factory, dimension)
        _set_parameters(whole, given or "")
    except RuntimeError as error:
        asked = f"{factory!r} with {given!r}" if given else repr(factory)
        expected = "auto or a FAISS factory string, for example Flat, SQ8, PQ96np, IVF4096,SQ8 or HNSW32"
        found = f"--faiss {asked} for {dimension} dimensions: {_reason(error)}"
        raise UserError(f"{found}; expected {expected}") from None
    if given is not None:
        return given
    if lists := _lists(whole):
        return f"nprobe={max(1, lists // 8)}"
    faiss = load_faiss()
    index = faiss.downcast_index(whole)
    # A pre-transform wraps the actual index.
    inner = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
    return "efSearch=64" if hasattr(inner, "hnsw") else ""


def default_file_mb(factory: str) -> float:
    """The default size of a file: 64 MB; 1,024 MB for inverted files and graphs, where fewer files are faster."""
    return 1024.0 if "IVF" in factory or "HNSW" in factory else 64.0


def write_faiss_files(vectors: Sequence[Path], settings: DenseSettings, folder: Path, *, corpus: str) -> list[Path]:
    """Write the index as files of at most ``settings.file_mb``, and return their paths in row order.

    ``vectors`` are the files of :func:`encode_shards`. A finished file with the same settings and ``corpus`` (its
    identity) is reused.
    """
    whole: Inputs = {
        **vector_inputs(settings, corpus),
        "factory": settings.factory,
        "shard_rows": settings.shard_rows,
        "faiss": version("faiss-cpu"),
    }
    trained = _trained(vectors, settings, folder / "trained", whole)
    shard_bytes = _bytes_per_vector(trained, settings) * settings.shard_rows
    per_file = max(1, int(settings.file_mb * 1e6) // shard_bytes)
    paths = []
    for start in range(0, len(vectors), per_file):
        path = folder / f"{start // per_file:05d}.index"
        inputs = {**whole, "first": start, "count": len(vectors[start : start + per_file])}
        if not is_finished(path, inputs):
            index = load_faiss().clone_index(trained)
            for shard in vectors[start : start + per_file]:
                index.add(load_vectors(shard))
            _write(index, path)
            mark_finished(path, inputs)
        paths.append(path)
    return paths


def _lists(index: Any) -> int:
    """The number of lists of an inverted file; 0 for other types."""
    try:
        return int(load_faiss().extract_index_ivf(index).nlist)
    except RuntimeError:
        return 0


def _empty(factory: str, dimension: int) -> Any:
    faiss = load_faiss()
    return faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)


def _trained(vectors: Sequence[Path], settings: DenseSettings, path: Path, inputs: Inputs) -> Any:
    """The trained empty index; it is kept on disk, so that a resumed build uses the same one."""
    faiss = load_faiss()
    if is_finished(path, inputs):
        return faiss.read_index(str(path))
    index = _empty(settings.factory, settings.dimension)
    if not index.is_trained:
        limit = _SAMPLE_BYTES // (4 * settings.dimension)
        rows = min(max(_SAMPLE, _SAMPLE_PER_LIST * _lists(index)), limit)
        try:
            index.train(_sample(vectors, settings.shard_rows, rows))
        except RuntimeError as error:
            raise UserError(f"--faiss {settings.factory} cannot be trained: {_reason(error)}") from None
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
    sample = np.empty((len(rows), last.shape[1]), dtype=np.float32)
    for number, path in enumerate(vectors):
        inside = (rows >= number * shard_rows) & (rows < (number + 1) * shard_rows)
        sample[inside] = np.load(path, mmap_mode="r")[rows[inside] - number * shard_rows]
    return sample


def _bytes_per_vector(trained: Any, settings: DenseSettings) -> int:
    """Bytes per vector in the index, measured by adding some: no formula covers every type."""
    import numpy as np

    faiss = load_faiss()
    sizes = []
    for count in (256, 512):
        index = faiss.clone_index(trained)
        index.add(np.random.default_rng(0).standard_normal((count, settings.dimension)).astype(np.float32))
        sizes.append(len(faiss.serialize_index(index)))
    return max(1, (sizes[1] - sizes[0]) // 256)


def _write(index: Any, path: Path) -> None:
    with atomic_write(path) as file:
        try:
            load_faiss().write_index(index, file.name)
        except RuntimeError as error:
            if "No space left" in str(error) or "Disk quota" in str(error):
                raise disk_full(path) from None
            raise UserError(f"cannot be written: {_reason(error)}", file=path) from None


_EXACT_SHARE = 1 / 4
_COMPRESSED_SHARE = 3 / 4
"""Shares of memory that a flat or another index may take: mapped files are fast while they stay in memory."""


def total_memory() -> int:
    """Memory limit of this process, in bytes."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such file, or "max"
        return machine


def choose(count: int, dimension: int, memory: int) -> tuple[str, str]:
    """Choose the most exact index of ``count`` vectors that fits in ``memory`` (bytes): factory string and reason.

    Flat (4 bytes per dimension), SQ8 (1 byte), else product quantization with a quarter to a sixteenth of a byte
    (``np``: without training for Hamming distances, which is slow and not needed here).
    """
    codes = [_divisor(dimension, dimension // part) for part in (4, 8, 16)]
    types = {"Flat": 4 * dimension, "SQ8": dimension} | {f"PQ{code}np": code for code in codes}
    of_memory = f"of {memory / 1e9:.1f} GB memory"
    reason = ""
    for factory, bytes_per_vector in types.items():
        takes = f"{bytes_per_vector * count / 1e9:.1f} GB"
        share = _EXACT_SHARE if factory == "Flat" else _COMPRESSED_SHARE
        if bytes_per_vector * count <= memory * share:
            return factory, f"{reason}{factory} takes {takes}" if reason else f"exact; {takes} {of_memory}"
        reason = f"{factory} would take {takes} {of_memory}, "
    return factory, f"{factory} takes {takes} {of_memory}, which is still too much: searches will read from disk"


def _divisor(number: int, limit: int) -> int:
    """The largest divisor up to ``limit``: each byte of a product quantizer encodes the same number of dimensions."""
    return next(divisor for divisor in range(max(limit, 1), 0, -1) if number % divisor == 0)
