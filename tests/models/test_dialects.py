"""What servers refuse, in their own wordings, and how the same request then goes through."""

import asyncio
import json
import logging
from typing import Any

import pytest

from madke.core.chat import Usage
from madke.core.errors import CallError
from madke.models.chat_models import close
from madke.models.dialect import Dialect
from madke.models.endpoint import ModelEntry, endpoints_of
from madke.models.openai_client import OpenAIChat
from madke.models.openai_wire import ServerError
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import chat, error, openai_server

BIG = 100_000
"""More tokens than any of these servers gives."""


def unsupported(name: Any, words: str = "") -> Any:
    return {
        "error": {
            "message": f"Unsupported parameter: '{name}' is not supported with this model.{words}",
            "type": "invalid_request_error",
            "param": name,
            "code": "unsupported_parameter",
        }
    }


def mistral(name: Any) -> Any:
    detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 7}]
    return {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": None}


def mistral_older(name: Any) -> Any:
    detail = {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]}
    return {"object": "error", "message": json.dumps(detail), "type": "internal_error_proxy", "code": "1000"}


def vllm(message: Any) -> Any:
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


def gemini(message: Any) -> Any:
    return [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]


def anthropic(message: Any) -> Any:
    return {"error": {"code": "invalid_request_error", "message": message, "type": "invalid_request_error"}}


def tgi(message: Any, kind: str = "validation") -> Any:
    return {"error": message, "error_type": kind}


def llama_cpp(message: Any, code: Any) -> Any:
    return {"error": {"code": code, "message": message, "type": "server_error"}}


def plain(message: Any) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


SEED, STOP, COOL = {"seed": False}, {"stop": False}, {"temperature": False}
RENAMED, NO_BOUND, NO_SYSTEM = {"max_tokens": "max_completion_tokens"}, {"max_tokens": "none"}, {"system": False}
STREAM = {"stream": True}
TEMPERATURE_ONE = (
    "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported."
)

REFUSALS = [
    # max_tokens under another name
    (400, unsupported("max_tokens", " Use 'max_completion_tokens' instead."), RENAMED),
    (422, mistral("max_tokens"), RENAMED),
    # too large: the limit that is named
    (400, plain("max_tokens is too large: 100000. This model supports at most 4,096 completion tokens."), 4096),
    (
        400,
        anthropic("max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for c-4-1"),
        64000,
    ),
    (422, tgi("Input validation error: `max_new_tokens` must be <= 1024. Given: 100000"), 1024),
    (
        400,
        gemini(
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from "
            "1 (inclusive) to 65537 (exclusive). Update the value and try again."
        ),
        65536,
    ),
    (400, plain("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), 8192),
    (400, plain("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]"), 8192),
    (400, plain("`max_tokens` must be less than or equal to `32768`, the maximum value for `max_tokens`"), 32768),
    (
        400,
        plain(
            "The parameter `max_tokens` specified in the request are not valid: expected a value <= 12288, but got 1"
        ),
        12288,
    ),
    (
        400,
        vllm(
            "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length is "
            "32768 tokens and your request has 120 input tokens (100000 > 32768 - 120). None"
        ),
        16384,
    ),
    (400, plain("max_tokens is too large for gpt-4-0613"), NO_BOUND),
    # temperature
    (400, plain(TEMPERATURE_ONE), COOL),
    (400, unsupported("temperature"), COOL),
    (400, plain("invalid temperature: only 1 is allowed for this model"), COOL),
    (400, anthropic("`temperature` may only be set to 1 when thinking is enabled."), COOL),
    (400, anthropic("`temperature` is deprecated for this model."), COOL),
    # seed
    (400, plain("Unrecognized request argument supplied: seed"), SEED),
    (422, mistral("seed"), SEED),
    (422, mistral_older("seed"), SEED),
    (
        400,
        vllm("[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'}]"),
        SEED,
    ),
    (400, gemini('Invalid JSON payload received. Unknown name "seed": Cannot find field.'), SEED),
    (400, plain("json: cannot unmarshal number 7 into Go struct field ChatCompletionRequest.seed of type int"), SEED),
    (
        422,
        tgi("Failed to deserialize the JSON body into the target type: unknown field `seed`, expected one of `model`"),
        SEED,
    ),
    (400, anthropic("seed: Extra inputs are not permitted"), SEED),
    # stop
    (400, unsupported("stop"), STOP),
    (400, plain("Argument not supported on this model: stop"), STOP),
    (400, plain("Model grok-4 does not support parameter stop."), STOP),
    (400, plain("property 'stop' is unsupported"), STOP),
    # no system role
    (400, vllm("System role not supported"), NO_SYSTEM),
    (
        422,
        tgi("Template error: invalid operation: System role not supported (in <string>:1)", "template_error"),
        NO_SYSTEM,
    ),
    (500, llama_cpp("...\nError: Jinja Exception: System role not supported", 500), NO_SYSTEM),
    (500, llama_cpp("Only user, assistant and tool roles are supported, got system. at row 83", 500), NO_SYSTEM),
    (400, gemini("Developer instruction is not enabled for models/gemma-3-27b-it"), NO_SYSTEM),
    (400, plain("Unsupported value: 'messages[0].role' does not support 'system' with this model."), NO_SYSTEM),
    (400, anthropic("role 'system' is not supported on this model"), NO_SYSTEM),
    (400, vllm("Conversation roles must alternate user/assistant/user/assistant/..."), NO_SYSTEM),
    # streaming only
    (
        400,
        plain("This model only support stream mode, please enable the stream parameter to access the model. "),
        STREAM,
    ),
    (400, {"detail": "Stream must be set to true"}, STREAM),
    (400, plain("parameter.enable_thinking must be set to false for non-streaming calls"), STREAM),
]


@pytest.mark.parametrize(("status", "body", "change"), REFUSALS)
def test_each_wording_leads_to_the_dialect_that_the_server_takes(status: Any, body: Any, change: Any) -> None:
    request = chat_request(max_tokens=BIG, seed=7, stop=("END",))
    sent = Dialect().body("m", request)
    # As the client hands it over: the error's own part where the body is a mapping with one.
    found = Dialect().after(ServerError.read(status, body), sent)
    assert found is not None
    assert found.non_defaults() == (change if isinstance(change, dict) else {"most_tokens": change})
    assert found.body("m", request) != sent


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, plain("Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.")),
        (400, plain("temperature must be between 0 and 1")),
        (400, plain("temperature only supports values from 0 to 1")),
        (400, plain("The model m does not exist, or is not supported")),
        (400, vllm("This model's maximum context length is 4097 tokens. However, your messages resulted in 6988.")),
        (400, vllm("max_tokens must be at least 1, got 0.")),
        (401, unsupported("seed")),
        (500, plain("Unknown error; the seed was 7")),
        (400, anthropic("messages: at least one message is required")),
    ],
)
def test_other_refusals_change_nothing(status: int, body: Any) -> None:
    sent = Dialect().body("m", chat_request(max_tokens=64, seed=7, stop=("END",)))
    found = Dialect().after(ServerError.read(status, body), sent)
    assert found is None or found == Dialect() or found.non_defaults() == NO_BOUND


