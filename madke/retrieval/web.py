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
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, field_validator

from madke._util.assets import cache_dir
from madke._util.files import fingerprint, read_jsonl
from madke._util.yaml_file import validate
from madke.core.addresses import retry_after
from madke.core.chat import decode_reply
from madke.core.errors import UserError, count_of
from madke.core.knowledge import Hits, Passage

if TYPE_CHECKING:
    import httpx2

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


class _Line(BaseModel):
    query: str
    results: tuple[WebResult, ...]


class SnippetsSource:
    """Results from a JSONL file of ``{"query", "results": [{"title", "snippet", "link", "date"?}]}``.

    Queries are matched without regard to case and white space; an unknown query has no passages. UserError on an
    invalid line or a repeated query.
    """

    def __init__(self, path: Path, *, name: str) -> None:
        from madke.retrieval.indexes.corpus import build_first, passage_of

        self.name = name
        self._results: dict[str, tuple[WebResult, ...]] = {}
        for number, item in read_jsonl(path):
            if passage_of(item) is not None:
                raise UserError(build_first(str(path)))
            line = validate(item, _Line, file=f"{path}:{number}")
            key = _normalize(line.query)
            if key in self._results:
                raise UserError(f"query {line.query!r} occurs twice", file=path, line=number)
            self._results[key] = line.results
        self.fingerprint = fingerprint(path)[:12]
        self.description = f"web-style snippets for {len(self._results):,} queries ({path}, {self.fingerprint})"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The first ``k`` results for each query."""
        rankings = (self._results.get(_normalize(query), ()) for query in queries)
        return [web_hits(results, k, source=self.name, retrieved_at=None) for results in rankings]


def _normalize(query: str) -> str:
    return " ".join(query.split()).casefold()


_MAX_ATTEMPTS = 5
_MAX_WAIT = 30.0
"""Seconds; the search ends if the service asks for a longer wait."""
_TIMEOUT = 20.0
"""Seconds to connect, and seconds between two pieces of data."""
_BODY_TIMEOUT = 60.0
"""Seconds for the body of a reply, even if it arrives slowly."""
_MAX_REPLY_BYTES = 5_000_000
"""A hundred results take about 50,000 bytes."""


class NoAnswer(Exception):
    """A request failed.

    ``retry``: another attempt may help, after ``wait`` seconds if the service asked for a wait. ``refused``: the
    service will refuse other requests too. ``reached``: whether it replied at all.
    """

    def __init__(self, reason: str, *, retry: bool = False, refused: bool = False, reached: bool = True) -> None:
        super().__init__(reason)
        self.retry, self.refused, self.reached = retry, refused, reached
        self.wait: float | None = None


Request = Mapping[str, Any]
"""JSON values that identify a request to a service, without keys. It is the reply's key in the cache."""

Fetch = Callable[[Request], Any]
"""Returns the value of a reply, from the cache or the service; raises NoAnswer."""


