"""Clients that send or read slowly; and the end of a server, whatever its clients, its endpoint and its sources do."""

import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from madke.core.knowledge import Hits
from madke.serve import server as server_module
from tests.serve.serving import Serving, Shelf, Upstream, body_of, endpoint, post, process, serving, wait_for

LIMIT = 0.6
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
SCRIPT = b"GET /assets/page.js HTTP/1.1\r\nhost: localhost\r\n\r\n"
LONG = b"content-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: 1000\r\n\r\n"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SLOW_SECONDS", LIMIT)


def dripped(connection: socket.socket) -> float:
    """Send a byte at a time for as long as the server takes them: for how many seconds."""
    began = time.monotonic()
    connection.settimeout(0.02)
    for _ in range(500):
        try:
            connection.send(b"x")
            if not connection.recv(65536):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    connection.close()
    return time.monotonic() - began


def idle(server: Serving) -> socket.socket:
    """A kept connection whose first request has been answered."""
    connection = server.raw(HEALTH)
    content = b""
    while b"waiting" not in content:
        part = connection.recv(65536)
        assert part
        content += part
    return connection


BEGUN = (
    b"",
    b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: ",
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n" + LONG,
    b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n" + LONG,
    b"GET /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n",
    b"POST /v1/models HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 1000\r\n\r\n",
)
"""Requests that lack something: of the head, of a body that is awaited, or of one that nobody awaits."""


@pytest.mark.usefixtures("hasty")
def test_the_whole_request_has_a_deadline_on_every_path(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:

        def borne(is_kept: bool, begun: bytes) -> float:
            connection = idle(server) if is_kept else server.raw(b"")
            connection.sendall(begun)
            return dripped(connection)

        clients = [*product((False, True), BEGUN)]
        with ThreadPoolExecutor(len(clients)) as pool:
            seconds = [*pool.map(lambda client: borne(*client), clients)]
        assert all(LIMIT * 0.5 < each < LIMIT + 3 for each in seconds), "each byte comes in time, the request does not"
        wait_for(lambda: not server.server.server_state.connections and not server.server.server_state.tasks)
        assert server.is_idle
    assert upstream.calls == []


@pytest.mark.usefixtures("hasty")
def test_a_debate_may_take_longer_than_its_request_on_a_kept_connection(tmp_path: Path) -> None:
    with endpoint(seconds=LIMIT / 2) as upstream, serving(tmp_path, upstream) as server:
        client = server.client()
        for number in (1, 2):
            done = client.chat.completions.create(**body_of(f"Who wrote book {number}?"))
            assert done.choices[0].message.content == f"Author {number}"


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
def test_a_client_that_does_not_read_is_dropped(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server, unread(server, SCRIPT), unread(server, SCRIPT * 20):
        wait_for(lambda: not server.server.server_state.connections, seconds=LIMIT + 5)


class Hanging(Shelf):
    """A source whose search never returns."""

    def search(self, queries: list[str], k: int) -> list[Hits]:
        print("searching", file=sys.stderr, flush=True)
        threading.Event().wait()
        raise AssertionError


@pytest.mark.slow
def test_a_signal_ends_the_process_within_the_grace_under_any_load(upstream: Upstream, tmp_path: Path) -> None:
    """Calls that hang, a source that hangs in a thread, half requests, large bodies that keep the event loop busy."""
    hanging = ("--sources", "hanging=tests.serve.test_slow_clients:Hanging", "--protocols", "madke,cot")
    large = [{"role": "user", "content": "x" * 100}]
    requests = [
        post(body_of("Who?", stream=True)),
        post({"protocol": "cot", "question": "?", "sources": []}, "/page/debates"),
        *(b"", b"POST /v1/chat", post(body_of("Who?"))[:-5], HEALTH, SCRIPT * 20),
        *(post({"model": "madke", "messages": large * count}) for count in [1_800, 20_000] * 6),
    ]
    with (
        ExitStack() as held,
        upstream.holding("debater"),
        process(tmp_path, upstream.server.url, *hanging, "--grace", "3") as (running, client),
    ):
        for request in requests:
            address = (client.base_url.host, client.base_url.port)
            held.enter_context(socket.create_connection(address, timeout=60)).sendall(request)
        while "searching" not in running.stderr.readline():
            pass
        wait_for(lambda: upstream.began)
        running.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert running.wait(60) == 0
        assert time.monotonic() - began < 3 + 10, "no watchdog had to kill it"
        assert "Traceback" not in running.stderr.read()
