"""Fuse several rankings for one query: reciprocal rank fusion, the weighted sum of scores, and a hybrid source."""

from collections import ChainMap
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Literal, TypeVar

from madke.core.knowledge import Hits, Passage, Source
from madke.retrieval.source import close_sources, search_source, served_by

Method = Literal["rrf", "weighted"]

T = TypeVar("T", bound=Hashable)

_CONSTANT = 60
"""The constant of Cormack, Clarke and Buettcher (SIGIR 2009)."""


def fuse(
    rankings: Sequence[Mapping[T, float]], method: Method = "weighted", weights: Sequence[float] | None = None
) -> dict[T, float]:
    """Item -> fused score for every item of any ranking, best first.

    ``weighted`` adds ``weight * score``. Each ranking's scores are first scaled to 0 (lowest) to 1 (highest), so that
    BM25 scores (0 to 30) and cosines (0 to 1) can be added with weights near 1. An item missing from a ranking gets
    that ranking's lowest score.

    ``rrf`` adds ``weight / (60 + rank)``, rank from 1, over the rankings that contain the item (Cormack et al. 2009).
    It ignores scores. Both match pyserini's hybrid searcher with normalisation.

    ``weights`` are positive, one per ranking; default 1. Ties go to the earlier ranking, then to the better rank.
    """
    chosen = [1.0] * len(rankings) if weights is None else weights
    points = [
        {item: weight * point for item, point in (_by_rank if method == "rrf" else _by_score)(ranking).items()}
        for ranking, weight in zip(rankings, chosen, strict=True)
    ]
    items = dict.fromkeys(item for ranking in rankings for item in ranking)
    # fsum is exact, so the order of the rankings cannot create or break a tie.
    scores = {item: fsum(one.get(item, 0.0) for one in points) for item in items}
    return dict(sorted(scores.items(), key=lambda scored: -scored[1]))


def _by_rank(ranking: Mapping[T, float]) -> dict[T, float]:
    return {item: 1 / (_CONSTANT + rank) for rank, item in enumerate(ranking, start=1)}


def _by_score(ranking: Mapping[T, float]) -> dict[T, float]:
    """Scores scaled to 0 to 1; equal scores all become 1, so that being found counts."""
    if not ranking:
        return {}
    low, high = min(ranking.values()), max(ranking.values())
    return {item: (score - low) / (high - low) if high > low else 1.0 for item, score in ranking.items()}


DEPTH = 100
"""Minimum depth to which each ranking is read: a passage low in both rankings can beat one that is high in one.
With 1,000 (Ma et al. 2021) hit@5 and hit@20 change by at most 0.3 points, and BM25 takes five times as long."""


class HybridSource:
    """The fusion (see :func:`fuse`) of the results of several sources.

    Two passages are the same if both their keys and their words are equal: sources over one corpus agree on both, and
    different corpora may use the same keys. A query that fails in one source fails here: half a fusion would be
    another retriever.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        name: str,
        fusion: Method = "weighted",
        weights: Sequence[float] | None = None,
    ) -> None:
        self.name = name
        method = "rank fusion" if fusion == "rrf" else "weighted sum"
        shown = [f"{weight:g} x " for weight in weights] if weights else [""] * len(sources)
        self.description = self.fingerprint = f"{method} of " + " and ".join(
            f"{times}{served_by(source)}" for times, source in zip(shown, sources, strict=True)
        )
        self._sources = tuple(sources)
        self._fusion = fusion
        self._weights = weights

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The top ``k`` passages for each query; ties go to the earlier source."""
        rankings = [search_source(source, queries, max(k, DEPTH)) for source in self._sources]
        return [self._fused(hits, k) for hits in zip(*rankings, strict=True)]

    def aclose(self) -> None:
        """Close the parts."""
        close_sources(self._sources)

    def _fused(self, rankings: Sequence[Hits], k: int) -> Hits:
        errors = [hits.error for hits in rankings if hits.error is not None]
        if errors:
            return Hits(error="; ".join(errors))
        found = [{_identity(passage): passage for passage in hits.passages} for hits in rankings]
        passages = ChainMap(*found)  # of the first source that found it
        by_score = [{identity: passage.score for identity, passage in one.items()} for one in found]
        best = list(fuse(by_score, self._fusion, self._weights).items())[:k]
        fused = (
            replace(passages[identity], source=self.name, score=score, rank=rank)
            for rank, (identity, score) in enumerate(best)
        )
        return Hits(passages=tuple(fused))


def _identity(passage: Passage) -> tuple[str, str]:
    return passage.key, " ".join(passage.text.split())
