"""Google results through Serper's HTTP API: what the results page says, never the pages themselves.

Replies are kept on disk with all their parts, so that asking again costs nothing and says the same, and what is taken
from them can change. The key comes from ``SERPER_API_KEY`` and goes nowhere but into the request's header.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from madke.assets import cache_dir
from madke.core.addresses import public_url
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.knowledge.serper_options import SerperOptions, SerperReply
from madke.knowledge.serper_requests import Answer, Parameters, ask_all
from madke.knowledge.web import web_hits


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A reply and when it came."""

    reply: SerperReply
    retrieved_at: datetime


class ReplyCache:
    """Replies by base URL and parameters, with the time of their retrieval, in an SQLite file that processes share.

    The table ``answers`` of earlier versions holds organic results alone; it is left as it is, and not read.

    Raises:
        UserError: The file cannot be used; all methods may raise it.
    """

    def __init__(self, path: Path, base_url: str) -> None:
        self._path = path
        self._base_url = base_url
        with self._open() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS replies "
                "(base_url TEXT, parameters TEXT, retrieved_at TEXT, reply TEXT, PRIMARY KEY (base_url, parameters))"
            )

    def is_empty(self) -> bool:
        """Whether nothing is kept for this base URL."""
        with self._open() as database:
            return database.execute("SELECT 1 FROM replies WHERE base_url = ?", (self._base_url,)).fetchone() is None

    def read(self, asked: Mapping[str, Mapping[str, str | int]]) -> dict[str, Kept]:
        """What is kept, however old, for these queries with their parameters; other queries are left out."""
        found = {}
        with self._open() as database:
            for query, parameters in asked.items():
                row = database.execute(
                    "SELECT retrieved_at, reply FROM replies WHERE base_url = ? AND parameters = ?",
                    (self._base_url, _cache_key(parameters)),
                ).fetchone()
                if row is not None:
                    reply = SerperReply.model_validate_json(row[1])
                    found[query] = Kept(reply=reply, retrieved_at=datetime.fromisoformat(row[0]))
        return found

    def write(self, parameters: Mapping[str, str | int], kept: Kept) -> None:
        """Keep a reply, in place of an older one."""
        with self._open() as database:
            database.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)",
                (self._base_url, _cache_key(parameters), kept.retrieved_at.isoformat(), kept.reply.model_dump_json()),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=30)) as database, database:
                yield database
        except sqlite3.Error as error:
            raise UserError(f"cannot be used as the cache of web searches: {error}", file=self._path) from None


def _cache_key(parameters: Mapping[str, str | int]) -> str:
    return json.dumps(parameters, sort_keys=True)


_BASE_URL = "https://google.serper.dev"


@dataclass(kw_only=True, slots=True)
class Spent:
    """What the searches of a source have cost since it was opened."""

    source: str
    requests: int = 0
    """Requests sent, repeated ones included."""
    credits: int = 0
    """As the replies say; where one does not, by Serper's prices."""
    cached: int = 0
    """Queries that the cache answered."""

    def line(self) -> str:
        """For a person, without a newline."""
        requests, cached = _number(self.requests, "request"), _number(self.cached, "answer")
        return f"{self.source}: {requests} sent, {cached} from the cache, {_number(self.credits, 'credit')} spent"


class SerperSource:
    """Asks ``POST {base_url}/search`` for what the cache does not hold.

    A used-up quota or a key that is not accepted ends all asking, that of later searches too; an endpoint that cannot
    be reached ends the search. Each query that is left has the reason as its error. An expired answer is never used.

    Args:
        name: The source's name.
        options: What is asked for, and what is taken from the replies.
        base_url: The API's address; by default ``SERPER_BASE_URL``, else Serper's own.
        cache: The cache's file; by default in the project's cache folder.
        sleep: Waits that many seconds between two attempts; by default until then or until the search is over.
        now: The time, with its zone, for retrieval and expiry.

    Raises:
        UserError: The address holds a user or a query, ``SERPER_API_KEY`` is not set and nothing is cached for this
            address, or the cache cannot be used.
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
            # It is written into pool files and the cache.
            raise UserError(
                "SERPER_BASE_URL holds a user or a query; expected the address alone (the key is SERPER_API_KEY)"
            )
        changed = self._options.changed
        self.description = self.fingerprint = f"web search through {public_url(self._base_url)}" + (
            f" ({changed})" if changed else ""
        )
        self._key = os.environ.get("SERPER_API_KEY", "").strip()
        self._cache = ReplyCache(cache or cache_dir("serper") / "answers.sqlite", self._base_url)
        self._sleep = sleep
        self._now = now
        self._refusal = ""
        self.spent = Spent(source=name)
        if not self._key and self._cache.is_empty():
            raise UserError(f"source {name!r} asks {public_url(self._base_url)}, which needs a key; set SERPER_API_KEY")

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """At most ``k`` passages for each query: answer box and knowledge graph, where they are on, come first.

        A query that fails has the reason as its error.

        Raises:
            UserError: The cache cannot be used.
        """
        asked: dict[str, Parameters] = {query: self._options.parameters(query, k) for query in queries}
        kept = self._cache.read(asked)
        found: dict[str, Kept | str] = {query: old for query, old in kept.items() if not self._is_expired(old)}
        self.spent.cached += len(found)
        missing = {query: parameters for query, parameters in asked.items() if query not in found}
        for query, answer in self._ask(missing).items():
            if isinstance(answer, str) and query in kept:
                expired = kept[query].retrieved_at + timedelta(days=self._options.cache_days or 0)
                answer = f"{answer}; the answer in the cache expired on {expired:%Y-%m-%d}"
            found[query] = answer
        return [self._hits(found[query], k) for query in queries]

    def _ask(self, asked: dict[str, Parameters]) -> dict[str, Kept | str]:
        """A reply or a reason for each of these queries, which the cache does not answer."""
        if not self._key:
            return dict.fromkeys(asked, "no usable answer in the cache, and SERPER_API_KEY is not set")
        if self._refusal:
            return dict.fromkeys(asked, f"not asked: {self._refusal}")
        found: dict[str, Kept | str] = {}

        def answered(query: str, answer: Answer) -> None:
            self.spent.requests += answer.requests
            if answer.refused:
                self._refusal = answer.reason
            if answer.reply is None:
                found[query] = answer.reason
            else:
                self.spent.credits += answer.reply.credits
                kept = Kept(reply=answer.reply, retrieved_at=self._now().astimezone(UTC))
                found[query] = kept
                self._cache.write(asked[query], kept)

        ask_all(asked, answered, base_url=self._base_url, key=self._key, sleep=self._sleep)
        return found

    def _is_expired(self, kept: Kept) -> bool:
        days = self._options.cache_days
        return days is not None and (self._now() - kept.retrieved_at) / timedelta(days=1) >= days

    def _hits(self, answer: Kept | str, k: int) -> Hits:
        if isinstance(answer, str):
            return Hits(error=answer)
        retrieved_at = answer.retrieved_at.isoformat(timespec="seconds")
        return web_hits(answer.reply.results(self._options), k, source=self.name, retrieved_at=retrieved_at)


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
