"""Replies made to break their reader: each is a failed call with a reason, or is read without what cannot be true."""

import asyncio
from typing import Any

import pytest

from madke.core.addresses import retry_after
from madke.core.chat import Usage
from madke.core.errors import CallError, UserError
from madke.models.chat_models import close
from madke.models.openai_client import AzureChat, OpenAIChat
from madke.models.transport import Transport
from tests.support.chat_requests import chat_request
from tests.support.openai_server import chat, openai_server

both = pytest.mark.parametrize("wire", ["aiohttp", "httpx"])

DEEP = "[" * 100_000
LONG_NUMBER = '{"choices": ' + "9" * 5_000 + "}"


def ask(url: Any, wire: Transport = "aiohttp", *, timeout: float = 5.0) -> Any:
    """The completion of one request; connections are closed."""

    async def once() -> Any:
        model = OpenAIChat("m", base_url=url, transport=wire, timeout=timeout)
        try:
            return await model.complete(chat_request())
        finally:
            await close(model)

    return asyncio.run(once())


def failure(reply: Any, wire: Transport = "aiohttp") -> Any:
    with openai_server(reply) as server, pytest.raises(CallError) as caught:
        ask(server.url, wire)
    return caught.value


@pytest.mark.parametrize(
    "value",
    [
        "Fri, 31 Dec 9999999999 23:59:59 GMT",
        "Fri, 31 Dec 99999999999999999999 23:59:59 GMT",
        "Fri, 31 Dec 1999 99999999999999999999:59:59 GMT",
        "Fri, 31 Dec 1999 23:59:59 +99999999999999999999",
        "9" * 400,
        "9" * 5_000,
        "²",
        "soon",
        "",
    ],
)
def test_a_retry_after_that_makes_no_sense_is_no_header(value: str) -> None:
    assert retry_after({"retry-after": value}) is None


@both
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
@pytest.mark.parametrize("body", [DEEP, LONG_NUMBER, b'{"choices": \xff}'], ids=["deep", "long-number", "bytes"])
def test_a_body_that_json_cannot_be_read_from_is_a_retryable_failure(wire: Any, content_type: str, body: Any) -> None:
    failed = failure((200, {"Content-Type": content_type}, body), wire)
    assert failed.retryable
    assert "not JSON" in failed.reason
    assert len(failed.reason) < 400


@pytest.mark.parametrize("count", [-1, True, 10**9 + 1, 10**30, 2.5, "7"])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_counts_that_cannot_be_true_give_way_to_our_estimate(name: str, count: Any) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, name: count}
    with openai_server(chat("y" * 8, usage=usage)) as server:
        said = ask(server.url)
    assert said.usage.estimated
    assert said.usage.completion_tokens == 2


@pytest.mark.parametrize(("told", "cached", "reasoning"), [(10**6, 7, 2), (-1, 0, 0), (True, 0, 0), (10**30, 0, 0)])
def test_a_part_is_no_more_than_the_whole(told: Any, cached: int, reasoning: int) -> None:
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": told},
        "completion_tokens_details": {"reasoning_tokens": told},
    }
    with openai_server(chat(usage=usage)) as server:
        said = ask(server.url)
    assert said.usage == Usage(prompt_tokens=7, cached_tokens=cached, completion_tokens=2, reasoning_tokens=reasoning)


def test_the_environment_sets_how_long_an_attempt_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADKE_TIMEOUT", "0.2")

    def hang(body: Any, n: Any) -> Any:
        server.stopping.wait(30)
        return chat()

    with openai_server(hang) as server, pytest.raises(CallError, match="in time"):
        ask(server.url, timeout=None)


@pytest.mark.parametrize("value", ["0", "-5", "five", "inf", "nan"])
@pytest.mark.parametrize("model", [OpenAIChat, AzureChat])
def test_a_timeout_that_is_none_is_bad_input(monkeypatch: pytest.MonkeyPatch, model: Any, value: str) -> None:
    monkeypatch.setenv("MADKE_TIMEOUT", value)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    with pytest.raises(UserError, match=f"MADKE_TIMEOUT is '{value}'"):
        model("m", needs_key=False)
