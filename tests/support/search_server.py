"""A search service on loopback: it keeps what was asked, and answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.loopback import QuietHandler, serving

Reply = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: Any


class SearchServer:
    """Answers each request by ``reply(request, how many came before it)``."""

    def __init__(self, reply: Callable[[Seen, int], Reply]) -> None:
        self.requests: list[Seen] = []
        self.reply = reply
        self.most_at_once = 0
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[SearchServer]:
        outer, lock = self, threading.Lock()
        at_once = 0

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                nonlocal at_once
                address, content = urlsplit(self.path), self.content()
                seen = Seen(
                    method=self.command,
                    path=address.path,
                    params=dict(parse_qsl(address.query)),
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=json.loads(content) if content else None,
                )
                with lock:
                    at_once += 1
                    outer.most_at_once = max(outer.most_at_once, at_once)
                    outer.requests.append(seen)
                    before = len(outer.requests) - 1
                reply = outer.reply(seen, before)
                with lock:
                    at_once -= 1
                self.answer(*reply)

            do_POST = do_GET

        with serving(Handler) as self.url:
            yield self


def ok(value: Any) -> Reply:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


@contextmanager
def raw_server(first: bytes, again: bytes = b"", pause: float = 0.0) -> Iterator[str]:
    """Sends ``first`` to each client, then ``again`` and again after a pause; without ``again`` it hangs up."""
    over = threading.Event()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.content()
            self.close_connection = True
            with suppress(OSError):
                self.wfile.write(first)
                while again and not over.wait(pause):
                    self.wfile.write(again)

        do_POST = do_GET

    with serving(Handler) as url:
        yield url
        over.set()
