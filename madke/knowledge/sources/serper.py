"""Google results through Serper's HTTP API: snippets only, as the paper uses them.

Answers are kept on disk with the time of their retrieval, under the base URL and the parameters of the request, so
that asking again costs nothing and says the same. The key comes from ``SERPER_API_KEY`` and goes nowhere but into the
request's header.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import requests
from pydantic import BaseModel, ValidationError

from madke.assets import cache_dir
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.knowledge.sources.web import WebResult, web_hits

_BASE_URL = "https://google.serper.dev"
_CONCURRENCY = 8
_ATTEMPTS = 5
_TIMEOUT = 20.0
_LONGEST_WAIT = 30.0
"""Seconds; a server that asks for more has failed for this run."""


class _Reply(BaseModel):
    organic: tuple[WebResult, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    results: tuple[WebResult, ...]
    retrieved_at: str


class SerperSource:
    """Asks ``POST {base_url}/search`` for what the cache does not hold.

    Args:
        name: The source's name.
        base_url: The API's address; by default ``SERPER_BASE_URL``, else Serper's own.
        cache: The cache's file; by default in the project's cache folder.
        sleep: Waits that many seconds between two attempts; by default until then or until the search is stopped.

    Raises:
        UserError: ``SERPER_API_KEY`` is not set and nothing is cached for this address.
    """

    def __init__(
        self,
        *,
        name: str,
        base_url: str | None = None,
        cache: Path | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.name = name
        self._base_url = (base_url or os.environ.get("SERPER_BASE_URL") or _BASE_URL).rstrip("/")
        self.description = f"web search through {self._base_url}"
        self._key = os.environ.get("SERPER_API_KEY", "").strip()
        self._cache = _Cache(cache or cache_dir("serper") / "answers.sqlite", self._base_url)
        self._sleep = sleep
        if not self._key and self._cache.is_empty():
            raise UserError(f"source {name!r} asks {self._base_url}, which needs a key; set SERPER_API_KEY")

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The first ``k`` organic results for each query. A query that fails has the reason as its error."""
        found: dict[str, _Answer | str] = dict(self._cache.read(queries, k))
        missing = [query for query in dict.fromkeys(queries) if query not in found]
        if missing and not self._key:
            found.update(dict.fromkeys(missing, "not in the cache, and SERPER_API_KEY is not set"))
        elif missing:
            self._ask_all(missing, k, found)
        return [self._hits(found[query], k) for query in queries]

    def _ask_all(self, queries: Sequence[str], k: int, found: dict[str, _Answer | str]) -> None:
        with requests.Session() as session:
            session.mount(self._base_url, requests.adapters.HTTPAdapter(pool_maxsize=_CONCURRENCY))
            pool = ThreadPoolExecutor(_CONCURRENCY)
            stopped = threading.Event()
            try:
                asked = {pool.submit(self._ask, session, query, k, stopped): query for query in queries}
                for done in as_completed(asked):
                    query, answer = asked[done], done.result()
                    found[query] = answer
                    if isinstance(answer, _Answer):
                        self._cache.write(query, k, answer)
            finally:
                stopped.set()
                pool.shutdown(cancel_futures=True)

    def _ask(self, session: requests.Session, query: str, k: int, stopped: threading.Event) -> _Answer | str:
        """One answer, or why there is none after every attempt."""
        reason = ""
        for attempt in range(_ATTEMPTS):
            wait = min(2.0**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                # A redirect would carry the key's header to another host.
                reply = session.post(
                    f"{self._base_url}/search",
                    json={"q": query, "num": k},
                    headers={"X-API-KEY": self._key},
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                reason = type(error).__name__
                if not isinstance(error, requests.ConnectionError | requests.Timeout):
                    return reason
            else:
                if reply.status_code == 200:
                    return _read(reply)
                reason = f"HTTP {reply.status_code}"
                if reply.status_code != 429 and reply.status_code < 500:
                    return reason
                asked_for = reply.headers.get("Retry-After", "")
                if asked_for.isdigit():
                    wait = float(asked_for)
                    if wait > _LONGEST_WAIT:
                        return f"{reason}, and asked to wait {asked_for} s"
            if attempt < _ATTEMPTS - 1:
                (self._sleep or stopped.wait)(wait)
                if stopped.is_set():
                    return "stopped"
        return f"{reason} after {_ATTEMPTS} attempts"

    def _hits(self, answer: _Answer | str, k: int) -> Hits:
        if isinstance(answer, str):
            return Hits(error=answer)
        return web_hits(answer.results, k, source=self.name, retrieved_at=answer.retrieved_at)


def _read(reply: requests.Response) -> _Answer | str:
    try:
        results = _Reply.model_validate_json(reply.content).organic
    except ValidationError:
        return "HTTP 200, but not the search result that was expected"
    return _Answer(results=results, retrieved_at=datetime.now(UTC).isoformat(timespec="seconds"))


class _Cache:
    """Answers on disk. Only the thread that calls ``search`` comes here."""

    def __init__(self, path: Path, base_url: str) -> None:
        self._path = path
        self._base_url = base_url
        with self._open() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS answers "
                "(base_url TEXT, parameters TEXT, retrieved_at TEXT, results TEXT, PRIMARY KEY (base_url, parameters))"
            )

    def is_empty(self) -> bool:
        with self._open() as database:
            return database.execute("SELECT 1 FROM answers WHERE base_url = ?", (self._base_url,)).fetchone() is None

    def read(self, queries: Sequence[str], k: int) -> dict[str, _Answer]:
        found = {}
        with self._open() as database:
            for query in queries:
                row = database.execute(
                    "SELECT retrieved_at, results FROM answers WHERE base_url = ? AND parameters = ?",
                    (self._base_url, _parameters(query, k)),
                ).fetchone()
                if row is not None:
                    results = tuple(WebResult.model_validate(result) for result in json.loads(row[1]))
                    found[query] = _Answer(results=results, retrieved_at=row[0])
        return found

    def write(self, query: str, k: int, answer: _Answer) -> None:
        results = json.dumps([result.model_dump() for result in answer.results], ensure_ascii=False)
        with self._open() as database, database:
            database.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)",
                (self._base_url, _parameters(query, k), answer.retrieved_at, results),
            )

    def _open(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self._path, timeout=30))


def _parameters(query: str, k: int) -> str:
    return json.dumps({"q": query, "num": k}, sort_keys=True, ensure_ascii=False)
