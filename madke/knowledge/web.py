"""Results of a web search, however they were obtained; and a file of them as a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.files import fingerprint, read_jsonl
from madke.yaml_file import validated


class WebResult(BaseModel):
    """One organic result of a web search: its snippet, never the page; ``date`` is in the search engine's words."""

    title: str = ""
    snippet: str = ""
    link: str
    date: str | None = None

    @property
    def key(self) -> str:
        """The passage's."""
        return self.link


class WebPanel(WebResult):
    """What a search engine shows beside its organic results; ``kind`` is such as ``answer_box``."""

    kind: str

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


class _Line(BaseModel):
    query: str
    results: tuple[WebResult, ...]


class SnippetsSource:
    """Answers exactly the queries of a JSONL file of ``{"query", "results": [{"title", "snippet", "link", "date"?}]}``.

    Queries are compared without regard to case and white space; an unknown one has no passages. A wrong line, or a
    query that occurs twice, is a UserError.
    """

    def __init__(self, path: Path, *, name: str) -> None:
        self.name = name
        self._results: dict[str, tuple[WebResult, ...]] = {}
        for number, item in read_jsonl(path):
            line = validated(item, _Line, file=f"{path}:{number}")
            key = _normalised(line.query)
            if key in self._results:
                raise UserError(f"query {line.query!r} occurs twice", file=path, line=number)
            self._results[key] = line.results
        self.fingerprint = fingerprint(path)[:12]
        self.description = f"web-style snippets for {len(self._results):,} queries ({path}, {self.fingerprint})"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The first ``k`` results for each query."""
        return [
            web_hits(self._results.get(_normalised(query), ()), k, source=self.name, retrieved_at=None)
            for query in queries
        ]


def _normalised(query: str) -> str:
    return " ".join(query.split()).casefold()
