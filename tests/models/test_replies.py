"""Replies as servers really send them: errors inside a 200, lists of parts, keys, usage that cannot be true."""

import json
from typing import Any

import pytest

from madke.core.addresses import retry_after
from madke.core.chat import Usage
from madke.core.errors import CallError, UserError
from madke.models.endpoint import endpoints_of
from madke.models.openai_client import AzureChat, OpenAIChat
from madke.models.prices import Price, cost
from tests.models.wire import ask, events, failure
from tests.support.chat_requests import chat_request
from tests.support.openai_server import Reply, chat, error

LADOGA = "The answer is [Ladoga]."


def in_the_choice(message: str = "Provider returned error", **fields: Any) -> Reply:
    """OpenRouter's form of a reply whose provider failed on the way."""
    status, headers, body = chat(LADOGA, finish_reason="error")
    body["choices"][0]["error"] = {"message": message, **fields}
    return status, headers, body


def told(status: int, **body: Any) -> Reply:
    """An error in a form of the server's own."""
    return status, {}, body


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


@pytest.mark.parametrize(
    "reply",
    [
        in_the_choice(code=502),
        in_the_choice(),
        told(200, **chat(LADOGA)[2], error={"message": "upstream timed out", "code": 504}),
        chat(LADOGA, finish_reason="insufficient_system_resource"),
        told(200, object="error", message="the worker is gone", code=500),
        told(200, error="the backend is down"),
    ],
)
def test_a_failed_reply_with_status_200_is_a_failed_call_that_is_tried_again(reply: Reply) -> None:
    failed = failure(reply)
    assert failed.retryable
    assert failed.reason.startswith("status 200 without a reply: ")


@pytest.mark.parametrize(
    "reply",
    [
        in_the_choice("Insufficient credits", code=402),
        error(200, "Pay first.", code="insufficient_quota"),
        error(200, "Who are you?", type="authentication_error"),
        error(200, "Your credit balance is too low to access the API.", type="invalid_request_error"),
        error(429, "Your account is suspended.", type="exceeded_current_quota_error"),
        error(429, "Your team has used all available credits or reached its monthly spending limit."),
    ],
)
def test_quota_credit_and_authentication_end_a_call_at_once(reply: Reply) -> None:
    failed = failure(reply)
    assert not failed.retryable
    assert not failed.overloaded


@pytest.mark.parametrize(
    "reply",
    [
        error(429, "Rate limit reached for requests", code="rate_limit_exceeded", type="requests"),
        # Gemini says so of a quota of one minute.
        error(429, "You exceeded your current quota, see your plan.", code=429, type="RESOURCE_EXHAUSTED"),
        error(200, "slow down", code=429),
    ],
)
def test_a_rate_limit_is_tried_again_and_counts_as_load(reply: Reply) -> None:
    failed = failure(reply)
    assert (failed.retryable, failed.overloaded) == (True, True)


RAW = json.dumps({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}})

TOO_LONG = {
    "xAI": error(400, "This model's maximum prompt length is 131072 but the request contains 136973 tokens."),
    "LM Studio": error(400, "Trying to keep 15857 tokens, with a context length of only 4096 tokens"),
    "Bedrock": error(400, "ValidationException: Input is too long for requested model.", type="ValidationException"),
    "Anthropic, bytes": error(413, "Request exceeds the maximum size", type="request_too_large"),
    "GitHub, by message": told(413, message="Request body too large for o1-mini model. Max size: 4000 tokens."),
    "TabbyAPI": told(400, detail="Request length 71599 + 2048 is greater than max_seq_len 65536"),
    "Cohere": told(400, message="too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    "OpenRouter, raw": in_the_choice(code=400, metadata={"raw": RAW, "provider_name": "P"}),
    "OpenAI in a 200": error(200, "Shorten it.", code="context_length_exceeded"),
    "Groq": error(400, "Please reduce the length of the messages or completion.", param="messages"),
    "Alibaba": error(400, "Range of input length should be [1, 129024]", code="invalid_parameter_error"),
    "Ollama": error(400, "prompt too long; exceeded max context length by 5000 tokens"),
}


@pytest.mark.parametrize("server", TOO_LONG)
def test_every_servers_word_for_a_prompt_that_is_too_long_is_known(server: str) -> None:
    said = ask(TOO_LONG[server])
    assert (said.outcome, said.text) == ("too_long", "")
    assert said.error


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "Too many tokens, please wait before trying again."),
        error(413, "Request too large for model on tokens per minute (TPM): Limit 6000", code="rate_limit_exceeded"),
    ],
)
def test_other_limits_are_no_prompt_that_is_too_long(reply: Reply) -> None:
    assert failure(reply).reason


