import asyncio
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from madke.core.addresses import retry_after
from madke.core.chat import Usage
from madke.core.errors import CallError, UserError
from madke.endpoints.endpoint import endpoints_of
from madke.endpoints.openai_client import AzureChat
from madke.llm import OpenAIChat, Retrying, RetryPolicy, close
from tests.support.chat_requests import chat_request
from tests.support.openai_server import chat, error, openai_server

CANARY = "canary-7f3a9c"


@pytest.fixture(autouse=True)
def azure_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    monkeypatch.delenv("AZURE_OPENAI_API_VERSION", raising=False)


def ask(model: Any, *requests: Any) -> Any:
    """The completions of concurrent requests; connections are closed."""

    async def all_of_them() -> Any:
        try:
            return await asyncio.gather(*(model.complete(request) for request in requests))
        finally:
            await close(model)

    return asyncio.run(all_of_them())


def ask_server(reply: Any, request: Any = None, *, timeout: float = 5.0) -> Any:
    with openai_server(reply) as server:
        return ask(OpenAIChat("m", base_url=server.url, timeout=timeout), request or chat_request())[0]


def failure(reply: Any, *, timeout: float = 5.0) -> Any:
    with pytest.raises(CallError) as caught:
        ask_server(reply, timeout=timeout)
    return caught.value


def test_a_good_reply_carries_text_reasoning_and_the_servers_usage() -> None:
    usage = {
        "prompt_tokens": 1200,
        "completion_tokens": 40,
        "prompt_tokens_details": {"cached_tokens": 1024},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    said = ask_server(chat("1,642 m", usage=usage, reasoning_content="It is in Siberia."))
    assert (said.text, said.reasoning, said.outcome, said.error) == ("1,642 m", "It is in Siberia.", "ok", None)
    assert said.usage == Usage(prompt_tokens=1200, cached_tokens=1024, completion_tokens=40, reasoning_tokens=30)
    assert said.seconds > 0
    assert said.attempts == 1


def test_reasoning_is_read_from_the_other_field_too() -> None:
    assert ask_server(chat("A", reasoning="because")).reasoning == "because"


@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None}])
def test_usage_details_may_be_missing_at_any_level(details: dict[str, Any] | None) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": details}
    assert ask_server(chat(usage=usage)).usage == Usage(prompt_tokens=7, completion_tokens=2)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "completion_tokens": 3}, "none"])
def test_missing_usage_is_estimated_from_the_lengths_and_marked(usage: dict[str, Any] | str | None) -> None:
    request = chat_request("x" * 41, system=None)
    said = ask_server(chat("y" * 8, usage=usage), request)
    assert said.usage == Usage(prompt_tokens=11, completion_tokens=2, estimated=True)


