"""An OpenAI-compatible server on the loopback, with a script for its replies."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.loopback import QuietHandler, serving

Reply = tuple[int, Mapping[str, str], Any]
"""Status, extra headers, body: bytes, text, pieces of bytes (written one by one), or anything that is JSON."""


@dataclass(frozen=True)
class LastWords:
    """A reply that is written as it is, without any HTTP around it, before the connection is closed in good order."""

    text: bytes = b""


USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    port: int
    """The client's; the same for all requests of a connection."""
    body: dict[str, Any]


def without_streaming(body: Mapping[str, Any]) -> str:
    """A request's body as JSON, without its wish for a stream: each client has it until it knows the server."""
    return json.dumps({name: value for name, value in body.items() if not name.startswith("stream")})


@dataclass(kw_only=True)
class OpenAIServer:
    """A running server. ``reply(body, n)`` answers the n-th request, from 1; raising resets the connection."""

    url: str
    requests: list[Seen] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set at the end, so that a reply which waits for it hangs exactly as long as the test."""


def chat(text: Any = "Hello.", *, finish_reason: str = "stop", usage: Any = USAGE, **message: Any) -> Reply:
    """A good reply with this text (a server may send anything there); further fields go into its message."""
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text, **message}}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    return 200, {}, body


def error(status: int, message: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
    """An error as OpenAI words it."""
    return status, headers or {}, {"error": {"message": message, "type": "t", "param": None, "code": None, **fields}}


@contextmanager
def openai_server(
    reply: Callable[[dict[str, Any], int], Reply | LastWords] | Reply, *, certificate: Path | None = None
) -> Iterator[OpenAIServer]:
    """Serve for the length of the block, on a free port.

    Args:
        reply: What answers each request, in a thread of its own; or the one answer to all.
        certificate: A file with a certificate and its key, for HTTPS.
    """
    lock = threading.Lock()

    class Handler(QuietHandler):
        wbufsize = 1 << 16  # head and body in one packet

        def do_POST(self) -> None:
            body = json.loads(self.content())
            headers = {name.lower(): value for name, value in self.headers.items()}
            with lock:
                server.requests.append(Seen(path=self.path, headers=headers, port=self.client_address[1], body=body))
                n = len(server.requests)
            try:
                said = reply(body, n) if callable(reply) else reply
            except Exception:
                self.reset()
                return
            if isinstance(said, LastWords):
                self.wfile.write(said.text)
                self.close_connection = True
            else:
                self.send(*said)

        def send(self, status: int, headers: Mapping[str, str], content: Any) -> None:
            if isinstance(content, bytes | str):
                pieces = [content.encode() if isinstance(content, str) else content]
            elif isinstance(content, dict | list) or content is None:
                pieces = [json.dumps(content).encode()]
            else:
                pieces = content
            given = {name.lower() for name in headers}
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "content-type" not in given:
                self.send_header("Content-Type", "application/json")
            if isinstance(pieces, list) and "content-length" not in given:
                self.send_header("Content-Length", str(sum(map(len, pieces))))
            else:
                self.send_header("Connection", "close")
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:  # the client went away
                self.close_connection = True

        def reset(self) -> None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True

        def finish(self) -> None:
            try:
                super().finish()
            except OSError:
                self.rfile.close()

    with serving(Handler, certificate=certificate) as address:
        server = OpenAIServer(url=f"{address}/v1")
        try:
            yield server
        finally:
            server.stopping.set()
