"""Web search: settings, results, a file of results, and what all search services share.

The cache, retries, quotas and costs are the same for all services. Whole replies are cached on disk: a repeated search
costs nothing and returns the same reply, also when other parts of it are used.
"""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, field_validator

from madke._util.assets import cache_dir
from madke._util.files import fingerprint, read_jsonl
from madke._util.yaml_file import validated
from madke.core.errors import UserError, count_of
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

    def request_size(self, k: int) -> int:
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


_ATTEMPTS = 5
_LONGEST_WAIT = 30.0
"""Seconds; the search ends if the service asks for a longer wait."""

MAX_REPLY_BYTES = 5_000_000
"""Maximum size of a reply; a hundred results take about 50,000 bytes."""

Request = Mapping[str, Any]
"""JSON values that identify a request to a service, without keys. It is the reply's key in the cache."""


class PricedReply(NamedTuple):
    """A reply as a JSON value, and its price."""

    value: Any
    credits: int = 0


class NoAnswer(Exception):
    """A request failed, and a retry cannot help. ``refused``: the service will refuse other requests too."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


class TryAgain(Exception):
    """A request failed and may be retried, after ``wait`` seconds if the service asked for a wait."""

    def __init__(self, reason: str, *, wait: float | None = None, reached: bool = True) -> None:
        super().__init__(reason)
        self.wait = wait
        self.reached = reached


Fetch = Callable[[Request], Any]
"""Returns the value of a reply, from the cache or the service; raises NoAnswer."""


class Service(Protocol):
    """A search service: how it is asked, and what its replies mean."""

    address: str
    """Where it is, without secrets: it is written to the cache."""
    description: str
    """Address and settings that change results, without secrets: written to pool files."""
    concurrency: int

    def send(self, request: Request) -> PricedReply:
        """Send one request once; raises NoAnswer or TryAgain. Several threads may call it."""

    def results(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The results for a query, best first; it may fetch several replies."""

    def close(self) -> None:
        """End the connections; the next request opens new ones."""


class _CachedReply(NamedTuple):
    value: Any
    retrieved_at: datetime


class _Cache:
    """Replies and their retrieval times by address and request, in an SQLite file that processes share."""

    def __init__(self, path: Path, address: str) -> None:
        self._path = path
        self._address = address
        columns = "base_url TEXT, parameters TEXT, retrieved_at TEXT, reply TEXT, PRIMARY KEY (base_url, parameters)"
        self._execute(f"CREATE TABLE IF NOT EXISTS replies ({columns})")

    def is_empty(self) -> bool:
        return self._execute("SELECT 1 FROM replies WHERE base_url = ?", self._address) is None

    def read(self, request: Request) -> _CachedReply | None:
        """The cached reply, of any age."""
        select = "SELECT retrieved_at, reply FROM replies WHERE base_url = ? AND parameters = ?"
        row = self._execute(select, self._address, json.dumps(request, sort_keys=True))
        return None if row is None else _CachedReply(json.loads(row[1]), datetime.fromisoformat(row[0]))

    def write(self, request: Request, kept: _CachedReply) -> None:
        row = (json.dumps(request, sort_keys=True), kept.retrieved_at.isoformat(), json.dumps(kept.value))
        self._execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", self._address, *row)

    def _execute(self, statement: str, *values: str) -> Any:
        """The first row of the result; None if there is none."""
        try:
            with closing(sqlite3.connect(self._path, timeout=30)) as database, database:
                return database.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            raise UserError(f"the cache of web searches cannot be used: {error}", file=self._path) from None


@dataclass(kw_only=True, slots=True)
class Spent:
    """The cost of a source's searches since it was opened."""

    source: str
    requests: int = 0
    credits: int = 0
    cached: int = 0

    def line(self) -> str:
        """The costs as one line of text, without a newline."""
        requests, cached = count_of(self.requests, "request"), count_of(self.cached, "answer")
        price = f", {count_of(self.credits, 'credit')} spent" if self.credits else ""
        return f"{self.source}: {requests} sent, {cached} from the cache{price}"