def test_the_request_holds_what_was_asked_and_nothing_that_was_not() -> None:
    with openai_server(chat()) as server:
        ask(OpenAIChat("m", base_url=server.url), chat_request("Hi"))
        (seen,) = server.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 64,
        "temperature": 0.5,
        # The server has not shown yet that it is fast.
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_seed_and_stop_are_sent_where_they_are_set() -> None:
    with openai_server(chat()) as server:
        ask(OpenAIChat("m", base_url=server.url), chat_request(seed=0, stop=("END",)))
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
    said = ask_server(reply)
    assert (said.outcome, said.text) == (outcome, text)
    assert said.error


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "Shorten it.", code="context_length_exceeded"),
        error(400, "This model's maximum context length is 4097 tokens. However, your messages resulted in 6988."),
        error(400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        error(400, "The prompt (total length 5000) is too long to fit into the model (context length 4096)."),
        (400, {}, {"object": "error", "message": "The input (99 tokens) is longer than the model's context length"}),
        (400, {}, {"error": "the input length exceeds the context length"}),
        error(400, "the request exceeds the available context size, try increasing it"),
        error(500, "Too much.", type="exceed_context_size_error"),
        error(400, "Requested tokens (2285) exceed context window of 2048"),
        error(422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 1000 and 1024"),
        error(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        error(400, "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."),
    ],
)
def test_a_prompt_that_the_server_finds_too_long_has_an_outcome_of_its_own(reply: Any) -> None:
    said = ask_server(reply)
    assert (said.outcome, said.text) == ("too_long", "")
    assert said.error.startswith("HTTP ")


@pytest.mark.parametrize(
    "reply",
    [
        error(429, "Request too large on tokens per min (TPM): limit 8000; the maximum context length is fine"),
        error(400, "max_tokens is too large: 9000. It supports at most 4096 completion tokens"),
        error(400, "Invalid type for 'messages': the context is no list"),
        error(400, "this prompt is too long for my taste"),
    ],
)
def test_other_refusals_are_not_taken_for_a_prompt_that_is_too_long(reply: Any) -> None:
    assert failure(reply).reason


def test_a_reply_cut_at_max_tokens_is_ok_and_says_so() -> None:
    said = ask_server(chat("Half", finish_reason="length"))
    assert (said.outcome, said.finish_reason) == ("ok", "length")


def test_a_lone_surrogate_in_a_reply_becomes_something_that_can_be_sent_again() -> None:
    ask_server(chat("deep \ud83d")).text.encode()


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_statuses_that_may_pass_are_retryable(status: int) -> None:
    failed = failure(error(status, "busy now"))
    assert failed.retryable
    assert failed.reason == f"HTTP {status}: busy now"


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_other_client_errors_are_not(status: int) -> None:
    assert not failure(error(status, "no")).retryable


def test_retry_after_is_handed_on() -> None:
    assert failure(error(429, "slow down", {"Retry-After": "7"})).retry_after == 7
    assert failure(error(429, "slow down")).retry_after is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, Any], seconds: float | None) -> None:
    assert retry_after(headers, now=40.0) == seconds


def reset(body: Any, n: Any) -> NoReturn:
    raise ConnectionResetError


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ((200, {"Content-Type": "text/html"}, "<html>Gateway says hello</html>"), "Gateway says hello"),
        ((200, {}, '{"choices": [}'), "not JSON"),
        (error(200, "the backend is down"), "the backend is down"),
        ((200, {}, {"choices": []}), "no choices"),
        ((200, {}, ["surprise"]), "without a reply"),
        ((200, {"Content-Length": "1000"}, '{"choices": ['), "connection failed"),
        ((502, {"Content-Type": "text/html"}, "<html>Bad gateway</html>"), "HTTP 502: <html>Bad gateway"),
        (reset, "connection failed"),
    ],
    ids=["html", "bad-json", "error-with-200", "no-choices", "a-list", "half-a-body", "html-502", "reset"],
)
def test_broken_replies_are_retryable_failures_with_a_reason(reply: Any, words: str) -> None:
    failed = failure(reply)
    assert failed.retryable
    assert words in failed.reason


def test_a_server_that_is_not_there_is_a_retryable_failure() -> None:
    with openai_server(chat()) as server:
        pass
    with pytest.raises(CallError, match="connection failed") as caught:
        ask(OpenAIChat("m", base_url=server.url), chat_request())
    assert caught.value.retryable


def test_a_server_that_hangs_is_given_up_in_time() -> None:
    with openai_server(lambda body, n: (server.stopping.wait(30), chat())[1]) as server:
        model = OpenAIChat("m", base_url=server.url, timeout=0.2)
        with pytest.raises(CallError, match="in time") as caught:
            ask(model, chat_request())
    assert caught.value.retryable


def test_a_slow_drip_is_given_up_in_time() -> None:
    def drip() -> Iterator[Any]:
        while not server.stopping.wait(0.05):
            yield b" "

    with openai_server(lambda body, n: (200, {}, drip())) as server, pytest.raises(CallError, match="in time"):
        ask(OpenAIChat("m", base_url=server.url, timeout=0.4), chat_request())


