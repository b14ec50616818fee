"""Model servers on this machine, on ports that the test chooses."""

from __future__ import annotations

import json
import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.models.local_servers import find_servers


@contextmanager
def listening(answer: Callable[[socket.socket, bytes], None]) -> Iterator[tuple[int, list[bytes]]]:
    """A port of 127.0.0.1 whose connections ``answer`` gets, with the head of their request."""
    heads: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    heads.append(connection.recv(1 << 16))
                    with suppress(OSError):
                        answer(connection, heads[-1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], heads
        finally:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()


@dataclass
class Flood:
    """Answers ``head`` and then 64 MB of spaces, as long as they are read."""

    head: bytes
    sent: int = 0

    def __call__(self, connection: socket.socket, _: bytes) -> None:
        connection.sendall(self.head)
        while self.sent < 64 << 20:
            self.sent += connection.send(b" " * 65536)


def says(status: str, body: Any, *headers: str) -> Callable[[socket.socket, bytes], None]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *headers, "", ""])
    return lambda connection, _: connection.sendall(head.encode() + content)


def models(*names: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}


def found(answer: Callable[[socket.socket, bytes], None]) -> Any:
    with listening(answer) as (port, _):
        servers = find_servers({port: "Ollama"})
    return servers[0] if servers else None


def test_a_server_is_found_with_the_command_that_asks_it() -> None:
    with listening(says("200 OK", models("nomic-embed-text:latest", "qwen2.5:7b", "llama3.2"))) as (port, heads):
        (server,) = find_servers({port: "Ollama"})

    assert (server.port, server.program, server.needs_key) == (port, "Ollama", False)
    # What does not look like a chat model comes last.
    assert server.models == ("qwen2.5:7b", "llama3.2", "nomic-embed-text:latest")
    assert server.command == f'madke ask "..." --model openai/qwen2.5:7b --base-url http://127.0.0.1:{port}/v1'
    assert heads[0].startswith(b"GET /v1/models HTTP/1.1\r\n")


def test_no_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-2718281828")

    with listening(says("200 OK", models("m"))) as (port, heads):
        find_servers({port: "vLLM"})

    assert b"canary" not in heads[0]
    assert b"authorization" not in heads[0].lower()


@pytest.mark.parametrize(
    "name",
    [
        "$(reboot)", "a b", "a;b", "`id`", "x\x1b[31m", "a\nb", "\u202egguf", "m" * 201, "", None, 7,
        "x@http://evil.example/v1", "x@https://evil.example",
    ],
)  # fmt: skip
def test_a_name_that_a_command_line_could_read_as_something_else_is_left_out(name: Any) -> None:
    server = found(says("200 OK", models(name, "good")))

    assert server.models == ("good",)
    assert shlex.split(server.command)[4] == "openai/good"


@pytest.mark.parametrize(
    "answer",
    [
        says("302 Found", b"", "Location: http://127.0.0.1:9/v1/models"),
        says("404 Not Found", b"<html>"),
        says("200 OK", b"<html>"),
        says("200 OK", [1]),
        says("200 OK", {"data": {"id": "m"}}),
        says("200 OK", b"[" * 100_000),
        says("401 Unauthorized", b"<html>"),
        says("401 Unauthorized", 7),
        lambda connection, _: connection.sendall(b"\x00\xff" * 9),
        lambda connection, _: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1%s\r\n\r\n{}" % (b"0" * 30)),
        lambda connection, _: None,
    ],
)
def test_other_servers_are_none_of_a_model(answer: Any) -> None:
    assert found(answer) is None


def test_a_reply_is_bounded() -> None:
    flood = Flood(b'HTTP/1.1 200 OK\r\n\r\n{"data": [')
    assert found(flood) is None
    assert flood.sent < 16 << 20


@pytest.mark.parametrize("ports", ["x", "0", "65536", "-1", "1.5", "\u0661"])
def test_other_ports_are_refused(ports: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADKE_LOCAL_PORTS", ports)

    with pytest.raises(UserError, match="MADKE_LOCAL_PORTS"):
        find_servers()
