"""Several sources over one corpus as one, by reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from madke.core.knowledge import Hits, Passage, Source

_CONSTANT = 60
"""The constant of Cormack, Clarke and Buettcher (SIGIR 2009)."""
_DEPTH = 100
"""How deep each ranking is read, at least: a passage that both find late can come before one that one finds early."""


class HybridSource:
    """A passage scores the sum over the sources of ``1 / (60 + rank)``, rank from 1 (Cormack et al. 2009).

    Passages are the same when their keys are, so the sources must index the same corpus. A query that fails in one
    source fails here: half a fusion would be another retriever.
    """

    def __init__(self, sources: Sequence[Source], *, name: str) -> None:
        self.name = name
        self.description = "rank fusion of " + " and ".join(source.description for source in sources)
        self._sources = tuple(sources)

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The best ``k`` passages for each query; ties go to the earlier source."""
        rankings = [source.search(queries, max(k, _DEPTH)) for source in self._sources]
        return [self._fused(hits, k) for hits in zip(*rankings, strict=True)]

    def _fused(self, rankings: Sequence[Hits], k: int) -> Hits:
        errors = [hits.error for hits in rankings if hits.error is not None]
        if errors:
            return Hits(error="; ".join(errors))
        scores: dict[str, float] = {}
        passages: dict[str, Passage] = {}
        for hits in rankings:
            for passage in hits.passages:
                passages.setdefault(passage.key, passage)
                scores[passage.key] = scores.get(passage.key, 0.0) + 1 / (_CONSTANT + 1 + passage.rank)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:k]
        return Hits(
            passages=tuple(
                replace(passages[key], source=self.name, score=scores[key], rank=rank) for rank, key in enumerate(best)
            )
        )
