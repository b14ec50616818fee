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

    @property
    def key(self) -> str:
        """What the passage is known by inside its source."""
        return self.link


class WebPanel(WebResult):
    """What a search engine shows beside its organic results. Its link says where the text is from, and may be empty."""

    kind: str
    """Such as ``answer_box``; the key begins with it, so that a reader can tell."""

    @property
    def key(self) -> str:
        """The kind, and the link or what else tells two panels apart."""
        return f"{self.kind} {self.link or self.title or self.snippet}"


def web_hits(results: Iterable[WebResult], k: int, *, source: str, retrieved_at: str | None) -> Hits:
    """The first ``k`` results that have a snippet. Web search gives no scores: a result has ``1 / (rank + 1)``."""
    shown = [result for result in results if result.snippet.strip()][:k]
    return Hits(
        passages=tuple(
            Passage(
                source=source,
                key=result.key,
                title=result.title,
                text=result.snippet,
                score=1 / (rank + 1),
                rank=rank,
                url=result.link or None,
                retrieved_at=retrieved_at,
                date=result.date,
            )
            for rank, result in enumerate(shown)
        )
    )
