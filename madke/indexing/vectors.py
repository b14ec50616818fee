"""Passages as vectors, shard by shard, so that a stopped build goes on; and what an index finds of an exact search."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from madke.core.errors import UserError
from madke.encoders import Encoder
from madke.files import Inputs, finish, is_finished, made_from, replacing
from madke.indexing.manifest import DenseSettings, Exactness
from madke.indexing.passage_store import PassageStore
from madke.workers import Workers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from madke.indexing.faiss_files import FaissShards

_QUERIES = 500
_DEPTH = 5


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
    """Encode every passage, and return the files of vectors in row order.

    Each is a ``.npy`` file in ``folder``: float16, shape ``(settings.shard_rows, dimension)``, the last one shorter,
    with a record beside it. A finished shard of the same corpus (``corpus`` is its SHA-256) and encoder is left as it
    is; another is replaced, or, without ``replace``, refused. A shard is encoded in one go, in batches of passages of
    like length, so its bytes do not depend on who does it.

    Raises:
        UserError: A shard cannot be written or must not be replaced, or the encoder gives what is no finite float16.
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
            raise UserError("holds vectors of something else; choose another folder for these", file=folder)
        else:
            missing.append((path, inputs, rows))
    texts = (_texts(store, rows) for _, _, rows in missing)
    for (path, inputs, rows), vectors in zip(missing, workers.map(partial(_encode, encoder), texts), strict=True):
        if not np.isfinite(vectors).all():
            raise UserError(f"encoder {encoder.name!r}: its vectors do not fit into 16 bits", file=path)
        with replacing(path) as file:
            np.save(file, vectors)
        finish(path, inputs)
        progress(rows.stop, len(store))
    return paths


def vector_inputs(settings: DenseSettings, corpus: str) -> Inputs:
    """What decides the vectors of a corpus (``corpus`` is its SHA-256), whichever shard they are in."""
    return {
        "corpus": corpus,
        "encoder": settings.encoder,
        "dtype": settings.dtype,
        "revision": settings.revision,
        "batching": settings.batching,
    }


def load_vectors(path: Path) -> NDArray[np.float32]:
    """A shard's vectors as float32, shape ``(rows, dimension)``."""
    import numpy as np

    vectors: NDArray[np.float32] = np.load(path, mmap_mode="r").astype(np.float32)
    return vectors


def _texts(store: PassageStore, rows: range) -> tuple[list[str], list[str]]:
    """Titles and texts of a shard's passages."""
    passages = store.read(rows)
    return [passage.title for passage in passages], [passage.text for passage in passages]


def _encode(encoder: Encoder, texts: tuple[list[str], list[str]]) -> NDArray[np.float16]:
    import numpy as np

    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused where it arrives
        return encoder.encode_passages(*texts).astype(np.float16)


def measure_recall(store: PassageStore, encoder: Encoder, vectors: Sequence[Path], index: FaissShards) -> Exactness:
    """Recall@5 against an exact search over the same vectors, for 500 passages' first sentences as queries.

    A query's own passage counts on neither side: any index finds it. A passage that scores no less than the exact
    search's fifth counts as found, so that equal passages cost nothing. Real questions lie further from the passages
    than their own sentences do, so an inverted file finds somewhat less of what they ask for.
    Every n-th of the passages, at least two, gives a query; the shards of ``vectors`` are in row order.
    """
    import faiss
    import numpy as np

    own = np.arange(0, len(store), max(1, len(store) // _QUERIES))[:_QUERIES]
    queries = encoder.encode_queries([_first_sentence(store[int(row)].text) for row in own])
    depth = min(_DEPTH, len(store) - 1)
    if depth == 0:
        return Exactness(recall_at_5=1.0, queries=0)
    found = _without(own, index.search(queries, depth + 1)[1])[:, :depth]
    exact = np.full((len(queries), 0), -np.inf, dtype=np.float32)
    score_of_found = np.full(found.shape, -np.inf, dtype=np.float32)
    first = 0
    for path in vectors:
        shard = load_vectors(path)
        scores, rows = faiss.knn(queries, shard, min(depth + 1, len(shard)), metric=faiss.METRIC_INNER_PRODUCT)
        scores[rows + first == own[:, None]] = -np.inf
        exact = -np.sort(-np.concatenate([exact, scores], axis=1), axis=1)[:, :depth]
        _fill_scores(score_of_found, found - first, shard, queries)
        first += len(shard)
    # The two ways of computing a score differ in its last bits.
    hits = score_of_found >= exact[:, -1:] - 1e-5 * np.abs(exact[:, -1:])
    margin = 1.96 * hits.mean(axis=1).std() / np.sqrt(len(queries))
    return Exactness(recall_at_5=round(float(hits.mean()), 4), margin=round(float(margin), 4), queries=len(queries))


def _without(own: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows that were found for each query but its own, which is moved to the end."""
    import numpy as np

    order = np.argsort(found == own[:, None], axis=1, kind="stable")
    rows: NDArray[np.int64] = np.take_along_axis(found, order, axis=1)
    return rows


def _fill_scores(
    scores: NDArray[np.float32], rows: NDArray[np.int64], shard: NDArray[np.float32], queries: NDArray[np.float32]
) -> None:
    """Set the exact scores of those rows that lie in the shard."""
    import numpy as np

    query, place = np.nonzero((rows >= 0) & (rows < len(shard)))
    scores[query, place] = np.einsum("nd,nd->n", queries[query], shard[rows[query, place]])


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", text.strip(), maxsplit=1)[0]