NO_MAX_TOKENS = error(
    400,
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    param="max_tokens",
    code="unsupported_parameter",
)
NO_TEMPERATURE = error(
    400,
    "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.",
    param="temperature",
    code="unsupported_value",
)


def reasoning_model(body: Any, n: Any) -> Any:
    if "max_tokens" in body:
        return NO_MAX_TOKENS
    return NO_TEMPERATURE if "temperature" in body else chat("fine")


def test_a_model_that_refuses_a_parameter_is_asked_without_it_from_then_on() -> None:
    async def twice(model: Any) -> Any:
        try:
            return [await model.complete(chat_request()), await model.complete(chat_request())]
        finally:
            await close(model)

    with openai_server(reasoning_model) as server:
        first, second = asyncio.run(twice(OpenAIChat("o", base_url=server.url)))
        last = server.requests[-1].body
    assert (first.text, first.attempts) == ("fine", 3)
    assert (second.text, second.attempts) == ("fine", 1)
    assert last["max_completion_tokens"] == 64
    assert not {"max_tokens", "temperature"} & set(last)


def test_a_server_that_does_not_know_seeds_is_asked_without_one() -> None:
    unknown = error(400, "Unrecognized request argument supplied: seed")
    with openai_server(lambda body, n: unknown if "seed" in body else chat("fine")) as server:
        (said,) = ask(OpenAIChat("o", base_url=server.url), chat_request(seed=7))
    assert (said.text, said.attempts) == ("fine", 2)


def test_requests_under_way_at_the_switch_are_repeated_too() -> None:
    with openai_server(reasoning_model) as server:
        said = ask(OpenAIChat("o", base_url=server.url), *[chat_request(str(i)) for i in range(5)])
    assert [completion.text for completion in said] == ["fine"] * 5


def test_a_max_tokens_that_is_merely_too_large_is_an_error() -> None:
    assert not failure(error(400, "max_tokens is too large: 64", param="max_tokens")).retryable


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
            said = ask_server(reply)
        except CallError as failed:
            told = f"{failed.reason} {failed!r} {failed.__cause__}"
        else:
            told = str(said.error)
        assert "cana" not in told


def test_a_page_of_an_error_is_shortened_to_a_line() -> None:
    reason = failure((502, {"Content-Type": "text/html"}, "<html>\n" + "<p>down</p>\n" * 500)).reason
    assert len(reason) < 320
    assert "\n" not in reason


def test_the_key_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f" {CANARY}\n")
    with openai_server(chat()) as server:
        ask(OpenAIChat("m", base_url=server.url), chat_request())
        assert server.requests[0].headers["authorization"] == f"Bearer {CANARY}"


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
        (said,) = ask(model, chat_request())
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
        ask(AzureChat("d"), chat_request())
        assert server.requests[0].path.endswith("api-version=2024-06-01")


def test_azure_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="AZURE_OPENAI_ENDPOINT"):
        AzureChat("d")
    with pytest.raises(UserError, match="AZURE_OPENAI_API_KEY"):
        AzureChat("d", endpoint="https://me.openai.azure.com")


def test_behind_the_retry_layer_a_busy_server_is_waited_for() -> None:
    waits = []

    async def no_sleep(seconds: Any) -> None:
        waits.append(seconds)

    def busy_twice(body: Any, n: Any) -> Any:
        return error(429, "busy", {"Retry-After": "3"}) if n < 3 else chat("at last")

    async def ask_patiently(url: Any) -> Any:
        model = OpenAIChat("m", base_url=url)
        try:
            return await Retrying(model, RetryPolicy(), sleep=no_sleep, random=lambda: 0.0).complete(chat_request())
        finally:
            await close(model)

    with openai_server(busy_twice) as server:
        said = asyncio.run(ask_patiently(server.url))
    assert (said.text, said.attempts, waits) == ("at last", 3, [3.0, 3.0])
