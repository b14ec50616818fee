"""Several sources over one corpus as one, by the fusion of their rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from madke.core.knowledge import Hits, Passage, Source
from madke.knowledge.fusion import Method, fuse

_DEPTH = 100
"""How deep each ranking is read, at least: a passage that both find late can come before one that one finds early.
The replication of DPR (Ma et al. 2021) reads 1,000; in the comparison of :func:`madke.knowledge.fusion.fuse` that
changes hit@5 and hit@20 by at most 0.3 points with weights up to 1, and BM25 takes five times as long to answer."""


class HybridSource:
    """The fusion (see :func:`madke.knowledge.fusion.fuse`) of what several sources find.

    Passages are the same when their keys and words are: sources over one corpus agree on them, and numbers that two
    corpora both use as keys do not mix. A query that fails in one source fails here: half a fusion would be another
    retriever.

    Args:
        sources: At least two.
        name: What the passages are marked with.
        fusion: ``rrf`` or ``weighted``.
        weights: One for each source; by default 1.
    """

    def __init__(
        self, sources: Sequence[Source], *, name: str, fusion: Method = "rrf", weights: Sequence[float] | None = None
    ) -> None:
        self.name = name
        way = "rank fusion" if fusion == "rrf" else "weighted sum"
        shown = [f"{weight:g} x " for weight in weights] if weights else [""] * len(sources)
        self.description = f"{way} of " + " and ".join(
            f"{times}{source.description}" for times, source in zip(shown, sources, strict=True)
        )
        self._sources = tuple(sources)
        self._fusion = fusion
        self._weights = weights

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The best ``k`` passages for each query; ties go to the earlier source."""
        rankings = [source.search(queries, max(k, _DEPTH)) for source in self._sources]
        return [self._fused(hits, k) for hits in zip(*rankings, strict=True)]

    def _fused(self, rankings: Sequence[Hits], k: int) -> Hits:
        errors = [hits.error for hits in rankings if hits.error is not None]
        if errors:
            return Hits(error="; ".join(errors))
        passages: dict[tuple[str, str], Passage] = {}
        for hits in rankings:
            for passage in hits.passages:
                passages.setdefault(_identity(passage), passage)
        scores = fuse(
            [{_identity(passage): passage.score for passage in hits.passages} for hits in rankings],
            self._fusion,
            self._weights,
        )
        return Hits(
            passages=tuple(
                replace(passages[best], source=self.name, score=scores[best], rank=rank)
                for rank, best in enumerate(list(scores)[:k])
            )
        )


def _identity(passage: Passage) -> tuple[str, str]:
    return passage.key, " ".join(passage.text.split())
