"""Results of a web search, however they were obtained."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from madke.core.knowledge import Hits, Passage


class WebResult(BaseModel):
    """One organic result of a web search: its snippet, never the page."""

    title: str = ""
    snippet: str = ""
    link: str
    date: str | None = None
    """When the page was published, in the search engine's words."""


def web_hits(results: Iterable[WebResult], k: int, *, source: str, retrieved_at: str | None) -> Hits:
    """The first ``k`` results that have a snippet. Web search gives no scores: a result has ``1 / (rank + 1)``."""
    shown = [result for result in results if result.snippet.strip()][:k]
    return Hits(
        passages=tuple(
            Passage(
                source=source,
                key=result.link,
                title=result.title,
                text=result.snippet,
                score=1 / (rank + 1),
                rank=rank,
                url=result.link,
                retrieved_at=retrieved_at,
                date=result.date,
            )
            for rank, result in enumerate(shown)
        )
    )
