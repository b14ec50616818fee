from typing import Any

import pytest

from madke.core.addresses import retry_after
from madke.core.chat import Usage
from madke.core.errors import CallError, UserError
from madke.models.endpoint import endpoints_of
from madke.models.openai_client import AzureChat, OpenAIChat
from tests.models.test_replies import ask
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import chat, error, openai_server

CANARY = "canary-7f3a9c"


@pytest.fixture(autouse=True)
def azure_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    monkeypatch.delenv("AZURE_OPENAI_API_VERSION", raising=False)


def test_a_good_reply_carries_text_reasoning_and_the_servers_usage() -> None:
    usage = {
        "prompt_tokens": 1200,
        "completion_tokens": 40,
        "prompt_tokens_details": {"cached_tokens": 1024},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    said = ask(chat("1,642 m", usage=usage, reasoning_content="It is in Siberia."))
    assert (said.text, said.reasoning, said.outcome, said.error) == ("1,642 m", "It is in Siberia.", "ok", None)
    assert said.usage == Usage(prompt_tokens=1200, cached_tokens=1024, completion_tokens=40, reasoning_tokens=30)
    assert said.seconds > 0
    assert said.attempts == 1


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "completion_tokens": 3}, "none"])
def test_missing_usage_is_estimated_from_the_lengths_and_marked(usage: dict[str, Any] | str | None) -> None:
    request = chat_request("x" * 41, system=None)
    said = ask(chat("y" * 8, usage=usage), request)
    assert said.usage == Usage(prompt_tokens=11, completion_tokens=2, estimated=True)


def test_the_request_holds_what_was_asked_and_nothing_that_was_not() -> None:
    with openai_server(chat()) as server:
        said_by(OpenAIChat("m", base_url=server.url), chat_request("Hi"))
        (seen,) = server.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 64,
        "temperature": 0.5,
    }


def test_seed_and_stop_are_sent_where_they_are_set() -> None:
    with openai_server(chat()) as server:
        said_by(OpenAIChat("m", base_url=server.url), chat_request(seed=0, stop=("END",)))
        (seen,) = server.requests
    assert (seen.body["seed"], seen.body["stop"]) == (0, ["END"])


@pytest.mark.parametrize(
    ("reply", "outcome", "text"),
    [
        (chat(None), "empty", ""),
        (chat("  \n"), "empty", ""),
        (chat(None, refusal="I cannot help."), "refused", "I cannot help."),
        (chat("Half of", finish_reason="content_filter"), "filtered", "Half of"),
        (error(400, "The prompt was filtered", code="content_filter"), "filtered", ""),
    ],
)
def test_a_reply_that_is_no_answer_has_its_outcome_and_a_reason(reply: Any, outcome: str, text: str) -> None:
    said = ask(reply)
    assert (said.outcome, said.text) == (outcome, text)
    assert said.error


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"}, None),
        ({"retry-after": "9" * 5_000}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, Any], seconds: float | None) -> None:
    assert retry_after(headers, now=40.0) == seconds


def test_no_key_gets_into_any_reason_or_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    replies = [
        error(401, f"Incorrect API key provided: {CANARY}."),
        error(500, f"while sending Bearer {CANARY}"),
        error(401, "Incorrect API key provided: sk-canar*******9c"),
        (200, {}, f"<html>{CANARY}</html>"),
        error(200, CANARY),
        chat(None, refusal=f"I refuse {CANARY}", finish_reason="stop"),
        error(400, f"filtered {CANARY}", code="content_filter"),
        # However the reason is shortened, no piece of the key is left at its end.
        *(error(500, "x" * length + CANARY) for length in range(280, 292)),
    ]
    for reply in replies:
        try:
            said = ask(reply)
        except CallError as failed:
            told = f"{failed.reason} {failed!r} {failed.__cause__}"
        else:
            told = str(said.error)
        assert "cana" not in told


def test_the_name_has_no_address_and_no_address_has_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAIChat("m", base_url="http://host:1/v1/").name == "openai/m"
    for secret in ("http://me:pw@host:1/v1", "http://host:1/v1?k=pw"):
        with pytest.raises(UserError, match="'http://host:1/v1', must have no user, password or query"):
            OpenAIChat("m", base_url=secret)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://other/v1")
    assert endpoints_of([OpenAIChat("m")]) == {"openai/m": {"address": "http://other/v1", "dialect": {}}}


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1", "http://[1"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="expected a URL"):
        OpenAIChat("m", base_url=url)


def test_openai_without_a_key_is_refused_unless_it_will_not_be_called() -> None:
    with pytest.raises(UserError, match="OPENAI_API_KEY is not set"):
        OpenAIChat("m")
    assert OpenAIChat("m", needs_key=False).name == "openai/m"


def test_azure_is_asked_at_its_deployment_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", CANARY)
    with openai_server(chat("from Azure")) as server:
        endpoint = server.url.removesuffix("/v1")
        monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2025-01-01-preview")
        model = AzureChat("my-gpt", endpoint=endpoint)
        (said,) = said_by(model, chat_request())
        (seen,) = server.requests
    assert said.text == "from Azure"
    assert seen.path == "/openai/deployments/my-gpt/chat/completions?api-version=2025-01-01-preview"
    assert seen.headers["api-key"] == CANARY
    assert "authorization" not in {name.lower() for name in seen.headers}
    assert model.name == "azure/my-gpt"


def test_azure_takes_endpoint_and_version_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", CANARY)
    with openai_server(chat()) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url.removesuffix("/v1"))
        monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2024-06-01")
        said_by(AzureChat("d"), chat_request())
        assert server.requests[0].path.endswith("api-version=2024-06-01")