class WebService(BaseModel, frozen=True, extra="forbid"):
    """A search service: its settings, how it is asked, and what its replies mean."""

    exclude: tuple[str, ...] = ()
    """Excluded domains, with their subdomains; a leading ``www.`` is ignored."""
    cache_days: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """Days for which a cached answer is used; default: without limit."""
    method: Literal["GET", "POST"] = "GET"
    concurrency: Annotated[int, Field(ge=1, le=64)] = 8
    refused: str = ""
    """Why the service may reject access although it needs no key, for messages."""
    no_credits: dict[int, str] = Field(default_factory=dict)
    """Status -> text (lower case) of replies that mean that the quota is used up. An empty text is in every reply."""

    @field_validator("exclude")
    @classmethod
    def _domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted({_domain(domain) for domain in domains}))

    @property
    def keys(self) -> Sequence[str]:
        """The environment variables that hold keys."""
        return ()

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it is, without secrets: it is written to the cache."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Address and settings that change results, without secrets: written to pool files."""

    @abstractmethod
    def parts(self, request: Request) -> dict[str, Any]:
        """The request as arguments of :func:`httpx2.request`, with keys."""

    @abstractmethod
    def check(self, reply: Any, request: Request) -> int:
        """The price of a reply, in credits. NoAnswer for a reply of another form."""

    @abstractmethod
    def find(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The results for a query, best first; it may fetch several replies."""

    def allows(self, link: str) -> bool:
        """Whether a text with this link may be used; if domains are excluded, it needs a valid link."""
        host, excluded = _host(link), tuple(f".{domain}" for domain in self.exclude)
        return not excluded or (host is not None and not f".{host}".endswith(excluded))


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


def _send(client: httpx2.Client, service: WebService, request: Request) -> tuple[Any, int]:
    """Send a request once; the reply as a JSON value, and its price. Raises NoAnswer."""
    import httpx2

    parts = service.parts(request)
    # Uncompressed, so that the byte limit holds for what is read.
    parts["headers"] = {"Accept-Encoding": "identity", **parts.get("headers", {})}
    try:
        with client.stream(service.method, **parts) as reply:
            status, wait = reply.status_code, retry_after(reply.headers)
            content = _body(reply) if status in (200, *service.no_credits) else b""  # Other bodies are not used.
    except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.InvalidURL, UnicodeError) as error:
        # Without its text, which may contain a key.
        raise NoAnswer(type(error).__name__) from None
    except (httpx2.TransportError, RuntimeError) as error:  # RuntimeError: another thread has closed the client
        from madke.models.transport import failure_of

        raise NoAnswer(failure_of(error), retry=True, reached=False) from None
    try:
        if status == 200:
            value = parse_json(content)
            return value, service.check(value, request)
        # In our words, because the body may contain the key.
        reason = f"HTTP {status}"
        if status in (401, 403):
            hint = f" ({service.refused})" if service.refused else ""
            raise NoAnswer(f"{reason}, {' or '.join(service.keys) or 'access'} was rejected{hint}", refused=True)
        mark = service.no_credits.get(status)
        if status == 402 or (mark is not None and mark in content.decode(errors="replace").lower()):
            raise NoAnswer(f"{reason}, no credits are left", refused=True)
        raise NoAnswer(reason, retry=status == 429 or status >= 500)
    except NoAnswer as error:
        error.wait = wait
        raise


def _body(reply: httpx2.Response) -> bytes:
    content, ends = bytearray(), time.monotonic() + _BODY_TIMEOUT
    for block in reply.iter_raw():
        content += block
        if len(content) > _MAX_REPLY_BYTES:
            raise NoAnswer(f"HTTP {reply.status_code}, but the reply exceeds {_MAX_REPLY_BYTES:,} bytes")
        if time.monotonic() > ends:  # the timeout begins again with each piece
            raise NoAnswer(f"no complete reply within {_BODY_TIMEOUT:g} s")
    return bytes(content)


def parse_json(content: bytes) -> Any:
    """JSON from a service; NoAnswer if it is not JSON. Characters that cannot be encoded or decoded are replaced."""
    try:
        # A text that is cut inside a character ends in half a surrogate pair, which cannot be encoded.
        return json.loads(json.dumps(json.loads(decode_reply(content)), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise NoAnswer("the reply is not JSON") from None


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

    UserError if a key is missing, or the cache cannot be used.
    """

    def __init__(
        self,
        service: WebService,
        *,
        name: str,
        cache: Path | None = None,
        sleep: Callable[[float], object] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self.description = self.fingerprint = service.description
        self.spent = Spent(source=name)
        self._service = service
        self._concurrency = service.concurrency
        self._cache = cache or cache_dir("searches") / "answers.sqlite"
        self._sleep = sleep
        self._now = now
        self._refusal = ""
        """Why the service will refuse all further requests."""
        self._search = _Search()
        self._one_at_a_time = threading.Lock()
        self._client: httpx2.Client | None = None
        if missing := [key for key in service.keys if not os.environ.get(key, "").strip()]:
            raise UserError(f"source {name!r} ({service.description}) needs a key; set {' and '.join(missing)}")
        columns = "base_url TEXT, parameters TEXT, retrieved_at TEXT, reply TEXT, PRIMARY KEY (base_url, parameters)"
        self._execute(f"CREATE TABLE IF NOT EXISTS replies ({columns})")

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """At most ``k`` passages for each query, in the service's order."""
        search = self._search = _Search()
        if self._refusal:
            search.end(self._refusal)
        pool = ThreadPoolExecutor(self._concurrency)
        try:
            futures = {query: pool.submit(self._find, query, k, search) for query in dict.fromkeys(queries)}
            for done in as_completed(futures.values()):
                done.result()
        except BaseException:  # also Ctrl-C: threads that wait for a retry end at once
            self.aclose()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return [futures[query].result() for query in queries]

    def _open_client(self) -> httpx2.Client:
        """The client of all searches, which keeps connections; a new one after :meth:`aclose`."""
        from madke.models.transport import open_client

        with self._one_at_a_time:
            if self._client is None or self._client.is_closed:
                self._client = open_client(timeout=_TIMEOUT)  # it follows no redirect with a key
                weakref.finalize(self, self._client.close)
            return self._client

    def aclose(self) -> None:
        """End a search that another thread is in, and its connections."""
        self._search.end("stopped")
        if self._client is not None:
            self._client.close()

    def _find(self, query: str, k: int, search: _Search) -> Hits:
        times = []

        def fetch(request: Request) -> Any:
            value, retrieved_at = self._fetch(request, search)
            times.append(retrieved_at)
            return value

        try:
            results = list(self._service.find(query, k, fetch))
        except NoAnswer as error:
            return Hits(error=str(error))
        oldest = min(times).isoformat(timespec="seconds") if times else None
        return web_hits(results, k, source=self.name, retrieved_at=oldest)

    def _fetch(self, request: Request, search: _Search) -> tuple[Any, datetime]:
        """The reply to a request, from the cache or the service, and when it was retrieved."""
        days = self._service.cache_days
        key = self._service.address, json.dumps(request, sort_keys=True)
        select = "SELECT reply, retrieved_at FROM replies WHERE base_url = ? AND parameters = ?"
        if days != 0 and (kept := self._execute(select, *key)):
            retrieved_at = datetime.fromisoformat(kept[1])
            if days is None or (self._now() - retrieved_at) / timedelta(days=1) < days:
                with self._one_at_a_time:
                    self.spent.cached += 1
                return json.loads(kept[0]), retrieved_at
        value, credits = self._ask(request, search)
        now = self._now().astimezone(UTC)
        # Before this thread sends another request: the reply is paid for.
        self._execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", *key, now.isoformat(), json.dumps(value))
        with self._one_at_a_time:
            self.spent.credits += credits
        return value, now

    def _execute(self, statement: str, *values: str) -> Any:
        """The first row of the result of a statement on the cache, which processes share; None if there is none."""
        try:
            with closing(sqlite3.connect(self._cache, timeout=30)) as database, database:
                return database.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            raise UserError(f"the cache of web searches cannot be used: {error}", file=self._cache) from None

    def _ask(self, request: Request, search: _Search) -> tuple[Any, int]:
        """The reply and price of one request, with retries; NoAnswer if there is none."""
        wait = 0.0
        for sent in range(1, _MAX_ATTEMPTS + 1):
            if sent > 1:
                (self._sleep or search.over.wait)(wait)
            if search.over.is_set():
                raise NoAnswer(f"not sent{' again' if sent > 1 else ''}: {search.why}")
            with self._one_at_a_time:
                self.spent.requests += 1
            try:
                answer = _send(self._open_client(), self._service, request)
                search.reached = True
                return answer
            except NoAnswer as error:
                search.reached |= error.reached
                reason = str(error)
                if error.refused:
                    self._refusal = reason
                    search.end(reason)
                if not error.retry:
                    raise
                if (error.wait or 0) > _MAX_WAIT:
                    search.end(reason := f"{reason}, and the server asks to wait {error.wait:.0f} s")
                    raise NoAnswer(reason) from None
                own = min(2.0 ** (sent - 1), _MAX_WAIT) * random.uniform(0.5, 1.0)
                wait = own if error.wait is None else error.wait
        reason = f"{reason} after {_MAX_ATTEMPTS} attempts"
        if not search.reached:
            search.end(reason)
        raise NoAnswer(reason)


@dataclass
class _Search:
    """State that the threads of one search share; searches of several debates may run at once."""

    over: threading.Event = field(default_factory=threading.Event)
    why: str = ""
    reached: bool = False
    """Whether the service has replied to any request."""

    def end(self, reason: str) -> None:
        self.why = self.why or reason
        self.over.set()
