"""Search services over HTTP: what each preset sends and reads, and the same faults for all of them."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.retrieval.named import services_of, spec_from_yaml
from madke.retrieval.pools import read_pools
from madke.retrieval.services import WikipediaOptions, search_presets
from madke.retrieval.web import SnippetsSource, Spent, WebSource
from tests.data.published import write
from tests.support.cli import command, madke
from tests.support.search_server import Reply, SearchServer, Seen, ok, raw_server

KEY = "canary-7f3a9b2c5d"
QUERY = 'Who said "{k} & ${HOME}"?'


@dataclass(frozen=True, kw_only=True)
class Case:
    """A service, with what it is sent for QUERY and three passages, and replies as it writes them."""

    settings: dict[str, Any]
    sent: dict[str, Any]
    """Attributes of the request."""
    replies: list[Any]
    found: list[tuple[str, str, str, str | None]]
    """(key, title, text, url) of each passage."""
    empty: Any
    keys: dict[str, str] = field(default_factory=dict)
    """Environment variable -> header that carries it."""
    kind: str = "http"


A, B = "https://a.example/1", "https://b.example/2"
FOUND = [(A, "One", "first", A)]
SCORED = {"title": "One", "content": "first", "url": A, "score": 0.9}
MARKED = {"title": "One &amp; <b>two</b>", "description": "It&#x27;s <strong>1 < 2</strong>", "url": A}
HIT = {"_id": "7", "_score": 2.5, "_source": {"title": "One", "text": "first", "url": A}}
MATCH = {"multi_match": {"query": QUERY, "fields": ["title", "text"]}}
DOCUMENT = {"document": {"id": "9", "contents": '"One"\nfirst\nline'}, "score": 0.8}
OWN_PARAMS = {"token": "${MY_TOKEN}", "text": "about {query}", "n": "{k}", "deep": True}
OWN_ITEM = {"meta": {"name": "One"}, "parts": ["first", "second"], "href": B}
CASES = {
    "searxng": Case(
        settings={"preset": "searxng", "url": "{url}/"},
        sent={"method": "GET", "path": "/search", "params": {"q": QUERY, "format": "json"}, "body": None},
        replies=[{"query": "q", "results": [{**SCORED, "engine": "x"}]}],
        found=FOUND,
        empty={"results": []},
    ),
    "tavily": Case(
        settings={"preset": "tavily", "url": "{url}/search"},
        sent={"method": "POST", "body": {"query": QUERY, "max_results": 3, "search_depth": "basic"}},
        replies=[{"results": [SCORED], "response_time": 1.2}],
        found=FOUND,
        empty={"results": []},
        keys={"TAVILY_API_KEY": "authorization"},
    ),
    "brave": Case(
        settings={"preset": "brave", "url": "{url}/res/v1/web/search"},
        sent={"method": "GET", "params": {"q": QUERY, "count": "3", "text_decorations": "false"}},
        replies=[{"web": {"results": [MARKED]}}],
        found=[(A, "One & two", "It's 1 < 2", A)],
        empty={"type": "search"},
        keys={"BRAVE_API_KEY": "x-subscription-token"},
    ),
    "elasticsearch": Case(
        settings={"preset": "elasticsearch", "url": "{url}/news", "headers": {"Authorization": "ApiKey ${MY_ES}"}}
        | {"fields": {"date": "_source.day"}},
        sent={"method": "POST", "path": "/news/_search", "body": {"query": MATCH, "size": 3}},
        replies=[{"hits": {"total": {"value": 1}, "hits": [HIT]}}],
        found=[("7", "One", "first", A)],
        empty={"hits": {"hits": []}},
        keys={"MY_ES": "authorization"},
    ),
    "opensearch": Case(
        settings={"preset": "opensearch", "url": "{url}/news", "body": {"query": {"match": {"body": "{query}"}}}},
        sent={"method": "POST", "path": "/news/_search", "body": {"query": {"match": {"body": QUERY}}, "size": 3}},
        replies=[{"hits": {"hits": [HIT]}}],
        found=[("7", "One", "first", A)],
        empty={"hits": {"hits": []}},
    ),
    "search-r1": Case(
        settings={"preset": "search-r1", "url": "{url}"},
        sent={"method": "POST", "path": "/retrieve", "body": {"queries": [QUERY], "topk": 3, "return_scores": True}},
        replies=[{"result": [[DOCUMENT]]}],
        found=[("9", "One", "first\nline", None)],
        empty={"result": [[]]},
    ),
    "pyserini": Case(
        settings={"preset": "pyserini", "url": "{url}/v1/indexes/cacm"},
        sent={"method": "POST", "path": "/v1/indexes/cacm/search", "body": {"query": QUERY, "hits": 3}},
        replies=[{"query": {"qid": ""}, "candidates": [{"docid": "9", "score": 3.5, "document_txt": "first"}]}],
        found=[("9", "", "first", None)],
        empty={"candidates": []},
    ),
    "serper": Case(
        settings={"preset": "serper", "url": "{url}"},
        sent={"method": "POST", "path": "/search", "params": {}, "body": {"q": QUERY, "num": 3}},
        replies=[{"organic": [{"title": "One", "snippet": "first", "link": A}], "credits": 1}],
        found=FOUND,
        empty={"organic": []},
        keys={"SERPER_API_KEY": "x-api-key"},
    ),
    "own": Case(
        settings={"url": "{url}/find", "params": OWN_PARAMS, "results": "data.0.items"}
        | {"fields": {"title": "meta.name", "text": "parts", "url": "href"}},
        sent={"method": "GET", "params": {"token": KEY, "text": f"about {QUERY}", "n": "3", "deep": "true"}},
        replies=[{"data": [{"items": [OWN_ITEM, {"id": 2}]}]}],
        found=[(B, "One", "first second", B)],
        empty={"data": [{"items": []}]},
        keys={"MY_TOKEN": ""},
    ),
    "wikipedia": Case(
        kind="wikipedia",
        settings={"url": "{url}/w/api.php", "articles": 1, "contact": "me@example.org"},
        sent={"method": "GET", "path": "/w/api.php"},
        replies=[
            {"query": {"search": [{"pageid": 5, "title": "One"}]}},
            {"query": {"pages": [{"pageid": 5, "title": "One", "extract": "first", "fullurl": A}]}},
        ],
        found=[("5-0", "One", "first", f"{A}#:~:text=first")],
        empty={"query": {"search": []}},
    ),
}


@pytest.fixture(params=["searxng", "serper", "wikipedia"])
def name(request: pytest.FixtureRequest) -> str:
    """The services for faults that all have in common; a test of one service names it."""
    return str(request.param)


def services(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", names)


@pytest.fixture
def case(name: str, monkeypatch: pytest.MonkeyPatch) -> Case:
    for variable in CASES[name].keys:
        monkeypatch.setenv(variable, KEY)
    return CASES[name]


@pytest.fixture
def server(case: Case) -> Iterator[SearchServer]:
    with SearchServer(lambda seen, before: ok(case.replies[before % len(case.replies)])).running() as server:
        yield server


@pytest.fixture
def waits() -> list[float]:
    return []


Open = Callable[..., WebSource]


@pytest.fixture
def opened(case: Case, tmp_path: Path, waits: list[float]) -> Open:
    """Opens the source at an address, with more settings."""

    def open_at(url: str, now: Callable[[], datetime] = lambda: datetime.now(UTC), **more: Any) -> WebSource:
        settings = {**case.settings, "url": case.settings["url"].replace("{url}", url), **more}
        (service,) = services_of(spec_from_yaml({case.kind: settings}, file="f"))
        return WebSource(service, name="web", cache=tmp_path / "c.sqlite", sleep=waits.append, now=now)

    return open_at


@pytest.fixture
def source(server: SearchServer, opened: Open) -> WebSource:
    return opened(server.url)


def test_every_preset_has_a_case() -> None:
    assert set(search_presets()) <= {case.settings.get("preset") for case in CASES.values()}


@services(*CASES)
def test_each_service_is_asked_and_read_in_its_own_form(case: Case, server: SearchServer, source: WebSource) -> None:
    (hits,) = source.search([QUERY], 3)

    assert hits.error is None
    assert [(p.key, p.title, p.text, p.url) for p in hits.passages] == case.found
    assert all(p.source == "web" and p.retrieved_at for p in hits.passages)
    assert {each: getattr(server.requests[0], each) for each in case.sent} == case.sent
    for header in filter(None, case.keys.values()):
        assert KEY in server.requests[0].headers[header]
    server.reply = lambda seen, before: ok(case.empty)
    assert source.search(["of which nothing is known"], 3) == [Hits()]


def test_a_repeated_search_costs_nothing(case: Case, server: SearchServer, opened: Open) -> None:
    first = opened(server.url).search([QUERY], 3)

    source = opened(server.url)

    assert source.search([QUERY, QUERY], 3) == first * 2
    assert len(server.requests) == len(case.replies)
    assert source.spent == Spent(source="web", cached=len(case.replies))


@services("tavily")
def test_what_was_spent_is_counted(server: SearchServer, opened: Open) -> None:
    source = opened(server.url, credits=2)
    source.search(["a", "b"], 3)
    source.search(["a"], 3)

    assert source.spent.line() == "web: 2 requests sent, 1 answer from the cache, 4 credits spent"


@services("searxng")
def test_an_expired_answer_is_asked_again_and_never_used(server: SearchServer, opened: Open) -> None:
    start = datetime(2024, 5, 1, 12, tzinfo=UTC)

    def search(days: float) -> Hits:
        return opened(server.url, now=lambda: start + timedelta(days=days), cache_days=7).search(["a"], 3)[0]

    first = search(0)
    assert search(6.9) == first
    server.reply = lambda seen, before: (404, {}, b"")
    assert search(7) == Hits(error="HTTP 404")


def test_a_busy_service_is_asked_again(case: Case, server: SearchServer, source: WebSource, waits: list[float]) -> None:
    busy: list[Reply] = [(429, {"Retry-After": "7"}, b""), (503, {}, KEY.encode())]
    replies = [*busy, *map(ok, case.replies)]
    server.reply = lambda seen, before: replies[before]

    (hits,) = source.search(["a"], 3)

    assert len(hits.passages) == len(case.found)
    assert waits[0] == 7.0
    assert 1 <= waits[1] <= 2


@services("searxng", "wikipedia")
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((302, {"Location": "/elsewhere"}, KEY.encode()), "HTTP 302"),
        ((429, {"Retry-After": "3600"}, b""), "HTTP 429, and the server asks to wait 3600 s"),
        ((200, {}, b"<html>"), "the reply is not JSON"),
        ((200, {}, f'{{"error": "bad key {KEY}"}}'.encode()), "the reply "),
    ],
)
def test_a_lasting_fault_is_not_repeated(reply: Reply, reason: str, server: SearchServer, source: WebSource) -> None:
    server.reply = lambda seen, before: reply

    (hits,) = source.search(["a"], 3)

    assert str(hits.error).startswith(reason)
    assert KEY not in str(hits.error)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "status", "content", "reason"),
    [
        ("serper", 401, f"Invalid key {KEY}", "SERPER_API_KEY was rejected"),
        ("searxng", 403, "", "access was rejected (searxng needs json in search.formats of its settings)"),
        ("serper", 402, KEY, "no credits are left"),
        ("tavily", 432, '{"error": "This request exceeds your plan\'s set usage limit."}', "no credits are left"),
        ("brave", 429, '{"error": {"code": "QUOTA_LIMITED"}}', "no credits are left"),
    ],
)
def test_a_rejected_key_and_a_used_up_quota_end_all_requests(
    status: int, content: str, reason: str, server: SearchServer, source: WebSource
) -> None:
    server.reply = lambda seen, before: (status, {}, content.encode())
    refused = f"HTTP {status}, {reason}"

    found = source.search([f"q{n}" for n in range(60)], 3)
    sent = len(server.requests)
    (later,) = source.search(["later"], 3)

    # Several requests are in flight when the first is refused, and any of them may be the first.
    assert {hits.error for hits in found} == {refused, f"not sent: {refused}"}
    assert sum(hits.error == refused for hits in found) == sent <= 8
    assert later.error == f"not sent: {refused}"
    assert len(server.requests) == sent


def test_an_unreachable_service_is_not_tried_for_every_query(opened: Open) -> None:
    source = opened("http://127.0.0.1:1")

    found = source.search([f"q{n}" for n in range(60)], 3)

    assert source.spent.requests <= 8 * 5
    assert found[-1].error == "not sent: ConnectError after 5 attempts"


HEAD = b"HTTP/1.1 200 OK\r\n"
TOO_LONG = "HTTP 200, but the reply exceeds 5,000,000 bytes"


@services("searxng")
@pytest.mark.parametrize(
    ("first", "again", "pause", "error"),
    [
        (HEAD + b"Content-Length: 99\r\n\r\n{", b"", 0.0, "RemoteProtocolError after 5 attempts"),
        (HEAD[:1], b"T", 60.0, "ReadTimeout after 5 attempts"),
        (HEAD + b"\r\n", bytes(1 << 16), 0.0, TOO_LONG),
        (HEAD + b"Content-Encoding: gzip\r\n\r\n", bytes(1 << 16), 0.0, TOO_LONG),
        (HEAD + b"\r\n", b"0", 0.05, "no complete reply within 0.3 s"),
    ],
    ids=["half a body", "hanging", "endless", "endless and packed", "trickling"],
)
def test_half_a_reply_is_asked_for_again_and_one_without_end_given_up(
    first: bytes, again: bytes, pause: float, error: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("madke.retrieval.web._TIMEOUT", 0.1)
    if pause:
        monkeypatch.setattr("madke.retrieval.web._BODY_TIMEOUT", 0.3)
    with raw_server(first, again, pause) as url:
        (hits,) = opened(url).search(["a"], 3)

    assert hits.error == error


def test_results_are_in_order_and_requests_few_at_once(case: Case, server: SearchServer, source: WebSource) -> None:
    if case.kind == "wikipedia":
        server.reply = lambda seen, before: ok(case.replies["pageids" in seen.params])

    found = source.search([f"q{n}" for n in range(16)], 1)

    assert len(found) == 16
    assert all(hits.passages for hits in found)
    assert 1 <= server.most_at_once <= (1 if case.kind == "wikipedia" else 8)


@services("searxng")
@pytest.mark.parametrize("proxy", ["nonsense://h.example", "socks5://h.example"])
def test_a_proxy_that_cannot_be_used_is_one_error(opened: Open, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(UserError, match="the environment names a proxy that cannot be used"):
        opened("http://h.example").search(["a"], 1)


@services("tavily")
def test_the_netrc_file_does_not_replace_the_key(
    server: SearchServer, source: WebSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password netrc-secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    source.search(["a"], 3)

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def options(**settings: Any) -> dict[str, Any]:
    return {"url": "http://h.example/x", "params": {"q": "{query}"}, "fields": {"text": "t"}, **settings}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "searxng"}, "url: "),
        ({"preset": "serxng", "url": "http://h.example"}, "unknown preset 'serxng'; did you mean 'searxng'"),
        (options(url="file:///etc/passwd"), "url: expected http:// or https:// and an address without user and query"),
        (options(params={"q": "x"}), r"expected \{query\} in params or body"),
        (options(params={"q": "{query} ${KEY}"}), "q contains a key and a slot"),
        (options(fields={"title": "t"}), "expected the path of text, or of contents"),
        (options(fields={"txt": "a"}), "unknown key 'http.fields.txt'; did you mean"),
        (options(exclude=["example"]), "expected a domain such as example.org, found 'example'"),
    ],
)
def test_a_wrong_setting_is_one_line_that_says_what_was_expected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^f: .*{message}") as error:
        spec_from_yaml({"http": settings}, file="f")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("domain", "link"),
    [
        ("quiz.example", "https://www.quiz.example/17"),
        ("WWW.Quiz.example", "http://quiz.example:8080/a?b=c"),
        ("b\u00fccher.example", "https://xn--bcher-kva.example/"),
        ("quiz.example", "https:\\\\quiz.example\\17"),
        ("quiz.example", "https://quiz.example\\@other.example/"),
        ("quiz.example", "https://quiz.example./17"),
    ],
)
def test_an_excluded_domain_is_known_in_each_spelling(domain: str, link: str) -> None:
    service = WikipediaOptions(exclude=(domain,))

    assert not service.allows(link)
    assert service.allows("https://notquiz.example/?from=https://quiz.example/")
    for unreadable in ("", "quiz.example/17", "https://[::1"):
        assert not service.allows(unreadable)


def test_a_file_of_results_gives_those_of_a_known_query_in_order(tmp_path: Path) -> None:
    found = [{"title": f"T{n}", "snippet": f"snippet {n}", "link": f"{A}{n}", "date": "2024-05-01"} for n in range(3)]
    path = write(tmp_path / "web.jsonl", {"query": "Who  made IT?", "results": found})

    known, unknown = SnippetsSource(path, name="google").search([" who made it? ", "who made them?"], 2)

    assert [(p.source, p.key, p.title, p.text, p.rank, p.url, p.date) for p in known.passages] == [
        ("google", f"{A}{n}", f"T{n}", f"snippet {n}", n, f"{A}{n}", "2024-05-01") for n in (0, 1)
    ]
    assert unknown == Hits()


def test_a_broken_line_of_a_file_of_results_is_named(tmp_path: Path) -> None:
    found = [{"query": "a", "results": []}, {"query": "b", "results": [{"title": "no link"}]}]

    with pytest.raises(UserError, match=r":2: results\.0\.link: Field required"):
        SnippetsSource(write(tmp_path / "web.jsonl", found), name="google")


EXTRACT = " ".join(f"filler{n}" for n in range(150)) + " Baikal is 1,642 metres deep.\n\n\n== See also ==\nBaikal deep"
PAGES: dict[str, Any] = {
    "1": {"title": "Lake Baikal", "extract": EXTRACT, "fullurl": A},
    "2": {"title": "Baikal", "extract": "Baikal deep may refer to", "fullurl": B, "pageprops": {"disambiguation": ""}},
}


def of_wikipedia(seen: Seen, before: int) -> Reply:
    if page := seen.params.get("pageids"):
        return ok({"query": {"pages": [{"pageid": int(page), **PAGES[page]}]}})
    return ok({"query": {"search": [{"pageid": 1}, {"pageid": 2}, {"pageid": "x"}, {}]}})


@services("wikipedia")
def test_articles_become_passages_and_the_best_come_first(server: SearchServer, opened: Open) -> None:
    server.reply = of_wikipedia

    (hits,) = opened(server.url, articles=3).search(["How deep is Baikal?"], 5)

    assert [(p.key, len(p.text.split())) for p in hits.passages] == [("1-1", 55), ("1-0", 100)]
    assert hits.passages[0].text.endswith("Baikal is 1,642 metres deep.")
    assert hits.passages[0].url == f"{A}#:~:text=" + "%20".join(f"filler{n}" for n in range(100, 106))
    assert hits.passages[0].dedup_keys.isdisjoint(hits.passages[1].dedup_keys)
    assert [seen.params["maxlag"] for seen in server.requests] == ["5"] * 3
    (agent,) = {seen.headers["user-agent"] for seen in server.requests}
    assert agent.startswith("madke/")
    assert "me@example.org" in agent


@services("wikipedia")
@pytest.mark.parametrize("code", ["maxlag", "ratelimited", "readonly"])
def test_a_busy_wiki_is_asked_again(code: str, server: SearchServer, source: WebSource) -> None:
    busy = ok({"error": {"code": code, "info": "Waiting for a database server"}})
    server.reply = lambda seen, before: of_wikipedia(seen, before) if before else busy

    (hits,) = source.search(["How deep is Baikal?"], 5)

    assert len(hits.passages) == 2


ORGANIC = [
    {"title": "One", "snippet": "first", "link": "https://a.example/1", "date": "1 May 2024", "position": 1},
    {"title": "No snippet", "link": "https://a.example/2"},
    {"title": "Odd", "snippet": {}, "link": "https://a.example/4"},
    {"title": "Three", "snippet": "third", "link": "https://www.quiz.example/3"},
]
SERPER = ok({"organic": ORGANIC, "credits": 1, "answerBox": {"answer": "42"}})


@services("serper")
def test_organic_snippets_alone_become_passages(server: SearchServer, opened: Open) -> None:
    server.reply = lambda seen, before: SERPER
    body = {"num": 20, "gl": "ch"}

    (hits,) = opened(server.url, body=body).search(["who?"], 5)
    (rest,) = opened(server.url, body=body, exclude=["quiz.example"]).search(["who?"], 5)

    assert server.requests[0].body == {"q": "who?", "num": 20, "gl": "ch"}
    assert [(p.key, p.title, p.text, p.rank, p.date) for p in hits.passages] == [
        ("https://a.example/1", "One", "first", 0, "1 May 2024"),
        ("https://www.quiz.example/3", "Three", "third", 1, None),
    ]
    assert [p.title for p in rest.passages] == ["One"]
    assert len(server.requests) == 1  # the whole reply is cached


@services("serper")
def test_a_killed_pool_build_asks_again_only_for_what_had_not_come_back(
    server: SearchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = write(tmp_path / "questions.jsonl", [{"id": f"id{n}", "question": f"q{n}"} for n in range(40)])
    stored = 20
    held, go_on = threading.Event(), threading.Event()

    def answer_some(seen: Seen, before: int) -> Reply:
        if len(server.requests) > stored and not go_on.is_set():
            if len(server.requests) == stored + 8:  # each of the eight that ask has stored what it got before
                held.set()
            go_on.wait(60)
        return SERPER

    server.reply = answer_some
    monkeypatch.setenv("SERPER_BASE_URL", server.url)
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    words = ("pool", "build", questions, "--sources", "web=serper", "--out", tmp_path / "p.jsonl")
    with subprocess.Popen(command(*words), stderr=subprocess.DEVNULL) as process:
        assert held.wait(60)
        process.kill()
    go_on.set()
    asked = {request.body["q"] for request in server.requests}
    assert len(asked) == len(server.requests) == stored + 8
    server.requests.clear()

    done = madke(*words)

    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 40 - stored
    assert len(read_pools(tmp_path / "p.jsonl")) == 40


@services("tavily")
def test_a_search_that_ends_leaves_another_one_alone(case: Case, server: SearchServer, source: WebSource) -> None:
    arrived, ended = threading.Event(), threading.Event()

    def reply(seen: Seen, before: int) -> Reply:
        if before == 0:
            arrived.set()
            assert ended.wait(30)
        return [(503, {}, b""), (429, {"Retry-After": "3600"}, b""), ok(case.replies[0])][before]

    server.reply = reply
    with ThreadPoolExecutor() as threads:
        first = threads.submit(source.search, ["first"], 3)
        assert arrived.wait(30)
        (other,) = source.search(["other"], 3)
        ended.set()

        assert other.error == "HTTP 429, and the server asks to wait 3600 s"
        assert first.result()[0].passages
