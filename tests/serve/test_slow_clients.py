"""Clients that send or read slowly, and the end of a server that has such clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from madke.serve import server as server_module
from tests.serve.serving import Serving, Upstream, endpoint, post, serving, wait_for
from tests.serve.test_mcp import HEADERS as MCP_HEADERS

LIMIT = 0.6
BODY = {"model": "madke", "messages": [{"role": "user", "content": "Who wrote book 1?"}]}
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
LONG = b"content-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: 1000\r\n\r\n"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SLOW_SECONDS", LIMIT)


def dripped(connection: socket.socket, content: bytes) -> tuple[float, bytes]:
    """Send a byte at a time for as long as the server takes them: for how many seconds, and what it answered."""
    began, answer = time.monotonic(), b""
    connection.settimeout(0.02)
    for byte in content:
        try:
            connection.send(bytes([byte]))
            part = connection.recv(65536)
            answer += part
            if not part:
                break
        except TimeoutError:
            continue
        except OSError:
            break
    connection.close()
    return time.monotonic() - began, answer


def first_answer(connection: socket.socket) -> None:
    """Read the answer to :data:`HEALTH`."""
    content = b""
    while b"waiting" not in content:
        part = connection.recv(65536)
        assert part
        content += part


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("begun", "status"),
    [
        (b"", b""),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: ", b""),
        (b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n" + LONG, b" 408 "),
        (b"POST /page/debates HTTP/1.1\r\nhost: localhost\r\n" + LONG, b" 408 "),
        (b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n" + LONG, b" 408 "),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n", b" 200 "),
        (b"POST /nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n", b" 404 "),
        (b"POST /v1/models HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 1000\r\n\r\n", b" 403 "),
    ],
)
def test_the_whole_request_has_a_deadline_on_every_path(
    begun: bytes, status: bytes, kept: bool, upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, upstream) as server:
        connection = server.raw(HEALTH if kept else b"")
        if kept:
            first_answer(connection)
        connection.sendall(begun)
        seconds, answer = dripped(connection, b"x" * 500)
        assert LIMIT * 0.5 < seconds < LIMIT + 2, "each byte comes in time, the request does not"
        assert status in answer
        wait_for(lambda: not server.server.server_state.connections and not server.server.server_state.tasks)
        assert server.debates.turns == 0
    assert upstream.calls == []
    assert not [each for each in caplog.records if each.exc_info and not each.name.startswith("mcp.")]


def test_a_client_that_keeps_its_connection_has_the_time_anew_for_each_request(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 2.0
    monkeypatch.setattr(server_module, "SLOW_SECONDS", limit)
    with serving(tmp_path, upstream) as server, server.raw(b"") as connection:
        early = b"GET /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n"  # answered before its body
        for _ in range(3):
            connection.sendall(early)
            first_answer(connection)
            time.sleep(limit / 4)
            connection.sendall(b"xx")
            connection.sendall(HEALTH * 2)  # one after the other
            first_answer(connection)
            time.sleep(limit / 4)
        assert len(server.server.server_state.connections) == 1


@pytest.mark.usefixtures("hasty")
def test_a_debate_may_take_longer_than_its_request(tmp_path: Path) -> None:
    with endpoint(seconds=LIMIT) as upstream, serving(tmp_path, upstream) as server:
        assert server.client().chat.completions.create(**BODY).choices[0].message.content == "Author 1"


def unread(server: Serving, request: bytes) -> socket.socket:
    """A client that sends a request and reads nothing of a response that is larger than all buffers."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    connection.connect(("127.0.0.1", server.port))
    connections: Any = server.server.server_state.connections
    wait_for(lambda: any(each.client == connection.getsockname() for each in connections))
    (accepted,) = (each for each in connections if each.client == connection.getsockname())
    accepted.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
    connection.sendall(request)
    return connection


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("size", [1_000_000, 30_000])
def test_a_client_that_does_not_read_is_dropped(size: int, upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        connection = unread(server, post({**BODY, "model": "unknown" + "x" * size}))  # the error repeats it
        wait_for(lambda: not server.server.server_state.connections, seconds=LIMIT + 3)
        connection.close()


def half_head(server: Serving) -> socket.socket:
    return server.raw(b"POST /v1/chat")


def half_body(server: Serving) -> socket.socket:
    return server.raw(post(BODY)[:-5])


def silent(server: Serving) -> socket.socket:
    return server.raw(b"")


def idle(server: Serving) -> socket.socket:
    connection = server.raw(HEALTH)
    first_answer(connection)
    return connection


def deaf(server: Serving) -> socket.socket:
    return unread(server, post({**BODY, "model": "unknown" + "x" * 300_000}))


def standing(server: Serving) -> socket.socket:
    """The stream that an MCP client keeps open."""
    era = "2025-06-18"
    hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    session = httpx2.post(f"{server.url}/mcp", json=body, headers=MCP_HEADERS).headers["mcp-session-id"]
    headers = {**MCP_HEADERS, "mcp-session-id": session, "mcp-protocol-version": era}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection = server.raw(f"GET /mcp HTTP/1.1\r\n{head}\r\n".encode())
    assert b" 200 " in connection.recv(65536)
    return connection


@pytest.mark.parametrize("client", [half_head, half_body, silent, idle, standing])
def test_a_server_without_debates_ends_at_once(
    client: Callable[[Serving], socket.socket], upstream: Upstream, tmp_path: Path
) -> None:
    with ExitStack() as held, serving(tmp_path, upstream, grace=20) as server:
        for _ in range(3):
            held.enter_context(client(server))
        wait_for(lambda: len(server.server.server_state.connections) >= 3)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 5


def test_a_server_ends_within_the_grace_whatever_its_clients_do(tmp_path: Path) -> None:
    clients = (half_head, half_body, silent, idle, deaf, standing)
    with endpoint() as upstream, ExitStack() as held, serving(tmp_path, upstream, grace=1) as server:
        for client in clients:
            held.enter_context(client(server))
        stopped = threading.Event()
        talker = held.enter_context(server.raw(b""))

        def talk() -> None:
            while not stopped.is_set():  # asks as long as somebody answers
                try:
                    talker.sendall(HEALTH)
                    if not talker.recv(65536):
                        return
                except OSError:
                    return

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 1 + 4
        stopped.set()
        thread.join(10)


def test_replies_on_a_kept_connection_do_not_wait(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server, server.raw(HEALTH) as connection:
        first_answer(connection)
        (accepted,) = server.server.server_state.connections
        kept = accepted.transport.get_extra_info("socket")
        assert kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
