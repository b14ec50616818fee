"""A model endpoint on loopback whose replies follow from the whole request, so that equal answers need equal calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def reply(body: dict[str, Any]) -> str:
    """What the model says."""
    asked = json.dumps([body["messages"], body.get("seed"), body.get("temperature"), body.get("max_tokens")])
    number = int(sha256(asked.encode()).hexdigest(), 16)
    prompt = body["messages"][-1]["content"]
    if "Selected:" in prompt[-300:]:
        return "Both help. Selected: [0] [1]"
    if "Verdict: SAME" in prompt:
        return f"I have compared them. Verdict: [{'SAME' if number % 2 else 'DIFFERENT'}]"
    return f"I remember a survey. The answer is [Lake {number % 1000}]."


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Complete a chat, whole or as a stream."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "response_format" in body:
            # Else the calls under way when this is noticed would differ from run to run.
            self._send(400, "application/json", json.dumps({"error": {"message": "response_format is not supported"}}))
            return
        self.server.calls.append(json.dumps(body))  # type: ignore[attr-defined]
        text, usage = reply(body), {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        head = {"id": "c", "created": 0, "model": "m"}
        if body.get("stream"):
            kind, chunk = "text/event-stream", {"object": "chat.completion.chunk", **head}
            events = [{**chunk, "choices": [{"index": 0, "delta": {"content": f"{word} "}}]} for word in text.split()]
            events.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            events.append({**chunk, "choices": [], "usage": usage})
            content = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        else:
            message = {"role": "assistant", "content": text}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            kind = "application/json"
            content = json.dumps({"object": "chat.completion", **head, "choices": choices, "usage": usage})
        self._send(200, kind, content)

    def _send(self, status: int, kind: str, content: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content.encode())))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Endpoint(ThreadingHTTPServer):
    """The server; ``calls`` holds the bodies of all requests."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: list[str] = []

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """An endpoint for the length of the block."""
    with Endpoint() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