def strict(body: Any, n: Any) -> Any:
    """A server with five peculiarities at once."""
    if "max_tokens" in body:
        return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", param="max_tokens")
    for name in ("temperature", "seed", "stop"):
        if name in body:
            return 422, {}, mistral(name)
    if body["messages"][0]["role"] == "system":
        return 400, {}, vllm("System role not supported")
    return chat("fine END of it")


def test_all_is_found_out_once_and_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    requests = [chat_request(str(n), seed=n, stop=("END",)) for n in range(8)]
    model = OpenAIChat("o", base_url="http://nowhere/v1", needs_key=False)
    with openai_server(strict) as server, caplog.at_level(logging.WARNING):
        model = OpenAIChat("o", base_url=server.url)

        async def one_after_the_others() -> Any:
            try:
                together = await asyncio.gather(*(model.complete(request) for request in requests))
                return together, await model.complete(requests[0])
            finally:
                await close(model)

        together, last = asyncio.run(one_after_the_others())
    assert [said.text for said in (*together, last)] == ["fine "] * 9  # the stop string is kept to all the same
    assert last.attempts == 1
    assert max(said.attempts for said in together) <= 6
    (line,) = [record.getMessage() for record in caplog.records]
    assert "openai/o" in line
    found = endpoints_of([model])["openai/o"]["dialect"]
    assert found == {
        "max_tokens": "max_completion_tokens", "temperature": False, "seed": False, "stop": False, "system": False
    }  # fmt: skip
    for field, value in found.items():
        assert f"{field}: {str(value).lower()}" in line


def test_a_dialect_of_models_yaml_is_spoken_from_the_first_call(caplog: pytest.LogCaptureFixture) -> None:
    entry = ModelEntry.model_validate(
        {"dialect": {"max_tokens": "max_completion_tokens", "temperature": False, "seed": False, "system": False}}
    )
    with openai_server(strict) as server:
        (said,) = said_by(OpenAIChat("o", base_url=server.url, entry=entry), chat_request(seed=3))
    assert (said.text, said.attempts, caplog.records) == ("fine END of it", 1, [])


def test_a_refusal_that_never_ends_is_given_up() -> None:
    def moody(body: Any, n: Any) -> Any:
        return error(400, f"max_tokens is too large: it must be at most {2000 - n}")

    with openai_server(moody) as server, pytest.raises(CallError, match="too large"):
        said_by(OpenAIChat("o", base_url=server.url), chat_request(max_tokens=4000))
    assert len(server.requests) == 11


def test_extra_body_is_sent_with_every_request() -> None:
    entry = ModelEntry(extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    with openai_server(chat()) as server:
        said_by(OpenAIChat("o", base_url=server.url, entry=entry), chat_request())
        assert server.requests[0].body["chat_template_kwargs"] == {"enable_thinking": False}


CHUNKS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "It is deep."}}]},
    {"choices": [{"index": 0, "delta": {"content": "Lake "}}]},
    {"choices": [{"index": 0, "delta": {"content": "Baïkal"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}},
]


def events(chunks: Any, end: str = "data: [DONE]\n\n") -> Any:
    text = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
    return 200, {"Content-Type": "text/event-stream"}, f": keep-alive\n\n{text}{end}"


def streaming(reply: Any) -> Any:
    refused = plain("This model only support stream mode, please enable the stream parameter to access the model. ")
    return lambda body, n: reply if body.get("stream") else (400, {}, refused)


def test_a_server_that_only_streams_is_streamed_from_and_assembled() -> None:
    with openai_server(streaming(events(CHUNKS))) as server:
        (said,) = said_by(OpenAIChat("o", base_url=server.url), chat_request())
        assert server.requests[-1].body["stream_options"] == {"include_usage": True}
    assert (said.text, said.reasoning, said.finish_reason) == ("Lake Baïkal", "It is deep.", "stop")
    assert said.usage == Usage(prompt_tokens=20, completion_tokens=5)
