"""Requests to search services over HTTP: bounded replies, no redirects, and what each status means."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import requests
import urllib3

from madke.core.addresses import retry_after
from madke.knowledge.web_source import MAX_BYTES, NoAnswer, TryAgain

_TIMEOUT = 20.0
"""Seconds to connect, and seconds between two pieces of data."""
_DEADLINE = 60.0
"""Seconds for a whole reply, even if its body arrives slowly."""
_TRANSIENT = (
    requests.ConnectionError,
    requests.Timeout,
    urllib3.exceptions.TimeoutError,
    urllib3.exceptions.ProtocolError,
)
"""Errors that are retried; the last one is a body that ends early."""


class Body(NamedTuple):
    """The body of a reply with status 200, and the seconds that its headers ask to wait."""

    content: bytes
    wait: float | None


Call = Callable[..., Body]
"""``call(url, params=..., json=..., headers=...)``: sends one request; raises NoAnswer or TryAgain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Http:
    """How a service is reached, and how it refuses."""

    method: str
    connections: int
    variables: str = ""
    """The environment variables that hold its keys, for messages."""
    hint: str = ""
    """Why access may be rejected although no key is needed."""
    no_credits: Mapping[int, str] = field(default_factory=dict)
    """Status -> text (lower case) in the body of a reply that means that no credits are left."""

    @contextmanager
    def connected(self) -> Iterator[Call]:
        """Connections for one search."""
        # At DEBUG it logs full addresses, and a parameter may be a key.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.WARNING)
        with _Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=self.connections))

            def call(url: str, **request: Any) -> Body:
                try:
                    reply = self._reply(session, url, **request)
                except _TRANSIENT as error:
                    raise TryAgain(type(error).__name__, reached=False) from None
                except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                    # Without its text, which may contain a key.
                    raise NoAnswer(type(error).__name__) from None
                if reply.status != 200:
                    self.judge(reply.status, reply.wait, reply.content)
                return Body(reply.content, reply.wait)

            yield call

    def judge(self, status: int, wait: float | None, content: bytes = b"") -> NoReturn:
        """Raise what a reply with another status than 200 means."""
        # In our words, because the body may contain the key.
        reason = f"HTTP {status}"
        if status in (401, 403):
            hint = f" ({self.hint})" if self.hint else ""
            raise NoAnswer(f"{reason}, {self.variables or 'access'} was rejected{hint}", refused=True)
        mark = self.no_credits.get(status)
        if status == 402 or (mark is not None and mark in content.decode(errors="replace").lower()):
            raise NoAnswer(f"{reason}, no credits are left", refused=True)
        if status == 429 or status >= 500:
            raise TryAgain(reason, wait=wait)
        raise NoAnswer(reason)

    def _reply(self, session: requests.Session, url: str, *, headers: Mapping[str, str], **request: Any) -> _Reply:
        ends = time.monotonic() + _DEADLINE
        with session.request(
            self.method,
            url,
            # Uncompressed, so that the byte limit holds for what is read.
            headers={"Accept-Encoding": "identity", **headers},
            timeout=_TIMEOUT,
            allow_redirects=False,
            stream=True,
            **request,
        ) as reply:
            content = bytearray()
            read = reply.status_code in (200, *self.no_credits)  # Other bodies are not used.
            while read and (block := reply.raw.read1(1 << 16, decode_content=False)):
                content += block
                if len(content) > MAX_BYTES:
                    raise NoAnswer(f"HTTP {reply.status_code}, but the reply exceeds {MAX_BYTES:,} bytes")
                if time.monotonic() > ends:
                    raise NoAnswer(f"no complete reply within {_DEADLINE:g} s")
            return _Reply(reply.status_code, retry_after(reply.headers), bytes(content))


class _Reply(NamedTuple):
    status: int
    wait: float | None
    content: bytes


class _Session(requests.Session):
    """Follows no redirect: it would send the key to another host and read the body without a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.auth = lambda request: request  # else ~/.netrc replaces the key

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None
