"""A client at a scripted server, and what servers send."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from madke.core.chat import Completion, Usage
from madke.core.errors import CallError
from madke.models.openai_client import OpenAIChat
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import OpenAIServer, Reply, openai_server


@dataclass(frozen=True)
class Exchange:
    """The requests that a server saw, and what the client made of its replies."""

    client: OpenAIChat
    server: OpenAIServer
    said: list[Completion]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [seen.body for seen in self.server.requests]


def exchange(reply: Any, *requests: Any, path: str = "/v1", **options: Any) -> Exchange:
    """Make the requests, or a plain one, one after the other by a new client; ``reply`` as for ``openai_server``."""
    with openai_server(reply) as server:
        client = OpenAIChat("m", base_url=server.url.removesuffix("/v1") + path, **options)
        return Exchange(client, server, said_by(client, *(requests or [chat_request()])))


def ask(reply: Any, *request: Any, **options: Any) -> Completion:
    """The completion of one request."""
    return exchange(reply, *request, **options).said[0]


def failure(reply: Any, *request: Any, **options: Any) -> CallError:
    """The error of one failed request."""
    with pytest.raises(CallError) as caught:
        ask(reply, *request, **options)
    return caught.value


def vllm(message: str) -> dict[str, Any]:
    """The body of an error, as vLLM sends it."""
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


CHUNKS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "It is deep."}}]},
    {"choices": [{"index": 0, "delta": {"content": "Lake "}}]},
    {"choices": [{"index": 0, "delta": {"content": "Baïkal"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}},
]
"""A streamed reply."""
WHOLE = ("Lake Baïkal", "It is deep.", "stop", Usage(prompt_tokens=20, completion_tokens=5))
"""The :func:`parts` of its completion."""


def parts(completion: Completion) -> tuple[str, str, str, Usage]:
    return completion.text, completion.reasoning, completion.finish_reason, completion.usage


def events(chunks: Sequence[Any]) -> Reply:
    """A stream of server-sent events."""
    text = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
    return 200, {"Content-Type": "text/event-stream"}, f": keep-alive\n\n{text}data: [DONE]\n\n"
