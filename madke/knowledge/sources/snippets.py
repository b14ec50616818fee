"""A file of web-style results, standing in for a web search: the sample's, or one that was frozen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError

from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.files import fingerprint, read_jsonl
from madke.knowledge.sources.web import WebResult, web_hits


class _Line(BaseModel):
    query: str
    results: tuple[WebResult, ...]


class SnippetsSource:
    """Answers exactly the queries of a JSONL file of ``{"query", "results": [{"title", "snippet", "link", "date"?}]}``.

    Queries are compared without regard to case and white space; an unknown one has no passages. A passage's key is
    the link, its text the snippet, its time the date.

    Raises:
        UserError: The file or one of its lines is wrong, or two lines have the same query.
    """

    def __init__(self, path: Path, *, name: str) -> None:
        self.name = name
        self._results: dict[str, tuple[WebResult, ...]] = {}
        for number, item in read_jsonl(path):
            try:
                line = _Line.model_validate(item)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise UserError(f"{where}: {first['msg']}", file=path, line=number) from error
            key = _normalised(line.query)
            if key in self._results:
                raise UserError(f"query {line.query!r} occurs twice", file=path, line=number)
            self._results[key] = line.results
        self.description = f"web-style snippets for {len(self._results):,} queries ({path}, {fingerprint(path)[:12]})"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The first ``k`` results for each query."""
        return [
            web_hits(self._results.get(_normalised(query), ()), k, source=self.name, retrieved_at=None)
            for query in queries
        ]


def _normalised(query: str) -> str:
    return " ".join(query.split()).casefold()
