"""Google results through Serper's HTTP API: snippets of the results page, never the pages themselves.

Whole replies are cached on disk: a repeated search costs nothing and returns the same reply, also when other parts
of it are used. The key comes from ``SERPER_API_KEY`` and is sent only in the request's header.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import requests
import urllib3

from madke.assets import cache_dir
from madke.core.addresses import public_url, retry_after
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.knowledge.web import SerperOptions, SerperReply, parse_reply, web_hits

_BASE_URL = "https://google.serper.dev"
_CONCURRENCY = 8
_ATTEMPTS = 5
_TIMEOUT = 20.0
"""Seconds to connect, and seconds between two pieces of data."""
_DEADLINE = 60.0
"""Seconds for a whole reply, even if its body arrives slowly."""
_MAX_BYTES = 5_000_000
"""Maximum size of a reply; a hundred results take about 50,000 bytes."""
_LONGEST_WAIT = 30.0
"""Seconds; the search ends if the server asks for a longer wait."""
_TRANSIENT = (requests.ConnectionError, requests.Timeout, urllib3.exceptions.TimeoutError)
"""Errors that are retried."""

_Parameters = Mapping[str, str | int]


class _Kept(NamedTuple):
    reply: SerperReply
    retrieved_at: datetime


class _Cache:
    """Replies and their retrieval times by base URL and parameters, in an SQLite file that processes share."""

    def __init__(self, path: Path, base_url: str) -> None:
        self._path = path
        self._base_url = base_url
        with self._open() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS replies "
                "(base_url TEXT, parameters TEXT, retrieved_at TEXT, reply TEXT, PRIMARY KEY (base_url, parameters))"
            )

    def is_empty(self) -> bool:
        with self._open() as database:
            return database.execute("SELECT 1 FROM replies WHERE base_url = ?", (self._base_url,)).fetchone() is None

    def read(self, asked: Mapping[str, _Parameters]) -> dict[str, _Kept]:
        """Query -> cached reply of any age; queries without one are missing."""
        found = {}
        with self._open() as database:
            for query, parameters in asked.items():
                row = database.execute(
                    "SELECT retrieved_at, reply FROM replies WHERE base_url = ? AND parameters = ?",
                    (self._base_url, json.dumps(parameters, sort_keys=True)),
                ).fetchone()
                if row is not None:
                    found[query] = _Kept(SerperReply.model_validate_json(row[1]), datetime.fromisoformat(row[0]))
        return found

    def write(self, parameters: _Parameters, kept: _Kept) -> None:
        key = json.dumps(parameters, sort_keys=True)
        with self._open() as database:
            database.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)",
                (self._base_url, key, kept.retrieved_at.isoformat(), kept.reply.model_dump_json()),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=30)) as database, database:
                yield database
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
        requests, cached = _number(self.requests, "request"), _number(self.cached, "answer")
        return f"{self.source}: {requests} sent, {cached} from the cache, {_number(self.credits, 'credit')} spent"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class SerperSource:
    """Sends queries that are not cached to ``POST {base_url}/search``, eight at once.

    An exhausted quota or a rejected key ends this and all later searches. An unreachable server, or one that asks for
    a long wait, ends this search. Each remaining query gets the reason as its error.

    Args:
        name: The source's name.
        options: What to request, and what to take from the replies.
        base_url: The API's address; default ``SERPER_BASE_URL``, else Serper's own.
        cache: The cache file; default: one in the project's cache folder.
        sleep: Called with the seconds to wait between two attempts.
        now: Returns the current time with its zone.

    Raises:
        UserError: ``SERPER_API_KEY`` is missing and nothing is cached for this address, or the cache cannot be used.
    """

    def __init__(
        self,
        *,
        name: str,
        options: SerperOptions | None = None,
        base_url: str | None = None,
        cache: Path | None = None,
        sleep: Callable[[float], object] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self._options = options or SerperOptions()
        self._base_url = (base_url or os.environ.get("SERPER_BASE_URL") or _BASE_URL).rstrip("/")
        if "@" in self._base_url or "?" in self._base_url:
            # The address is written to pool files and the cache.
            raise UserError(
                "SERPER_BASE_URL contains a user or a query; expected the address alone (the key is SERPER_API_KEY)"
            )
        changed = f" ({self._options.changed})" if self._options.changed else ""
        self.description = self.fingerprint = f"web search through {public_url(self._base_url)}{changed}"
        self._key = os.environ.get("SERPER_API_KEY", "").strip()
        self._cache = _Cache(cache or cache_dir("serper") / "answers.sqlite", self._base_url)
        self._sleep = sleep
        self._now = now
        self._refusal = ""
        self.spent = Spent(source=name)
        if not self._key and self._cache.is_empty():
            raise UserError(f"source {name!r} uses {public_url(self._base_url)}, which needs a key; set SERPER_API_KEY")

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """At most ``k`` passages for each query: answer box and knowledge graph, if enabled, come first."""
        asked: dict[str, _Parameters] = {query: self._options.parameters(query, k) for query in queries}
        kept = self._cache.read(asked)
        found: dict[str, _Kept | str] = {query: old for query, old in kept.items() if not self._is_expired(old)}
        self.spent.cached += len(found)
        missing = {query: parameters for query, parameters in asked.items() if query not in found}
        for query, answer in self._ask(missing).items():
            if isinstance(answer, str) and query in kept:
                expired = kept[query].retrieved_at + timedelta(days=self._options.cache_days or 0)
                answer = f"{answer}; the answer in the cache expired on {expired:%Y-%m-%d}"
            found[query] = answer
        return [self._hits(found[query], k) for query in queries]

    def _ask(self, asked: dict[str, _Parameters]) -> dict[str, _Kept | str]:
        """A reply, or the reason for none, for each of these queries (none is cached)."""
        if not self._key:
            return dict.fromkeys(asked, "no usable answer in the cache, and SERPER_API_KEY is not set")
        if self._refusal:
            return dict.fromkeys(asked, f"not sent: {self._refusal}")
        found: dict[str, _Kept | str] = {}
        one_at_a_time = threading.Lock()
        with _Session() as session:
            session.mount(self._base_url, requests.adapters.HTTPAdapter(pool_maxsize=_CONCURRENCY))
            search = _Search(session, f"{self._base_url}/search", self._key, self._sleep)

            def ask(query: str) -> None:
                answer = search.ask(asked[query])
                with one_at_a_time:  # a paid reply is stored before this thread sends another query
                    self.spent.requests += answer.requests
                    if answer.refused:
                        self._refusal = answer.reason
                    if answer.reply is None:
                        found[query] = answer.reason
                        return
                    self.spent.credits += answer.reply.credits
                    found[query] = kept = _Kept(answer.reply, self._now().astimezone(UTC))
                    self._cache.write(asked[query], kept)

            pool = ThreadPoolExecutor(_CONCURRENCY)
            try:
                for done in as_completed([pool.submit(ask, query) for query in asked]):
                    done.result()
            finally:
                search.end("stopped")
                pool.shutdown(cancel_futures=True)
        return found

    def _is_expired(self, kept: _Kept) -> bool:
        days = self._options.cache_days
        return days is not None and (self._now() - kept.retrieved_at) / timedelta(days=1) >= days

    def _hits(self, answer: _Kept | str, k: int) -> Hits:
        if isinstance(answer, str):
            return Hits(error=answer)
        retrieved_at = answer.retrieved_at.isoformat(timespec="seconds")
        return web_hits(answer.reply.results(self._options), k, source=self.name, retrieved_at=retrieved_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """The result of one query and its number of requests; ``refused``: the server will refuse other queries too."""

    reply: SerperReply | None = None
    reason: str = ""
    requests: int
    refused: bool = False


class _Session(requests.Session):
    """Follows no redirect: it would send the key to another host and read the body without a limit."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


