"""How much of an exact search an index finds, measured on passages of its own corpus."""

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

_QUERIES = 500
_DEPTH = 5


def measure_exactness(store: PassageStore, encoder: Encoder, vectors: Sequence[Path], index: FaissShards) -> Exactness:
    """Recall@5 against an exact search over the same vectors, for 500 passages' first sentences as queries.

    A query's own passage counts on neither side: any index finds it. A passage that scores no less than the exact
    search's fifth counts as found, so that equal passages cost nothing. Real questions lie further from the passages
    than their own sentences do, so an inverted file finds somewhat less of what they ask for.

    Args:
        store: The passages, of which every n-th gives a query; at least two.
        encoder: Encodes them, as queries.
        vectors: All shards, in row order; read one after the other.
        index: The index over them.
    """
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
        faiss = load_faiss()
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
