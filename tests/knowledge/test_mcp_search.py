"""Tools of MCP servers as sources: real servers on standard input and output and on HTTP, and broken ones."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.knowledge.asking import close_sources
from madke.knowledge.mcp_search import McpSearch
from madke.knowledge.source_spec import McpSpec, spec_from_yaml
from madke.knowledge.web_source import WebSource
from tests.support import mcp_search_server
from tests.support.installed import needs
from tests.support.search_server import SearchServer, raw_server

needs("mcp", "serve")

KEY = "canary-9e8d7c6b5a"
SERVER = Path(mcp_search_server.__file__)
FIND: dict[str, Any] = {
    "tool": "find",
    "arguments": {"query": "{query}", "limit": "{k}"},
    "results": "result",
    "fields": {"title": "name", "text": "body", "url": "href"},
}
STDIO: dict[str, Any] = {"run": [sys.executable, str(SERVER)], "env": ["LIBRARY_KEY", "MCP_STARTS"]}


@pytest.fixture(autouse=True)
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the process ids of the servers that were started."""
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LIBRARY_KEY", KEY)
    monkeypatch.setenv("MCP_STARTS", str(tmp_path / "starts"))
    return tmp_path / "starts"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "LIBRARY_KEY": KEY}
    with subprocess.Popen([sys.executable, SERVER, str(port)], env=environment, stderr=subprocess.DEVNULL) as server:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert server.poll() is None
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        server.kill()


Opened = Callable[..., WebSource]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made: list[WebSource] = []

    def open_mcp(**settings: Any) -> WebSource:
        spec = spec_from_yaml({"mcp": {**FIND, **settings}}, file="f")
        assert isinstance(spec, McpSpec)
        options = spec.mcp
        made.append(WebSource(McpSearch(options), options, name="books", sleep=lambda _: None))
        return made[-1]

    yield open_mcp
    close_sources(made)


def texts(hits: Hits) -> list[str]:
    assert hits.error is None
    return [passage.text for passage in hits.passages]


def test_a_tool_on_standard_input_and_output_is_a_source(opened: Opened, starts: Path) -> None:
    source = opened(**STDIO)

    found = source.search([f"bees {n}" for n in range(6)], 2)
    again = source.search(["bees 0", "broken"], 2)
    source.aclose()

    assert [texts(hits) for hits in found] == [[f"on bees {n}, key True"] * 2 for n in range(6)]
    passage = found[0].passages[1]
    assert (passage.title, passage.url, passage.key) == ("Book 1", "https://a.example/1", "https://a.example/1")
    assert again == [found[0], Hits(error="the tool 'find' reports an error")]
    (process,) = map(int, starts.read_text().split())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"tool": "find_text", "results": "", "fields": {"contents": "text"}}, "Book 1: on bees"),
        ({"tool": "find_json", "results": "hits", "fields": {"text": "body"}}, "on bees"),
    ],
)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_text_and_json_in_text_are_read(
    transport: str, settings: dict[str, Any], text: str, opened: Opened, address: str
) -> None:
    door = STDIO if transport == "stdio" else {"url": address}
    (hits,) = opened(**door, **settings, arguments={"query": "{query}"}).search(["bees"], 3)

    assert texts(hits) == [text]


@pytest.mark.slow
def test_a_tool_over_http_is_a_source(opened: Opened, address: str) -> None:
    source = opened(url=address, headers={"Authorization": "Bearer ${LIBRARY_KEY}"})

    found = source.search([*(f"bees {n}" for n in range(20)), "broken"], 1)

    assert [texts(hits) for hits in found[:20]] == [[f"on bees {n}, key True"] for n in range(20)]
    assert found[20].error == "the tool 'find' reports an error"
    assert KEY not in source.description


@pytest.mark.slow
def test_a_server_that_dies_is_started_again(opened: Opened, starts: Path) -> None:
    found = opened(**STDIO).search(["good", "die", "good too"], 1)

    assert (found[0].error, found[2].error) == (None, None)
    assert found[1].error == "the MCP server does not answer after 5 attempts"
    assert len(starts.read_text().split()) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_bad_answer_fails_its_query_alone(transport: str, opened: Opened, address: str) -> None:
    door = STDIO if transport == "stdio" else {"url": address}
    source = opened(**door, timeout=6)
    source.search(["started"], 1)

    huge, hung, good = (source.search([query], 1)[0] for query in ("huge", "hang", "good"))

    assert huge.error == "the reply exceeds 5,000,000 bytes"
    assert hung.error == "the MCP server does not answer within 6 s"
    assert texts(good) == ["on good, key True"]
    (unknown,) = opened(**door, tool="no_such").search(["a"], 1)
    assert unknown.error in ("the server refuses the call of tool 'no_such'", "the tool 'no_such' reports an error")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((401, {}, KEY.encode()), "HTTP 401, LIBRARY_KEY was rejected"),
        ((402, {}, b""), "HTTP 402, no credits are left"),
        ((429, {"Retry-After": "3600"}, b""), "HTTP 429, and the server asks to wait 3600 s"),
        ((503, {}, KEY.encode()), "HTTP 503 after 5 attempts"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "HTTP 302"),
        ((200, {"Content-Type": "application/json"}, b"<html>"), "the MCP server does not answer after 5 attempts"),
        ((200, {"Content-Type": "text/html"}, KEY.encode()), "the MCP server does not answer after 5 attempts"),
    ],
)
def test_faults_over_http_are_told_without_the_key(
    reply: tuple[int, dict[str, str], bytes], reason: str, opened: Opened
) -> None:
    with SearchServer(lambda seen, before: reply).running() as server:
        (hits,) = opened(url=f"{server.url}/mcp", headers={"X-Key": "${LIBRARY_KEY}"}).search(["a"], 1)

    assert hits.error == reason
    assert server.requests[0].headers["x-key"] == KEY


def test_an_endless_reply_over_http_is_not_read_to_its_end(opened: Opened) -> None:
    with raw_server(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", bytes(1 << 16)) as url:
        (hits,) = opened(url=url).search(["a"], 1)

    assert hits.error == "the reply exceeds 5,000,000 bytes"


def test_no_server_is_told(opened: Opened) -> None:
    (gone,) = opened(url="http://127.0.0.1:1/mcp").search(["a"], 1)
    (missing,) = opened(run=["no-such-program"]).search(["a"], 1)

    assert gone.error == "the MCP server does not answer after 5 attempts"
    assert missing.error == "the MCP server cannot be started: No such file or directory"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "expected either run or url"),
        ({"run": ["a"], "url": "http://h.example/mcp"}, "expected either run or url"),
        ({"run": ["a"], "arguments": {"q": "x"}}, r"expected \{query\} in arguments"),
        ({"run": ["a"], "fields": {"title": "t"}}, "expected the path of text, or of contents"),
        ({"run": ["a"], "env": ["KEY=value"]}, r"env\.0: "),
    ],
)
def test_a_wrong_setting_is_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        spec_from_yaml({"mcp": {**FIND, **settings}}, file="f")


def test_a_missing_key_is_refused_when_the_source_is_opened(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIBRARY_KEY")

    with pytest.raises(UserError, match="needs a key; set LIBRARY_KEY"):
        opened(**STDIO)
