"""Encode passages to vectors, shard by shard (a build can resume), and measure the recall of an index."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from madke.core.errors import UserError
from madke.encoders import Encoder
from madke.files import Inputs, atomic_write, finish, is_finished, made_from
from madke.indexing.index_folder import DenseSettings, IndexRecall, PassageStore, StoredPassage
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
    """Encode every passage and return the files of vectors in row order.

    Each is a ``.npy`` file in ``folder``: float16, shape ``(settings.shard_rows, dimension)``; the last may be shorter.
    A finished shard of the same corpus (``corpus`` is its SHA-256) and encoder is reused; any other shard is replaced,
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
    passages = (store.read(rows) for _, _, rows in missing)
    for (path, inputs, rows), vectors in zip(missing, workers.map(partial(_encode, encoder), passages), strict=True):
        if not np.isfinite(vectors).all():
            raise UserError(f"encoder {encoder.name!r}: a value of its vectors exceeds float16", file=path)
        with atomic_write(path) as file:
            np.save(file, vectors)
        finish(path, inputs)
        progress(rows.stop, len(store))
    return paths


def vector_inputs(settings: DenseSettings, corpus: str) -> Inputs:
    """Everything that determines the vectors of a corpus (``corpus`` is its SHA-256), apart from the shard."""
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


def measure_recall(store: PassageStore, encoder: Encoder, vectors: Sequence[Path], index: FaissShards) -> IndexRecall:
    """Recall@5 against an exact search over the same vectors; the queries are first sentences of 500 passages.

    The passage of the query itself is ignored. A passage that scores at least as high as the exact search's fifth is
    a hit. Real questions are less similar to passages, so the recall of an inverted file is somewhat lower for them.
    """
    import faiss
    import numpy as np

    own = np.arange(0, len(store), max(1, len(store) // _QUERIES))[:_QUERIES]
    sentences = [re.split(r"(?<=[.!?])\s", store[int(row)].text.strip(), maxsplit=1)[0] for row in own]
    queries = encoder.encode_queries(sentences)
    depth = min(_DEPTH, len(store) - 1)
    if depth == 0:
        return IndexRecall(recall_at_5=1.0, queries=0)
    found = index.search(queries, depth + 1)[1]
    # Move the query's own passage to the end and drop it.
    found = np.take_along_axis(found, np.argsort(found == own[:, None], axis=1, kind="stable"), axis=1)[:, :depth]
    exact = np.full((len(queries), 0), -np.inf, dtype=np.float32)
    score_of_found = np.full(found.shape, -np.inf, dtype=np.float32)
    first = 0
    for path in vectors:
        shard = load_vectors(path)
        scores, rows = faiss.knn(queries, shard, min(depth + 1, len(shard)), metric=faiss.METRIC_INNER_PRODUCT)
        scores[rows + first == own[:, None]] = -np.inf
        exact = -np.sort(-np.concatenate([exact, scores], axis=1), axis=1)[:, :depth]
        query, place = np.nonzero((found >= first) & (found < first + len(shard)))
        score_of_found[query, place] = np.einsum("nd,nd->n", queries[query], shard[found[query, place] - first])
        first += len(shard)
    # The two computations of a score differ in the last bits.
    hits = score_of_found >= exact[:, -1:] - 1e-5 * np.abs(exact[:, -1:])
    margin = 1.96 * hits.mean(axis=1).std() / np.sqrt(len(queries))
    return IndexRecall(recall_at_5=round(float(hits.mean()), 4), margin=round(float(margin), 4), queries=len(queries))