@pytest.mark.parametrize(
    ("reply", "outcome", "text"),
    [
        (chat("  \n"), "empty", ""),
        (chat("<think>It may be [Baikal].</think>\n"), "empty", ""),
        (error(400, "The prompt was filtered", code="content_filter"), "filtered", ""),
    ],
)
def test_a_reply_that_is_no_answer_has_its_outcome_and_a_reason(reply: Reply, outcome: str, text: str) -> None:
    said = ask(reply)
    assert (said.outcome, said.text) == (outcome, text)
    assert said.error


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "[Baikal]"}], "[Baikal]", "hm"),
        (
            [{"type": "thinking", "thinking": [{"text": "deep "}, {"text": "water"}]}, "[Baikal]"],
            "[Baikal]",
            "deep water",
        ),
        ([{"type": "text", "text": "[Baikal]"}, {"type": "image_url", "image_url": {}}, None, 7], "[Baikal]", ""),
    ],
)
def test_content_may_be_a_list_of_parts(content: list[Any], text: str, reasoning: str) -> None:
    said = ask(chat(content))
    assert (said.text, said.reasoning, said.outcome) == (text, reasoning, "ok")


def invalid(reply: Reply) -> Reply:
    """The reply with one byte that is not UTF-8 in place of each ``~``."""
    status, headers, body = reply
    sent = body if isinstance(body, str) else json.dumps(body)
    return status, headers, sent.encode().replace(b"~", b"\xff")


@pytest.mark.parametrize(
    "reply",
    [chat("[Bai~kal]"), events([{"choices": [{"delta": {"content": "[Bai~kal]"}, "finish_reason": "stop"}]}])],
    ids=["whole", "streamed"],
)
def test_a_byte_that_is_not_utf8_is_replaced_and_counted(reply: Reply) -> None:
    said = ask(invalid(reply))
    assert (said.outcome, said.text) == ("ok", "[Bai\N{REPLACEMENT CHARACTER}kal]")
    assert said.usage.not_utf8
    assert not ask(chat("[Baïkal]")).usage.not_utf8


@pytest.mark.parametrize(
    "body",
    ["[" * 100_000, '{"choices": ' + "9" * 5_000 + "}", b'{"choices": \xff}'],
    ids=["deep", "long-number", "bytes"],
)
def test_a_body_that_json_cannot_be_read_from_is_a_retryable_failure(body: Any) -> None:
    failed = failure((200, {}, body))
    assert failed.retryable
    assert "not JSON" in failed.reason
    assert len(failed.reason) < 400


# Usage


@pytest.mark.parametrize(
    "usage",
    [
        *(None, {}, "none"),
        *({"prompt_tokens": prompt, "completion_tokens": 5} for prompt in (None, 0, -1, True, 10**9 + 1, 2.5, "7")),
        *({"prompt_tokens": 7, "completion_tokens": completion} for completion in (None, 0, -1)),
    ],
)
def test_counts_that_are_missing_or_impossible_are_estimated_from_the_lengths(usage: Any) -> None:
    said = ask(chat("y" * 8, usage=usage), chat_request("x" * 41, system=None))
    assert said.usage == Usage(prompt_tokens=11, completion_tokens=2, estimated=True)


@pytest.mark.parametrize(("stated", "cached", "reasoning"), [(10**6, 7, 2), (-1, 0, 0), (True, 0, 0)])
def test_a_part_is_no_more_than_the_whole(stated: Any, cached: int, reasoning: int) -> None:
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": stated},
        "completion_tokens_details": {"reasoning_tokens": stated},
    }
    said = ask(chat(usage=usage))
    assert said.usage == Usage(prompt_tokens=7, cached_tokens=cached, completion_tokens=2, reasoning_tokens=reasoning)


def hidden(tokens: float) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": tokens}}


@pytest.mark.parametrize(
    ("completion", "total", "details", "counted", "reasoning"),
    [
        # OpenAI counts hidden reasoning as part of the completion; xAI counts it in addition: the total tells.
        (510, 610, hidden(500), 510, 500),
        (10, 610, hidden(500), 510, 500),
        (10.0, 610.0, hidden(500.0), 510, 500),
        (10, None, hidden(500), 510, 500),
        # Gemini has it in the total alone, which cannot exceed what the request allows.
        (10, 610, {}, 510, 500),
        (10, 9000, {}, 10, 0),
        (10, 610, {"cache_read_input_tokens": 500}, 10, 0),
        # A total that fits neither is not believed.
        (10, 110, hidden(500), 10, 10),
    ],
)
def test_hidden_reasoning_is_paid_wherever_a_server_counts_it(
    completion: float, total: float | None, details: Any, counted: int, reasoning: int
) -> None:
    usage = {"prompt_tokens": 100.0, "completion_tokens": completion, "total_tokens": total, **details}
    said = ask(chat("yes", usage=usage), chat_request("Hi", max_tokens=1024))
    assert said.usage == Usage(prompt_tokens=100, completion_tokens=counted, reasoning_tokens=reasoning)
    assert cost(said.usage, Price(prompt=1, completion=10)) == pytest.approx((100 + 10 * counted) / 1e6)


