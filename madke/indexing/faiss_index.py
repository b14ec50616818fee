"""FAISS files from shards of vectors: trained once on a sample, then filled one after the other, never merged."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madke.core.errors import UserError
from madke.files import disk_full, replacing
from madke.indexing.dense import vector_inputs
from madke.knowledge.faiss_shards import faiss_reason, load_faiss, set_parameters
from madke.knowledge.manifest import DenseSettings
from madke.shards import Inputs, finish, is_finished

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SAMPLE = 65_536
"""Vectors that an index is trained on; 256 for each of the 256 centroids of a product quantizer, as FAISS advises."""
_SAMPLE_PER_LIST = 64
"""More of them where an inverted file has more lists; FAISS warns below 39."""
_SAMPLE_BYTES = 2_000_000_000
"""The sample is held in memory."""


def check_factory(factory: str, dimension: int, parameters: str = "") -> None:
    """Refuse an index type that FAISS does not know, or that needs ids of its own, before hours of encoding.

    Raises:
        UserError: So does a missing faiss, and parameters that do not fit the type.
    """
    try:
        index = _empty(factory, dimension)
        set_parameters(index, parameters)
        reason = "it numbers its rows by itself" if "IDMap" in type(index).__name__ else None
    except RuntimeError as error:
        reason = faiss_reason(error)
    if reason:
        asked = f"{factory!r} with {parameters!r}" if parameters else repr(factory)
        raise UserError(
            f"--faiss {asked} for {dimension} dimensions: {reason}; expected auto or a FAISS factory string, for "
            "instance Flat, SQ8, PQ96np, IVF4096,SQ8 or HNSW32"
        )


def default_parameters(factory: str, dimension: int) -> str:
    """How such an index is searched where nobody says: an eighth of an inverted file's lists, 64 nodes of a graph.

    FAISS's own defaults, one list and 16 nodes, miss too much to be anybody's wish.
    """
    index = _empty(factory, dimension)
    if lists := _lists(index):
        return f"nprobe={max(1, lists // 8)}"
    return "efSearch=64" if hasattr(_innermost(index), "hnsw") else ""


def default_file_mb(factory: str) -> float:
    """How large a FAISS file is where nobody says: 64 MB, or 1,024 for inverted files and graphs.

    A file is built in memory. Every file of an inverted file or a graph is searched from its start, so fewer are
    faster; for other types it makes no difference.
    """
    return 1024.0 if "IVF" in factory or "HNSW" in factory else 64.0


def write_faiss_files(vectors: Sequence[Path], settings: DenseSettings, folder: Path, *, corpus: str) -> list[Path]:
    """Write the index over all vectors as files of at most ``settings.file_mb``, and return them in row order.

    Args:
        vectors: ``.npy`` files of ``settings.shard_rows`` rows, the last one shorter.
        settings: What to build.
        folder: Where; a finished file of the same settings and ``corpus`` (its SHA-256) is left as it is.
        corpus: See above.

    Raises:
        UserError: The vectors are too few to train the index, or a file cannot be written.
    """
    made_from: Inputs = {
        **vector_inputs(settings, corpus),
        "factory": settings.factory,
        "shard_rows": settings.shard_rows,
        "faiss": version("faiss-cpu"),
    }
    trained = _trained(vectors, settings, folder / "trained", made_from)
    shard_bytes = _bytes_per_vector(trained, settings) * settings.shard_rows
    per_file = max(1, int(settings.file_mb * 1e6) // shard_bytes)
    paths = []
    for start in range(0, len(vectors), per_file):
        path = folder / f"{start // per_file:05d}.index"
        inputs = {**made_from, "first": start, "count": len(vectors[start : start + per_file])}
        if not is_finished(path, inputs):
            index = load_faiss().clone_index(trained)
            for shard in vectors[start : start + per_file]:
                index.add(load_vectors(shard))
            _write(index, path)
            finish(path, inputs)
        paths.append(path)
    return paths


def load_vectors(path: Path) -> NDArray[np.float32]:
    """A shard's vectors as float32, shape ``(rows, dimension)``."""
    import numpy as np

    vectors: NDArray[np.float32] = np.load(path, mmap_mode="r").astype(np.float32)
    return vectors


def _lists(index: Any) -> int:
    """The lists of an inverted file; 0 for anything else."""
    try:
        return int(load_faiss().extract_index_ivf(index).nlist)
    except RuntimeError:
        return 0


def _innermost(index: Any) -> Any:
    """The index behind what transforms its vectors."""
    faiss = load_faiss()
    index = faiss.downcast_index(index)
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index


def _empty(factory: str, dimension: int) -> Any:
    faiss = load_faiss()
    return faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)


def _trained(vectors: Sequence[Path], settings: DenseSettings, path: Path, inputs: Inputs) -> Any:
    """The empty index, trained; kept, so that a resumed build fills the same one."""
    faiss = load_faiss()
    if is_finished(path, inputs):
        return faiss.read_index(str(path))
    index = _empty(settings.factory, settings.dimension)
    if not index.is_trained:
        most = _SAMPLE_BYTES // (4 * settings.dimension)
        rows = min(max(_SAMPLE, _SAMPLE_PER_LIST * _lists(index)), most)
        try:
            index.train(_sample(vectors, settings.shard_rows, rows))
        except RuntimeError as error:
            raise UserError(f"--faiss {settings.factory} cannot be trained: {faiss_reason(error)}") from None
    _write(index, path)
    finish(path, inputs)
    return index


def _sample(vectors: Sequence[Path], shard_rows: int, most: int) -> NDArray[np.float32]:
    """So many rows of all shards at random (all, where they are fewer), the same ones every time."""
    import numpy as np

    last = np.load(vectors[-1], mmap_mode="r")
    count = (len(vectors) - 1) * shard_rows + len(last)
    rows = np.arange(count)
    if count > most:
        rows = np.sort(np.random.default_rng(0).choice(count, most, replace=False))
    sample = np.empty((len(rows), last.shape[1]), dtype=np.float32)
    for number, path in enumerate(vectors):
        inside = (rows >= number * shard_rows) & (rows < (number + 1) * shard_rows)
        sample[inside] = np.load(path, mmap_mode="r")[rows[inside] - number * shard_rows]
    return sample


def _bytes_per_vector(trained: Any, settings: DenseSettings) -> int:
    """What a vector takes in the index, found by adding some: no formula covers every type."""
    import numpy as np

    faiss = load_faiss()
    sizes = []
    for count in (256, 512):
        index = faiss.clone_index(trained)
        index.add(np.random.default_rng(0).standard_normal((count, settings.dimension)).astype(np.float32))
        sizes.append(len(faiss.serialize_index(index)))
    return max(1, (sizes[1] - sizes[0]) // 256)


def _write(index: Any, path: Path) -> None:
    with replacing(path) as file:
        try:
            load_faiss().write_index(index, file.name)
        except RuntimeError as error:
            if "No space left" in str(error) or "Disk quota" in str(error):
                raise disk_full(path) from None
            raise UserError(f"cannot be written: {faiss_reason(error)}", file=path) from None
