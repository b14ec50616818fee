"""How much of an exact search an index finds, measured on vectors of its own corpus."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from madke.encoders import Encoder
from madke.indexing.faiss_index import load_vectors
from madke.knowledge.faiss_shards import FaissShards, load_faiss
from madke.knowledge.manifest import Exactness
from madke.knowledge.passage_store import PassageStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_QUERIES = 200
_DEPTH = 5


def measure_exactness(store: PassageStore, encoder: Encoder, vectors: Sequence[Path], index: FaissShards) -> Exactness:
    """Recall@5 against an exact search over the same vectors, for 200 passages' first sentences as queries.

    A passage that scores no less than the exact search's fifth counts as found, so that equal passages cost nothing.

    Args:
        store: The passages, of which every n-th gives a query.
        encoder: Encodes them, as queries.
        vectors: All shards, in row order; read one after the other.
        index: The index over them.
    """
    import numpy as np

    step = max(1, len(store) // _QUERIES)
    texts = [_first_sentence(store[row].text) for row in range(0, len(store), step)][:_QUERIES]
    queries = encoder.encode_queries(texts)
    depth = min(_DEPTH, len(store))
    _, found = index.search(queries, depth)
    exact = np.full((len(queries), 0), -np.inf, dtype=np.float32)
    score_of_found = np.full(found.shape, -np.inf, dtype=np.float32)
    first = 0
    for path in vectors:
        shard = load_vectors(path)
        scores, _ = load_faiss().knn(queries, shard, min(depth, len(shard)), metric=load_faiss().METRIC_INNER_PRODUCT)
        exact = -np.sort(-np.concatenate([exact, scores], axis=1), axis=1)[:, :depth]
        _fill_scores(score_of_found, found - first, shard, queries)
        first += len(shard)
    # The two ways of computing a score differ in its last bits.
    hits = score_of_found >= exact[:, -1:] - 1e-5 * np.abs(exact[:, -1:])
    return Exactness(recall_at_5=round(float(hits.mean()), 4), queries=len(queries))


def _fill_scores(
    scores: NDArray[np.float32], rows: NDArray[np.int64], shard: NDArray[np.float32], queries: NDArray[np.float32]
) -> None:
    """Set the exact scores of those rows that lie in the shard."""
    import numpy as np

    query, place = np.nonzero((rows >= 0) & (rows < len(shard)))
    scores[query, place] = np.einsum("nd,nd->n", queries[query], shard[rows[query, place]])


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", text.strip(), maxsplit=1)[0]