# Waits


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 20.0),
        ({"retry-after": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, Any], seconds: float | None) -> None:
    assert retry_after(headers, now=40.0) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ([{"error": {"code": 429, "details": [{"@type": "RetryInfo", "retryDelay": "39.2s"}]}}], 39.2),
        ({"error": {"message": "Rate limit reached. Please try again in 1m26.4s. Visit the docs."}}, 86.4),
        ({"error": {"message": "Please try again in 250ms."}}, 0.25),
        ({"error": {"message": "Rate limit exceeded. Please retry after 26 seconds."}}, 26.0),
        ({"error": {"message": "Too many requests: wait 2 minutes and 5 seconds before retrying"}}, 125.0),
        ({"detail": "Rate limited. Retry-After: 12"}, 12.0),
        ({"error": {"message": "slow down"}, "retry_after_ms": 1500}, 1.5),
        ({"error": {"message": "slow down", "metadata": {"headers": {"Retry-After": "33"}}}}, 33.0),
        ({"error": {"message": "20 requests in 60 seconds are allowed; try again later", "retry_after": None}}, None),
    ],
)
def test_the_wait_that_a_body_names_is_kept(body: Any, seconds: float | None) -> None:
    failed = failure((429, {}, body))
    assert (failed.retry_after, failed.retryable, failed.overloaded) == (seconds, True, True)


def test_the_header_of_a_wait_comes_before_the_body() -> None:
    assert failure(error(429, "Please try again in 250ms.", {"Retry-After": "3"})).retry_after == 3.0


# Wrong addresses


@pytest.mark.parametrize(
    "reply", [(404, {}, {"detail": "Not Found"}), (405, {}, "404 page not found"), error(404, "Not Found")]
)
def test_a_server_without_such_an_address_is_named_and_stops_the_run(reply: Reply) -> None:
    with pytest.raises(UserError) as caught:
        ask(reply, path="")
    for part in (f"HTTP {reply[0]} from http://127.0.0.1:", "/chat/completions: ", "does the base URL end in /v1?"):
        assert part in str(caught.value)


@pytest.mark.parametrize("message", ["The model does not exist", "'m' was not found", "no such deployment"])
def test_a_model_that_a_server_does_not_have_is_a_failed_call(message: str) -> None:
    assert message in failure(error(404, message)).reason


@pytest.mark.parametrize(
    ("location", "shown"),
    [("https://me:pw@elsewhere.example/v2/?k=secret", "https://elsewhere.example/v2"), ("/login", "/login")],
)
def test_a_redirect_is_not_followed_and_names_its_target(location: str, shown: str) -> None:
    failed = failure((307, {"Location": location}, {}))
    assert not failed.retryable
    assert failed.reason.startswith("HTTP 307 redirects to ")
    assert shown in failed.reason
    assert "pw" not in failed.reason
    assert "secret" not in failed.reason


# Secrets

KEY = "canary-7f3a9c"
PATH_SECRET = "tok-2718281828459045"


@pytest.mark.parametrize(
    "reply",
    [
        error(401, f"Incorrect API key provided: {KEY}."),
        error(401, "Incorrect API key provided: sk-canar*******9c"),
        (200, {}, f"<html>{KEY}</html>"),
        error(400, f"filtered {KEY}", code="content_filter"),
        # However the reason is shortened, no piece of the key is left at its end.
        *(error(500, "x" * length + KEY) for length in range(280, 292, 3)),
    ],
)
def test_no_key_gets_into_a_reason(monkeypatch: pytest.MonkeyPatch, reply: Reply) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    try:
        shown = str(ask(reply).error)
    except CallError as failed:
        shown = f"{failed.reason} {failed!r} {failed.__cause__}"
    assert "cana" not in shown


@pytest.mark.parametrize(
    "reply",
    [chat(f"The answer is [{KEY}]."), chat("[A]", reasoning_content=f"it says {KEY}"), chat("[A]", finish_reason=KEY)],
)
def test_a_reply_that_holds_the_key_is_a_failed_call(monkeypatch: pytest.MonkeyPatch, reply: Reply) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    failed = failure(reply)
    assert (failed.reason, failed.retryable) == ("the reply contains the API key and is not stored", False)


def test_a_secret_in_the_path_stands_in_no_name_and_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"https://host:8000/{PATH_SECRET}/v1"
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "sk-31415926")
    here, other = (endpoints_of([OpenAIChat("m", base_url=each)]) for each in (url, url.replace("tok-", "tic-")))
    assert here != other
    for shown in (here, endpoints_of([AzureChat("m", endpoint=url)])):
        assert PATH_SECRET not in str(shown)
        assert "https://host:8000/~" in str(shown)
    replies: tuple[Reply, ...] = (
        error(404, f"Cannot POST /{PATH_SECRET}/v1/chat/completions"),
        (308, {"Location": f"/{PATH_SECRET}/v2/chat/completions"}, {}),
        (200, {}, f"<html>{PATH_SECRET}</html>"),
    )
    for reply in replies:
        with pytest.raises((CallError, UserError)) as caught:
            ask(reply, path=f"/{PATH_SECRET}/v1")
        assert PATH_SECRET not in str(caught.value)
