"""Google results through Serper's HTTP API: snippets of the results page, never the pages themselves.

The key comes from ``SERPER_API_KEY`` and is sent only in the request's header.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from madke.assets import cache_dir
from madke.core.addresses import public_url
from madke.core.errors import UserError
from madke.knowledge.web import SERPER_KEY, SerperOptions, SerperReply, WebResult, parse_reply
from madke.knowledge.web_http import Http
from madke.knowledge.web_source import Answer, Fetch, NoAnswer, Request, Send, Spent, WebSource

__all__ = ["SerperSource", "Spent"]

_BASE_URL = "https://google.serper.dev"
_HTTP = Http(method="POST", connections=8, variables=SERPER_KEY, no_credits={400: "not enough credits"})


class _Serper:
    """``POST {base_url}/search``."""

    concurrency = _HTTP.connections

    def __init__(self, base_url: str, options: SerperOptions) -> None:
        self._url = f"{base_url}/search"
        self._options = options
        self._key = os.environ.get(SERPER_KEY, "").strip()
        self.address = base_url
        changed = f" ({options.changed})" if options.changed else ""
        self.description = f"web search through {public_url(base_url)}{changed}"

    @contextmanager
    def connected(self) -> Iterator[Send]:
        with _HTTP.connected() as call:

            def send(request: Request) -> Answer:
                body = call(self._url, json=dict(request), headers={"X-API-KEY": self._key})
                reply = parse_reply(body.content, asked=int(request["num"]))
                if reply is None:
                    raise NoAnswer("HTTP 200, but the body is not a search result")
                return Answer(reply.model_dump(mode="json"), reply.credits)

            yield send

    def results(self, query: str, k: int, fetch: Fetch) -> Iterator[WebResult]:
        reply = SerperReply.model_validate(fetch(self._options.parameters(query, k)))
        return reply.results(self._options)


class SerperSource(WebSource):
    """Google's results; answer box and knowledge graph, if enabled, come first.

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
        address = (base_url or os.environ.get("SERPER_BASE_URL") or _BASE_URL).rstrip("/")
        if "@" in address or "?" in address:
            # The address is written to pool files and the cache.
            raise UserError(
                "SERPER_BASE_URL contains a user or a query; expected the address alone (the key is SERPER_API_KEY)"
            )
        chosen = options or SerperOptions()
        super().__init__(
            _Serper(address, chosen),
            chosen,
            name=name,
            cache=cache or cache_dir("serper") / "answers.sqlite",
            sleep=sleep,
            now=now,
        )
