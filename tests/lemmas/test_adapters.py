"""Clients as completion functions: what they send, what they return, and that ``lemmas`` does the same."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from madke import adapters
from madke.adapters import Reply
from madke.core.chat import Usage
from tests.support.openai_server import OpenAIServer, chat, error, openai_server

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How deep is Lake Baikal?"}]
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 5,
    "total_tokens": 25,
    "prompt_tokens_details": {"cached_tokens": 16},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def openai_client(server: OpenAIServer) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=server.url, api_key="k", max_retries=0)


def asked_of_openai(make: Callable[..., Any], reply: Any, **settings: Any) -> tuple[Reply, dict[str, Any]]:
    """What the adapter returned for one call, and the body that went over the wire."""
    with openai_server(reply) as server, openai_client(server) as client:
        said = make(client, **settings)(MESSAGES)
    (request,) = server.requests
    return said, request.body


class AnthropicDouble:
    """What the adapter uses of an Anthropic client."""

    def __init__(self, *blocks: Any, usage: Any = None) -> None:
        self.messages = self
        self.asked: list[Any] = []
        self._response = SimpleNamespace(content=list(blocks), **({"usage": usage} if usage else {}))

    def create(self, **parameters: Any) -> Any:
        self.asked.append(parameters)
        return self._response


def text(said: str) -> Any:
    return SimpleNamespace(type="text", text=said)


def test_openai_is_asked_with_the_defaults_and_its_words_are_stripped() -> None:
    said, body = asked_of_openai(adapters.openai_complete, chat("  1,642 metres.\n", usage=USAGE))
    assert said == "1,642 metres."
    assert body == {"model": "gpt-4o-mini", "messages": MESSAGES, "temperature": 0.7, "max_tokens": 1024}
    assert said.usage == Usage(prompt_tokens=20, cached_tokens=16, completion_tokens=5, reasoning_tokens=2)


def test_an_asynchronous_openai_client_makes_an_asynchronous_function() -> None:
    from openai import AsyncOpenAI

    async def ask(url: str) -> Reply:
        async with AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
            return await adapters.openai_complete(client)(MESSAGES)

    with openai_server(chat(" Deep. ", usage=USAGE)) as server:
        said = asyncio.run(ask(server.url))
    assert (said, said.usage.prompt_tokens) == ("Deep.", 20)


def test_anthropic_gets_system_text_apart_and_its_prompt_tokens_include_what_its_cache_held() -> None:
    usage = SimpleNamespace(
        input_tokens=10, output_tokens=3, cache_read_input_tokens=80, cache_creation_input_tokens=None
    )
    blocks = (text(" 1,642 "), SimpleNamespace(type="thinking", thinking="hm"), text("metres. "))
    client = AnthropicDouble(*blocks, usage=usage)
    said = adapters.anthropic_complete(client, model="c", max_tokens=7)(MESSAGES)
    assert said == "1,642 metres."
    assert said.usage == Usage(prompt_tokens=90, cached_tokens=80, completion_tokens=3)
    assert client.asked == [
        {
            "model": "c",
            "messages": [{"role": "user", "content": "How deep is Lake Baikal?"}],
            "temperature": 0.7,
            "max_tokens": 7,
            "system": "Be brief.",
        }
    ]


def test_an_asynchronous_anthropic_client_makes_an_asynchronous_function() -> None:
    class Asynchronous(AnthropicDouble):
        async def create(self, **parameters: Any) -> Any:
            return super().create(**parameters)

    said = asyncio.run(adapters.anthropic_complete(Asynchronous(text("Yes. ")))(MESSAGES))
    assert (said, said.usage) == ("Yes.", None)


@pytest.mark.parametrize("reply", [chat(" Deep. "), chat(None), chat("x", usage=None), error(429, "slow down")])
def test_openai_parity(reply: Any) -> None:
    theirs = pytest.importorskip("lemmas.adapters")

    def outcome(make: Callable[..., Any]) -> tuple[str | type[Any] | Reply, list[dict[str, Any]]]:
        with openai_server(reply) as server, openai_client(server) as client:
            try:
                said = make(client, seed=3)(MESSAGES)
            except Exception as raised:
                said = type(raised)
        return said, [request.body for request in server.requests]

    assert outcome(adapters.openai_complete) == outcome(theirs.openai_complete)


@pytest.mark.parametrize(
    "messages",
    [
        MESSAGES,
        MESSAGES[1:],
        [{"content": "no role"}, {"role": "assistant"}],
        [{"role": "system", "content": "one "}, {"role": "system", "content": None}, *MESSAGES],
    ],
)
def test_anthropic_parity(messages: list[Any]) -> None:
    theirs = pytest.importorskip("lemmas.adapters")

    def outcome(make: Callable[..., Any]) -> tuple[str | Reply, list[dict[str, Any]]]:
        client = AnthropicDouble(text(" a"), SimpleNamespace(type="tool_use"), text("b "))
        return make(client)(messages), client.asked

    assert outcome(adapters.anthropic_complete) == outcome(theirs.anthropic_complete)