class _Reply(NamedTuple):
    status: int
    retry_after: float | None
    content: bytes


class _Unread(Exception):
    """A reply is too long or too slow; it is not retried."""


class _Search:
    """State that the threads of one search share."""

    def __init__(self, session: requests.Session, url: str, key: str, sleep: Callable[[float], object] | None) -> None:
        self._session = session
        self._url = url
        # Uncompressed, so that the byte limit holds for what is read.
        self._headers = {"X-API-KEY": key, "Accept-Encoding": "identity"}
        self._over = threading.Event()
        self._why = ""
        self._reached = False
        """Whether the server has replied to any request."""
        self._sleep = sleep or self._over.wait

    def end(self, reason: str) -> None:
        self._why = self._why or reason
        self._over.set()

    def ask(self, parameters: _Parameters) -> _Answer:
        """The answer to one query, with retries."""
        reason, wait = "", 0.0
        for sent in range(_ATTEMPTS):
            if sent:
                self._sleep(wait)
            if self._over.is_set():
                return _Answer(reason=f"not sent{' again' if sent else ''}: {self._why}", requests=sent)
            wait = min(2.0**sent, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                reply = self._post(parameters)
            except _TRANSIENT as error:
                reason = type(error).__name__
                continue
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                return _Answer(reason=type(error).__name__, requests=sent + 1)
            except _Unread as error:
                self._reached = True
                return _Answer(reason=str(error), requests=sent + 1)
            self._reached = True
            if answer := self._final(reply, parameters, sent + 1):
                return answer
            reason = f"HTTP {reply.status}"
            wait = wait if reply.retry_after is None else reply.retry_after
        reason = f"{reason} after {_ATTEMPTS} attempts"
        if not self._reached:
            self.end(reason)
        return _Answer(reason=reason, requests=_ATTEMPTS)

    def _final(self, reply: _Reply, parameters: _Parameters, sent: int) -> _Answer | None:
        """The answer in a reply; None if the query should be retried."""
        if reply.status == 200:
            parsed = parse_reply(reply.content, asked=int(parameters["num"]))
            reason = "" if parsed else "HTTP 200, but the body is not a search result"
            return _Answer(reply=parsed, reason=reason, requests=sent)
        reason = f"HTTP {reply.status}"
        refusal = ""  # in our words, because the body may contain the key
        if reply.status in (401, 403):
            refusal = f"{reason}, SERPER_API_KEY was rejected"
        elif reply.status == 402 or (reply.status == 400 and b"not enough credits" in reply.content.lower()):
            refusal = f"{reason}, no credits are left"
        if refusal:
            self.end(refusal)
            return _Answer(reason=refusal, requests=sent, refused=True)
        if reply.status != 429 and reply.status < 500:
            return _Answer(reason=reason, requests=sent)
        if (reply.retry_after or 0) > _LONGEST_WAIT:
            self.end(reason := f"{reason}, and the server asks to wait {reply.retry_after:.0f} s")
            return _Answer(reason=reason, requests=sent)
        return None

    def _post(self, parameters: _Parameters) -> _Reply:
        ends = time.monotonic() + _DEADLINE
        with self._session.post(
            self._url,
            json=dict(parameters),
            headers=self._headers,
            timeout=_TIMEOUT,
            allow_redirects=False,
            stream=True,
        ) as reply:
            content = bytearray()
            # Other bodies are not used.
            while reply.status_code in (200, 400) and (block := reply.raw.read1(1 << 16, decode_content=False)):
                content += block
                if len(content) > _MAX_BYTES:
                    raise _Unread(f"HTTP {reply.status_code}, but the reply exceeds {_MAX_BYTES:,} bytes")
                if time.monotonic() > ends:
                    raise _Unread(f"no complete reply within {_DEADLINE:g} s")
            return _Reply(reply.status_code, retry_after(reply.headers), bytes(content))
