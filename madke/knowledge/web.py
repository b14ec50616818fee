"""Web search: settings and results, and a file of results as a source."""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, field_validator

from madke._util.files import fingerprint, read_jsonl
from madke._util.yaml_file import validated
from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage

_PER_SITE = 2
"""Google usually lists at most two results of one site."""
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+", re.ASCII)


class WebResult(BaseModel):
    """One result of a search: its snippet, never the page; ``date`` as the search engine writes it."""

    title: str = ""
    snippet: str = ""
    link: str
    """May be empty if there is an id or a text."""
    id: Annotated[str, Field(coerce_numbers_to_str=True)] = ""
    date: str | None = None
    score: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The service's own score, if it gives one."""

    @property
    def key(self) -> str:
        """The id, else the link, else a hash of the text."""
        return self.id or self.link or sha256(self.snippet.encode()).hexdigest()[:16]


def web_hits(results: Iterable[WebResult], k: int, *, source: str, retrieved_at: str | None) -> Hits:
    """The first ``k`` results with a snippet. Without a score of its own, a result has ``1 / (rank + 1)``."""
    shown = [result for result in results if result.snippet.strip()][:k]
    return Hits(
        passages=tuple(
            Passage(
                source=source,
                key=result.key,
                title=result.title,
                text=result.snippet,
                score=1 / (rank + 1) if result.score is None else result.score,
                rank=rank,
                url=result.link or None,
                retrieved_at=retrieved_at,
                date=result.date,
            )
            for rank, result in enumerate(shown)
        )
    )


def _without_secrets(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s@?#]+", url):  # without the value, which may contain a key
        raise ValueError("expected http:// or https:// and an address without user and query")
    return url


Address = Annotated[str, AfterValidator(_without_secrets)]
"""The address of a service. It is written to pool files and to the cache."""


class WebOptions(BaseModel, frozen=True, extra="forbid"):
    """Settings that all search services share."""

    exclude: tuple[str, ...] = ()
    """Excluded domains, with their subdomains; a leading ``www.`` is ignored."""
    cache_days: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """Days for which a cached answer is used; default: without limit."""

    @field_validator("exclude")
    @classmethod
    def _domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted({_domain(domain) for domain in domains}))

    @property
    def keys(self) -> Sequence[str]:
        """The environment variables that hold keys."""
        return ()

    def wanted(self, k: int) -> int:
        """Results to request for ``k`` passages: some more if domains are excluded."""
        return k + (_PER_SITE if self.exclude else 0)

    def allows(self, links: Iterable[str]) -> bool:
        """Whether a text with these links may be used; if domains are excluded, it needs a valid link."""
        hosts = [_host(link) for link in links]
        excluded = tuple(f".{domain}" for domain in self.exclude)
        return not excluded or (bool(hosts) and all(host and not f".{host}".endswith(excluded) for host in hosts))


def _domain(text: str) -> str:
    domain = (_host(f"//{text.strip()}") or "").removeprefix("www.")
    if not _HOST.fullmatch(domain) or re.search(r"[/:@?#\\]", text):
        raise ValueError(f"expected a domain such as example.org, found {text!r}")
    return domain


def _host(link: str) -> str | None:
    """The host of a link in lower case, international names as ``xn--``; None if the link is invalid."""
    try:
        # Browsers treat a backslash as a slash.
        host = urlsplit(link.replace("\\", "/")).hostname or ""
        host = host.rstrip(".").encode("idna").decode("ascii").lower()
    except ValueError:
        return None
    return host if _HOST.fullmatch(host) else None


class _Line(BaseModel):
    query: str
    results: tuple[WebResult, ...]


class SnippetsSource:
    """Results from a JSONL file of ``{"query", "results": [{"title", "snippet", "link", "date"?}]}``.

    Queries are matched without regard to case and white space; an unknown query has no passages. UserError on an
    invalid line or a repeated query.
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
        found = (self._results.get(_normalised(query), ()) for query in queries)
        return [web_hits(results, k, source=self.name, retrieved_at=None) for results in found]


def _normalised(query: str) -> str:
    return " ".join(query.split()).casefold()
