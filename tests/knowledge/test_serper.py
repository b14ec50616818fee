"""The web search against a loopback server."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.knowledge.sources.serper import SerperSource

KEY = "canary-7f3a"
Reply = tuple[int, dict[str, str], bytes]
OK: Reply = (
    200,
    {},
    json.dumps(
        {
            "organic": [
                {
                    "title": "One",
                    "snippet": "first",
                    "link": "https://a.example/1",
                    "date": "1 May 2024",
                    "position": 1,
                },
                {"title": "No snippet", "link": "https://a.example/2"},
                {"title": "Three", "snippet": "third", "link": "https://a.example/3"},
            ],
            "credits": 1,
        }
    ).encode(),
)


class Server:
    """Answers each request by ``reply(query, how often that query was asked before)``."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.reply: Callable[[str, int], Reply] = lambda query, before: OK
        self.most_at_once = 0
        outer, lock = self, threading.Lock()
        at_once = 0

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                nonlocal at_once
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    at_once += 1
                    outer.most_at_once = max(outer.most_at_once, at_once)
                    before = sum(request["body"]["q"] == body["q"] for request in outer.requests)
                    outer.requests.append({"path": self.path, "key": self.headers["X-API-KEY"], "body": body})
                status, headers, content = outer.reply(body["q"], before)
                with lock:
                    at_once -= 1
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    server = Server()
    yield server
    server.close()


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def source(server: Server, tmp_path: Path, waits: list[float]) -> SerperSource:
    return SerperSource(name="google", base_url=server.url + "/", cache=tmp_path / "c.sqlite", sleep=waits.append)


def test_organic_results_with_snippets_become_passages(server: Server, source: SerperSource) -> None:
    (hits,) = source.search(["who?"], 5)

    assert server.requests == [{"path": "/search", "key": KEY, "body": {"q": "who?", "num": 5}}]
    assert [(p.source, p.key, p.url, p.title, p.text, p.rank) for p in hits.passages] == [
        ("google", "https://a.example/1", "https://a.example/1", "One", "first", 0),
        ("google", "https://a.example/3", "https://a.example/3", "Three", "third", 1),
    ]
    assert all(p.retrieved_at is not None and p.retrieved_at.endswith("+00:00") for p in hits.passages)


def test_asking_again_asks_the_cache_and_keeps_the_time(
    server: Server, source: SerperSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = source.search(["a", "b", "a"], 5)
    monkeypatch.delenv("SERPER_API_KEY")

    keyless = SerperSource(name="google", base_url=server.url, cache=tmp_path / "c.sqlite")
    again = keyless.search(["a", "b", "a"], 5)
    (other_k,) = keyless.search(["a"], 6)

    assert again == first
    assert len(server.requests) == 2
    assert other_k.error == "not in the cache, and SERPER_API_KEY is not set"


def test_429_is_repeated_after_the_time_asked_for(server: Server, source: SerperSource, waits: list[float]) -> None:
    server.reply = lambda query, before: OK if before else (429, {"Retry-After": "7"}, b"")

    (hits,) = source.search(["a"], 5)

    assert hits.error is None and len(hits.passages) == 2
    assert waits == [7.0]


def test_a_server_that_stays_broken_fails_its_query_only(
    server: Server, source: SerperSource, waits: list[float]
) -> None:
    server.reply = lambda query, before: (500, {}, b"oops") if query == "bad" else OK

    good, bad = source.search(["good", "bad"], 5)

    assert good.error is None
    assert bad.error == "HTTP 500 after 5 attempts" and bad.passages == ()
    assert len(waits) == 4 and all(wait <= 8 for wait in waits)


def test_a_failure_is_not_cached(server: Server, source: SerperSource) -> None:
    server.reply = lambda query, before: (503, {}, b"") if before < 5 else OK

    (failed,), (then,) = source.search(["a"], 5), source.search(["a"], 5)

    assert failed.error and not then.error


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((403, {}, KEY.encode()), "HTTP 403"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "HTTP 302"),
        ((429, {"Retry-After": "3600"}, b""), "HTTP 429, and asked to wait 3600 s"),
        ((200, {}, b"<html>"), "HTTP 200, but not the search result that was expected"),
    ],
)
def test_what_repeating_cannot_mend_fails_at_once(
    reply: Reply, reason: str, server: Server, source: SerperSource, waits: list[float]
) -> None:
    server.reply = lambda query, before: reply

    (hits,) = source.search(["a"], 5)

    assert hits.error == reason
    assert len(server.requests) == 1 and waits == []


def test_no_connection_is_retried_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    waits: list[float] = []
    source = SerperSource(name="g", base_url="http://127.0.0.1:1", cache=tmp_path / "c.sqlite", sleep=waits.append)

    (hits,) = source.search(["a"], 5)

    assert hits.error == "ConnectionError after 5 attempts" and len(waits) == 4


def test_many_queries_come_back_in_order_with_bounded_concurrency(server: Server, source: SerperSource) -> None:
    server.reply = lambda query, before: (
        200,
        {},
        json.dumps({"organic": [{"title": query, "snippet": query, "link": query}]}).encode(),
    )
    queries = [f"q{n}" for n in range(60)]

    found = source.search(queries, 1)

    assert [hits.passages[0].text for hits in found] == queries
    assert server.most_at_once <= 8


def test_the_key_is_in_no_file(source: SerperSource, tmp_path: Path) -> None:
    source.search(["a"], 5)

    with sqlite3.connect(tmp_path / "c.sqlite") as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (1,)
    database.close()
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_no_key_and_nothing_cached_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERPER_API_KEY", raising=False)

    with pytest.raises(UserError, match="set SERPER_API_KEY"):
        SerperSource(name="google", cache=tmp_path / "c.sqlite")