class WebSource:
    """Asks a search service what is not cached.

    An exhausted quota or a rejected key ends this and all later searches. An unreachable service, or one that asks for
    a long wait, ends this search. Each remaining query gets the reason as its error.

    ``sleep`` is called with the seconds to wait between two attempts. The default ``cache`` is in the cache folder.

    UserError if a key is missing and nothing is cached for this service, or the cache cannot be used.
    """

    def __init__(
        self,
        service: Service,
        options: WebOptions,
        *,
        name: str,
        cache: Path | None = None,
        sleep: Callable[[float], object] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self.description = self.fingerprint = service.description
        self._service = service
        self._cache = _Cache(cache or cache_dir("searches") / "answers.sqlite", service.address)
        self._cache_days = options.cache_days
        self._missing = " and ".join(key for key in options.keys if not os.environ.get(key, "").strip())
        self._sleep = sleep
        self._now = now
        self._refusal = ""
        self._one_at_a_time = threading.Lock()
        self._state: _SearchState | None = None
        self.spent = Spent(source=name)
        if self._missing and self._cache.is_empty():
            raise UserError(f"source {name!r} ({service.description}) needs a key; set {self._missing}")

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """At most ``k`` passages for each query, in the service's order."""
        state = self._state = _SearchState(self._send, self._sleep, self._refusal)
        pool = ThreadPoolExecutor(self._service.concurrency)
        try:
            found = {query: pool.submit(self._find, query, k, state) for query in dict.fromkeys(queries)}
            for done in as_completed(found.values()):
                done.result()
        except BaseException:  # also Ctrl-C: threads that wait for a retry end at once
            self.aclose()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self._refusal = state.refusal
        return [found[query].result() for query in queries]

    def aclose(self) -> None:
        """End a search that another thread is in, and the service's connections."""
        if self._state is not None:
            self._state.end("stopped")
        self._service.close()

    def _send(self, request: Request) -> PricedReply:
        with self._one_at_a_time:
            self.spent.requests += 1
        return self._service.send(request)

    def _find(self, query: str, k: int, state: _SearchState) -> Hits:
        times = []

        def fetch(request: Request) -> Any:
            kept = self._fetch(request, state)
            times.append(kept.retrieved_at)
            return kept.value

        try:
            results = list(self._service.results(query, k, fetch))
        except NoAnswer as error:
            return Hits(error=str(error))
        oldest = min(times).isoformat(timespec="seconds") if times else None
        return web_hits(results, k, source=self.name, retrieved_at=oldest)

    def _fetch(self, request: Request, state: _SearchState) -> _CachedReply:
        kept = None if self._cache_days == 0 else self._cache.read(request)
        days = self._cache_days
        if kept is not None and (days is None or (self._now() - kept.retrieved_at) / timedelta(days=1) < days):
            with self._one_at_a_time:
                self.spent.cached += 1
            return kept
        try:
            return self._ask(request, state)
        except NoAnswer as error:
            if kept is None:
                raise
            expired = kept.retrieved_at + timedelta(days=days or 0)
            raise NoAnswer(f"{error}; the answer in the cache expired on {expired:%Y-%m-%d}") from None

    def _ask(self, request: Request, state: _SearchState) -> _CachedReply:
        if self._missing:
            raise NoAnswer(f"no usable answer in the cache, and {self._missing} is not set")
        answer = state.ask(request)
        kept = _CachedReply(answer.value, self._now().astimezone(UTC))
        self._cache.write(request, kept)  # before this thread sends another request: the reply is paid for
        with self._one_at_a_time:
            self.spent.credits += answer.credits
        return kept


class _SearchState:
    """State that the threads of one search share."""

    def __init__(
        self, send: Callable[[Request], PricedReply], sleep: Callable[[float], object] | None, refusal: str
    ) -> None:
        self._send = send
        self.refusal = refusal
        """Why the service refuses all requests, from this search or an earlier one."""
        self._over = threading.Event()
        self._why = ""
        self._reached = False
        """Whether the service has replied to any request."""
        self._sleep = sleep or self._over.wait
        if refusal:
            self.end(refusal)

    def end(self, reason: str) -> None:
        self._why = self._why or reason
        self._over.set()

    def ask(self, request: Request) -> PricedReply:
        """The answer to one request, with retries; NoAnswer if there is none."""
        reason, wait = "", 0.0
        for sent in range(_ATTEMPTS):
            if sent:
                self._sleep(wait)
            if self._over.is_set():
                raise NoAnswer(f"not sent{' again' if sent else ''}: {self._why}")
            wait = min(2.0**sent, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                answer = self._send(request)
                self._reached = True
                return answer
            except TryAgain as error:
                self._reached |= error.reached
                reason = str(error)
                if (error.wait or 0) > _LONGEST_WAIT:
                    self.end(reason := f"{reason}, and the server asks to wait {error.wait:.0f} s")
                    raise NoAnswer(reason) from None
                wait = wait if error.wait is None else error.wait
            except NoAnswer as error:
                self._reached = True
                if error.refused:
                    self.refusal = str(error)
                    self.end(self.refusal)
                raise
        reason = f"{reason} after {_ATTEMPTS} attempts"
        if not self._reached:
            self.end(reason)
        raise NoAnswer(reason)
