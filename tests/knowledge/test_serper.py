"""The web search against a loopback server."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.core.question import Question
from madke.knowledge.serper import Serper, SerperOptions
from madke.knowledge.web_source import Spent, WebSource
from madke.pools.building import retrieve_pools
from madke.pools.pool_file import read_pools
from tests.support.cli import command, madke

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
def source(server: Server, tmp_path: Path, waits: list[float]) -> WebSource:
    return open_source(tmp_path, server.url + "/", waits)


def open_source(
    folder: Path,
    url: str | None,
    waits: list[float],
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    **options: Any,
) -> WebSource:
    settings = SerperOptions.model_validate(options)
    service = Serper(settings, url)
    return WebSource(service, settings, name="google", cache=folder / "c.sqlite", sleep=waits.append, now=now)


def test_organic_results_with_snippets_become_passages(server: Server, source: WebSource) -> None:
    (hits,) = source.search(["who?"], 5)

    assert server.requests == [{"path": "/search", "key": KEY, "body": {"q": "who?", "num": 10}}]
    assert [(p.source, p.key, p.url, p.title, p.text, p.rank) for p in hits.passages] == [
        ("google", "https://a.example/1", "https://a.example/1", "One", "first", 0),
        ("google", "https://a.example/3", "https://a.example/3", "Three", "third", 1),
    ]
    assert all(p.retrieved_at is not None and p.retrieved_at.endswith("+00:00") for p in hits.passages)


def test_asking_again_asks_the_cache_and_keeps_the_time(
    server: Server, source: WebSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = source.search(["a", "b", "a"], 5)
    monkeypatch.delenv("SERPER_API_KEY")

    keyless = open_source(tmp_path, server.url, [])
    again = keyless.search(["a", "b", "a"], 5)
    (more,) = keyless.search(["a"], 11)

    assert again == first
    assert len(server.requests) == 2
    assert more.error == "no usable answer in the cache, and SERPER_API_KEY is not set"


def test_429_is_repeated_after_the_time_asked_for(server: Server, source: WebSource, waits: list[float]) -> None:
    server.reply = lambda query, before: OK if before else (429, {"Retry-After": "7"}, b"")

    (hits,) = source.search(["a"], 5)

    assert hits.error is None
    assert len(hits.passages) == 2
    assert waits == [7.0]


def test_a_server_that_stays_broken_fails_its_query_only(server: Server, source: WebSource, waits: list[float]) -> None:
    server.reply = lambda query, before: (500, {}, b"oops") if query == "bad" else OK

    good, bad = source.search(["good", "bad"], 5)

    assert good.error is None
    assert bad.error == "HTTP 500 after 5 attempts"
    assert bad.passages == ()
    assert len(waits) == 4
    assert all(wait <= 8 for wait in waits)


def test_a_failure_is_not_cached(server: Server, source: WebSource) -> None:
    server.reply = lambda query, before: (503, {}, b"") if before < 5 else OK

    (failed,), (then,) = source.search(["a"], 5), source.search(["a"], 5)

    assert failed.error
    assert not then.error


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((404, {}, KEY.encode()), "HTTP 404"),
        ((400, {}, b'{"message": "Query pattern is not allowed"}'), "HTTP 400"),
        ((403, {}, KEY.encode()), "HTTP 403, SERPER_API_KEY was rejected"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "HTTP 302"),
        ((302, {"Location": "http://[::1"}, b""), "HTTP 302"),
        ((429, {"Retry-After": "3600"}, b""), "HTTP 429, and the server asks to wait 3600 s"),
        ((200, {}, b"<html>"), "the reply is not JSON"),
        ((200, {}, b'["organic"]'), "HTTP 200, but the body is not a search result"),
        ((200, {}, b'{"organic": [{"url": "renamed"}]}'), "HTTP 200, but the body is not a search result"),
    ],
)
def test_what_repeating_cannot_mend_fails_at_once(
    reply: Reply, reason: str, server: Server, source: WebSource, waits: list[float]
) -> None:
    server.reply = lambda query, before: reply

    (hits,) = source.search(["a"], 5)

    assert hits.error == reason
    assert len(server.requests) == 1
    assert waits == []


@pytest.fixture
def raw_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes, bytes, float], str]]:
    """Makes servers that send what they are told, and then one thing again and again, with a pause before it."""
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    over, threads = threading.Event(), []

    def start(first: bytes, again: bytes, pause: float) -> str:
        listening = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            with listening, closing(listening.accept()[0]) as client, suppress(OSError):
                client.recv(1 << 16)
                client.sendall(first)
                while not over.wait(pause):
                    client.sendall(again)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    over.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("packing", [b"", b"Content-Encoding: gzip\r\n"])
def test_an_endless_reply_is_not_read_to_its_end(
    packing: bytes, raw_server: Callable[[bytes, bytes, float], str], tmp_path: Path, waits: list[float]
) -> None:
    url = raw_server(b"HTTP/1.1 200 OK\r\n" + packing + b"\r\n", bytes(1 << 16), 0)

    (hits,) = open_source(tmp_path, url, waits).search(["a"], 5)

    assert hits.error == "HTTP 200, but the reply exceeds 5,000,000 bytes"
    assert waits == []


@pytest.mark.parametrize("begins", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nServer: "])
def test_a_reply_that_trickles_in_is_given_up(
    begins: bytes,
    raw_server: Callable[[bytes, bytes, float], str],
    tmp_path: Path,
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("madke.knowledge.http_search._DEADLINE", 0.3)
    url = raw_server(begins, b"0", 0.05)

    (hits,) = open_source(tmp_path, url, waits).search(["a"], 5)

    assert hits.error == "no complete reply within 0.3 s"
    assert waits == []


def test_no_connection_is_retried_and_reported(server: Server, tmp_path: Path, waits: list[float]) -> None:
    source = open_source(tmp_path, "http://127.0.0.1:1", waits)

    (hits,) = source.search(["a"], 5)

    assert hits.error == "ConnectionError after 5 attempts"
    assert len(waits) == 4
    assert source.spent.requests == 5


def test_an_endpoint_that_nothing_reaches_is_not_tried_for_every_query(
    server: Server, tmp_path: Path, waits: list[float]
) -> None:
    source = open_source(tmp_path, "http://127.0.0.1:1", waits)

    found = source.search([f"q{n}" for n in range(300)], 5)

    assert source.spent.requests <= 8 * 5
    assert found[-1].error == "not sent: ConnectionError after 5 attempts"
    assert all(hits.error for hits in found)


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ((400, {}, b'{"message":"Not enough credits","statusCode":400}'), "HTTP 400, no credits are left"),
        ((401, {}, b""), "HTTP 401, SERPER_API_KEY was rejected"),
        ((403, {}, b'{"message":"Unauthorized."}'), "HTTP 403, SERPER_API_KEY was rejected"),
    ],
)
def test_a_refusal_ends_all_asking_and_keeps_what_was_answered(
    refusal: Reply, reason: str, server: Server, source: WebSource
) -> None:
    source.search(["before"], 5)
    server.reply = lambda query, before: refusal

    found = source.search(["before", *(f"q{n}" for n in range(300))], 5)
    sent = len(server.requests)
    (later,) = source.search(["later"], 5)

    assert sent <= 1 + 8
    assert len(server.requests) == sent
    assert found[0].error is None
    assert len(found[0].passages) == 2
    assert {hits.error for hits in found[1:]} == {reason, f"not sent: {reason}"}
    assert later.error == f"not sent: {reason}"


def test_a_refusal_makes_the_pools_of_the_rest_partial(server: Server, source: WebSource, tmp_path: Path) -> None:
    server.reply = lambda query, before: OK if query == "q0" else (400, {}, b'{"message":"Not enough credits"}')
    source.search(["q0"], 5)
    questions = [Question(id=f"{n}", question=f"q{n}", answers=("x",)) for n in range(30)]

    count = retrieve_pools(questions, [source], 5, tmp_path / "pools.jsonl")

    pools = read_pools(tmp_path / "pools.jsonl")
    assert count["google"].failed == 29
    assert not pools["0"].partial
    assert "no credits are left" in pools["29"].partial["google"]


def test_a_server_that_asks_to_be_left_alone_is(server: Server, source: WebSource) -> None:
    server.reply = lambda query, before: (429, {"Retry-After": "3600"}, b"")

    found = source.search([f"q{n}" for n in range(100)], 5)

    assert len(server.requests) <= 8
    assert found[-1].error == "not sent: HTTP 429, and the server asks to wait 3600 s"


def test_a_killed_pool_build_asks_again_only_for_what_had_not_come_back(server: Server, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    lines = [{"id": f"id{n}", "question": f"q{n}", "golden_answers": ["x"]} for n in range(40)]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    stored = 20
    held, go_on = threading.Event(), threading.Event()

    def answer_some(query: str, before: int) -> Reply:
        if len(server.requests) > stored and not go_on.is_set():
            if len(server.requests) == stored + 8:  # each of the eight that ask has stored what it got before
                held.set()
            go_on.wait(60)
        return OK

    server.reply = answer_some
    env: dict[str, Any] = {"SERPER_BASE_URL": server.url, "MADKE_CACHE": str(tmp_path / "cache")}
    words = ("pool", "build", questions, "--sources", "web=serper", "--out", tmp_path / "p.jsonl")
    with subprocess.Popen(command(*words), env={**os.environ, **env}, stderr=subprocess.DEVNULL) as process:
        assert held.wait(60)
        process.kill()
    go_on.set()
    asked = {request["body"]["q"] for request in server.requests}
    assert len(asked) == len(server.requests) == stored + 8
    server.requests.clear()

    done = madke(*words, **env)

    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 40 - stored
    assert len(read_pools(tmp_path / "p.jsonl")) == 40


def test_what_was_spent_is_counted(server: Server, source: WebSource) -> None:
    odd = {"odd": {"credits": "?"}, "huge": {"credits": 10**30}, "less": {"credits": -5}, "yes": {"credits": True}}
    prices = {"one": {"credits": 1}, "three": {"credits": 3}, "unsaid": {}, **odd}
    server.reply = lambda query, before: (
        (500, {}, b"") if query == "one" and not before else (200, {}, json.dumps(prices[query]).encode())
    )

    source.search(["one", "three", "unsaid", "odd", "odd", "huge", "less", "yes"], 5)
    source.search(["one", "unsaid"], 5)
    source.search(["unsaid"], 11)

    assert source.spent == Spent(source="google", requests=9, credits=11, cached=2)
    assert source.spent.line() == "google: 9 requests sent, 2 answers from the cache, 11 credits spent"


def test_many_queries_come_back_in_order_with_bounded_concurrency(server: Server, source: WebSource) -> None:
    server.reply = lambda query, before: (
        200,
        {},
        json.dumps({"organic": [{"title": query, "snippet": query, "link": query}]}).encode(),
    )
    queries = [f"q{n}" for n in range(60)]

    found = source.search(queries, 1)

    assert [hits.passages[0].text for hits in found] == queries
    assert server.most_at_once <= 8


def test_the_key_is_in_no_file(source: WebSource, tmp_path: Path) -> None:
    source.search(["a"], 5)

    with closing(sqlite3.connect(tmp_path / "c.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM replies").fetchone() == (1,)
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_no_key_and_nothing_cached_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERPER_API_KEY", raising=False)

    with pytest.raises(UserError, match="set SERPER_API_KEY"):
        open_source(tmp_path, None, [])


PAGE: Reply = (
    200,
    {},
    json.dumps(
        {
            "answerBox": {"title": "Rivers", "answer": "the Aare", "link": "https://rivers.example/aare"},
            "knowledgeGraph": {
                "title": "Bern",
                "type": "City",
                "description": "A city on a river.",
                "descriptionLink": "https://encyclopedia.example/Bern",
                "website": "https://bern.example/",
                "attributes": {"Population": "134,794", "Area": 51.6},
            },
            "organic": [
                {"title": "Quiz", "snippet": "answers", "link": "https://www.quiz.example/17"},
                {"title": "Odd", "snippet": 5, "link": "https://odd.example/"},
                {"title": "Bern", "snippet": "on the Aare", "link": "https://travel.example/"},
            ],
            "credits": 1,
        }
    ).encode(),
)


def test_the_answer_box_and_the_knowledge_graph_come_first(server: Server, tmp_path: Path, waits: list[float]) -> None:
    server.reply = lambda query, before: PAGE
    source = open_source(tmp_path, server.url, waits, answer_box=True, knowledge_graph=True)

    (hits,) = source.search(["Which river?"], 3)

    assert [(p.key, p.title, p.text, p.url, p.rank) for p in hits.passages] == [
        ("answer_box https://rivers.example/aare", "Rivers", "the Aare", "https://rivers.example/aare", 0),
        (
            "knowledge_graph https://encyclopedia.example/Bern",
            "Bern",
            "City. A city on a river. Population: 134,794. Area: 51.6",
            "https://encyclopedia.example/Bern",
            1,
        ),
        ("https://www.quiz.example/17", "Quiz", "answers", "https://www.quiz.example/17", 2),
    ]


def test_what_is_taken_and_left_out_can_change_without_a_new_request(
    server: Server, tmp_path: Path, waits: list[float]
) -> None:
    server.reply = lambda query, before: PAGE

    def keys(**options: Any) -> list[str]:
        (hits,) = open_source(tmp_path, server.url, waits, **options).search(["Which river?"], 5)
        return [passage.key for passage in hits.passages]

    quiz, travel = "https://www.quiz.example/17", "https://travel.example/"
    box, graph = "answer_box https://rivers.example/aare", "knowledge_graph https://encyclopedia.example/Bern"
    assert keys() == [quiz, travel]
    assert keys(organic=False, answer_box=True) == [box]
    assert keys(organic=False, knowledge_graph=True, answer_box=True) == [box, graph]
    assert keys(exclude=["quiz.example"]) == [travel]
    assert keys(exclude=["rivers.example", "encyclopedia.example"], answer_box=True, knowledge_graph=True) == [
        quiz,
        travel,
    ]
    assert keys(exclude=["bern.example"], answer_box=True, knowledge_graph=True) == [box, quiz, travel]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "panel",
    [{"answerBox": {"answer": "42"}}, {"knowledgeGraph": {"title": "T", "description": "D"}}],
    ids=["answer box", "knowledge graph"],
)
def test_a_panel_of_unknown_origin_is_left_out_where_domains_are(
    panel: dict[str, Any], server: Server, tmp_path: Path, waits: list[float]
) -> None:
    server.reply = lambda query, before: (200, {}, json.dumps(panel).encode())
    both: dict[str, Any] = {"answer_box": True, "knowledge_graph": True}

    (shown,) = open_source(tmp_path, server.url, waits, **both).search(["a"], 5)
    (hidden,) = open_source(tmp_path, server.url, waits, **both, exclude=["a.example"]).search(["a"], 5)

    assert len(shown.passages) == 1
    assert shown.passages[0].url is None
    assert hidden.passages == ()
    assert hidden.error is None


def test_an_odd_panel_costs_nothing_but_itself(server: Server, tmp_path: Path, waits: list[float]) -> None:
    server.reply = lambda query, before: (
        200,
        {},
        json.dumps({**json.loads(PAGE[2]), "answerBox": ["?"], "knowledgeGraph": {"title": {}}}).encode(),
    )
    source = open_source(tmp_path, server.url, waits, answer_box=True, knowledge_graph=True)

    (hits,) = source.search(["a"], 5)

    assert [passage.title for passage in hits.passages] == ["Quiz", "Bern"]


def test_a_snippet_cut_inside_a_character_is_shown_and_kept(server: Server, source: WebSource) -> None:
    result = {"title": "Cut", "snippet": "so glad \ud83d", "link": "https://a.example/"}
    server.reply = lambda query, before: (200, {}, json.dumps({"organic": [result]}).encode())

    (first,), (again,) = source.search(["a"], 5), source.search(["a"], 5)

    assert first == again
    assert first.passages[0].text == "so glad ?"


def test_all_settings_are_sent_and_the_query_stays_verbatim(server: Server, tmp_path: Path, waits: list[float]) -> None:
    source = open_source(
        tmp_path,
        server.url,
        waits,
        results=30,
        country="CH",
        language="de",
        after="2020-01-31",
        before="2021-02-01",
        exclude=["quiz.example"],
    )

    source.search(['"Bern" -site?'], 5)

    assert server.requests[0]["body"] == {
        "q": '"Bern" -site?',
        "num": 30,
        "gl": "ch",
        "hl": "de",
        "tbs": "cdr:1,cd_min:1/31/2020,cd_max:2/1/2021",
    }


def test_an_expired_answer_is_asked_again_and_never_used(
    server: Server, tmp_path: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = datetime(2024, 5, 1, 12, tzinfo=UTC)

    def search(days: float) -> Hits:
        source = open_source(tmp_path, server.url, waits, now=lambda: start + timedelta(days=days), cache_days=7)
        return source.search(["a"], 5)[0]

    first, still = search(0), search(6.99)
    server.reply = lambda query, before: (404, {}, b"")
    failed = search(7)
    server.reply = lambda query, before: OK
    again = search(8)
    monkeypatch.delenv("SERPER_API_KEY")
    keyless = search(100)

    assert first == still
    assert first.passages[0].retrieved_at == "2024-05-01T12:00:00+00:00"
    assert failed == Hits(error="HTTP 404; the answer in the cache expired on 2024-05-08")
    assert again.passages[0].retrieved_at == "2024-05-09T12:00:00+00:00"
    assert keyless.error == (
        "no usable answer in the cache, and SERPER_API_KEY is not set; the answer in the cache expired on 2024-05-16"
    )
    assert len(server.requests) == 3


def test_other_parameters_are_other_answers(server: Server, tmp_path: Path, waits: list[float]) -> None:
    asked: list[dict[str, Any]] = [{}, {"country": "us"}, {"country": "ch"}, {"after": "2020-01-01"}, {"country": "us"}]
    for options in asked:
        open_source(tmp_path, server.url, waits, **options).search(["a"], 5)

    assert len(server.requests) == 4


def test_a_cache_of_the_first_version_is_left_alone_and_not_read(
    server: Server, tmp_path: Path, waits: list[float]
) -> None:
    old = "INSERT INTO answers VALUES (?, '{\"num\": 10, \"q\": \"a\"}', '2024-05-01T12:00:00+00:00', '[]')"
    with closing(sqlite3.connect(tmp_path / "c.sqlite")) as database, database:
        database.execute(
            "CREATE TABLE answers "
            "(base_url TEXT, parameters TEXT, retrieved_at TEXT, results TEXT, PRIMARY KEY (base_url, parameters))"
        )
        database.execute(old, (server.url,))

    (hits,) = open_source(tmp_path, server.url, waits).search(["a"], 5)

    assert len(hits.passages) == 2
    with closing(sqlite3.connect(tmp_path / "c.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (1,)


def test_a_cache_that_is_no_database_is_one_line(server: Server, tmp_path: Path, waits: list[float]) -> None:
    (tmp_path / "c.sqlite").write_text("not a database, and longer than a header", encoding="utf-8")

    with pytest.raises(UserError, match=r"c\.sqlite: the cache of web searches cannot be used: "):
        open_source(tmp_path, server.url, waits)
