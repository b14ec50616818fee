"""A stand-in for OpenAI's files and batches, next to its chat completions, on the loopback."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.loopback import QuietHandler, serving
from tests.support.openai_server import chat

Answers = Callable[[int, list[dict[str, Any]]], list[dict[str, Any]]]
"""The answer lines of the n-th batch, from 1, to its request lines."""


def said(body: dict[str, Any]) -> str:
    """The reply of the model to a request: it depends on the request alone."""
    return f"The answer is {len(body['messages'][-1]['content'])}."


def answer(line: dict[str, Any], *, status: int = 200) -> dict[str, Any]:
    """The answer to one line, or its refusal."""
    body = chat(said(line["body"]))[2] if status == 200 else {"error": {"message": "refused", "code": status}}
    return {"id": "r", "custom_id": line["custom_id"], "response": {"status_code": status, "body": body}, "error": None}


def all_answers(_: int, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All, in reversed order."""
    return [answer(line) for line in reversed(lines)]


@dataclass(kw_only=True)
class BatchServer:
    """What was asked of it."""

    url: str = ""
    batches: list[list[dict[str, Any]]] = field(default_factory=list)
    """The request lines of each batch."""
    alone: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of ordinary calls."""
    polls: list[str] = field(default_factory=list)
    status: Callable[[int, int], str] = lambda batch, look: "completed" if look > 1 else "in_progress"
    """Of the n-th batch at the k-th look at it, both from 1."""
    metadata: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def batch_server(answers: Answers = all_answers, **fields: Any) -> Iterator[BatchServer]:
    """Serve for the length of the block."""
    server, lock = BatchServer(**fields), threading.Lock()
    files: dict[str, bytes] = {}

    def described(n: int) -> dict[str, Any]:
        status = server.status(n, server.polls.count(f"batch-{n}"))
        over = status in ("completed", "expired")
        counts = {"total": len(server.batches[n - 1]), "completed": 0, "failed": 0}
        return {"id": f"batch-{n}", "object": "batch", "status": status, "endpoint": "/v1/chat/completions",
                "input_file_id": f"file-{n}", "completion_window": "24h", "created_at": 0, "request_counts": counts,
                "output_file_id": f"out-{n}" if over else None, "metadata": server.metadata[n - 1]}  # fmt: skip

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            raw = self.content()
            with lock:
                if self.path == "/v1/files":
                    part = next(each for each in raw.split(b"\r\n--") if b"filename=" in each)
                    files[f"file-{len(files) + 1}"] = part.partition(b"\r\n\r\n")[2]
                    self.reply({"id": f"file-{len(files)}", "object": "file", "bytes": 1, "created_at": 0,
                                "filename": "f", "purpose": "batch", "status": "processed"})  # fmt: skip
                elif self.path == "/v1/batches":
                    asked = json.loads(raw)
                    lines = [json.loads(line) for line in files[asked["input_file_id"]].splitlines() if line]
                    server.batches.append(lines)
                    server.metadata.append(asked["metadata"])
                    self.reply(described(len(server.batches)))
                else:
                    body = json.loads(raw)
                    server.alone.append(body)
                    self.reply(chat(said(body))[2])

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            with lock:
                if path == "/v1/batches":
                    data = [described(n) for n in range(1, len(server.batches) + 1)]
                    self.reply({"object": "list", "data": data, "has_more": False})
                elif path.startswith("/v1/batches/"):
                    name = path.rpartition("/")[2]
                    server.polls.append(name)
                    self.reply(described(int(name.partition("-")[2])))
                elif not path.startswith("/v1/files/"):
                    self.reply({})  # a look whether the server is there
                else:
                    n = int(path.split("/")[-2].partition("-")[2])
                    rows = answers(n, server.batches[n - 1])
                    self.answer(200, {}, "\n".join(map(json.dumps, rows)).encode())

        def reply(self, body: Any) -> None:
            self.answer(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    with serving(Handler) as address:
        server.url = f"{address}/v1"
        yield server
