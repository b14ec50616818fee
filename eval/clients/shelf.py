"""A source for clients that show sources: two passages, one of them with an address."""

from __future__ import annotations

from collections.abc import Sequence

from madke.core.knowledge import Hits, Passage


class Shelf:
    """Gives the same passages for every query."""

    name = "shelf"
    description = "two passages"
    fingerprint = "1"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The passages."""
        texts = ("The survey of 2019 called Lake 17 the deepest.", "Lake Baikal is 1,642 metres deep.")
        passages = tuple(
            Passage(
                source="shelf",
                key=str(rank),
                title=f"Lakes, volume {rank + 1}",
                text=text,
                score=1.0,
                rank=rank,
                url=f"https://example.org/lakes/{rank}" if rank else None,
            )
            for rank, text in enumerate(texts)
        )
        return [Hits(passages=passages[:k])] * len(queries)


SHELF = Shelf()
