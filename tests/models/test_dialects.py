"""What servers refuse, in their own wordings, and how the same request then goes through."""

import asyncio
import json
import logging
import re
from typing import Any

import pytest

from madke.models.chat_models import close
from madke.models.dialect import Dialect
from madke.models.endpoint import ModelEntry, endpoints_of
from madke.models.openai_client import OpenAIChat
from madke.models.openai_wire import ServerError
from tests.models.wire import CHUNKS, events, exchange, failure, vllm
from tests.support.chat_requests import chat_request, purpose
from tests.support.openai_server import chat, error, openai_server

BIG = 100_000
"""More tokens than any of these servers gives."""


def mistral(name: str) -> dict[str, Any]:
    detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 7}]
    return {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": None}


def gemini(message: str) -> list[Any]:
    return [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]


def plain(message: str) -> dict[str, Any]:
    """As OpenAI, Anthropic, llama.cpp and most others send it."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


SEED, STOP, COOL = {"seed": False}, {"stop": False}, {"temperature": False}
RENAMED, NO_BOUND, NO_SYSTEM = {"max_tokens": "max_completion_tokens"}, {"max_tokens": "none"}, {"system": False}
STREAM = {"stream": True}


def most(tokens: int) -> dict[str, int]:
    return {"most_tokens": tokens}


REFUSALS = [
    # max_tokens under another name
    (400, plain("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."), RENAMED),
    (422, mistral("max_tokens"), RENAMED),
    # too large: the limit that is named
    (400, plain("max_tokens is too large: 100000. This model supports at most 4,096 completion tokens."), most(4096)),
    (400, plain("max_tokens: 100000 > 64000, the maximum allowed number of output tokens for c-4-1"), most(64000)),
    (422, {"error": "Input validation error: `max_new_tokens` must be <= 1024. Given: 100000"}, most(1024)),
    (400, gemini("maxOutputTokens: the range is from 1 (inclusive) to 65537 (exclusive)"), most(65536)),
    (400, plain("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), most(8192)),
    (400, vllm("'max_tokens' is too large. This model's maximum context length is 32768 tokens"), most(16384)),
    (400, plain("max_tokens is too large for gpt-4-0613"), NO_BOUND),
    # temperature
    (400, plain("Unsupported value: 'temperature' does not support 0.5. Only the default (1) is supported."), COOL),
    (400, plain("`temperature` may only be set to 1 when thinking is enabled."), COOL),
    (400, plain("`temperature` is deprecated for this model."), COOL),
    # seed
    (400, vllm("[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs'}]"), SEED),
    (400, gemini('Invalid JSON payload received. Unknown name "seed": Cannot find field.'), SEED),
    (400, plain("json: cannot unmarshal number 7 into Go struct field ChatCompletionRequest.seed of type int"), SEED),
    (422, {"error": "Failed to deserialize the JSON body: unknown field `seed`, expected one of `model`"}, SEED),
    # stop
    (400, plain("Argument not supported on this model: stop"), STOP),
    # no system role
    (422, {"error": "Template error: invalid operation: System role not supported (in <string>:1)"}, NO_SYSTEM),
    (500, plain("Only user, assistant and tool roles are supported, got system. at row 83"), NO_SYSTEM),
    (400, gemini("Developer instruction is not enabled for models/gemma-3-27b-it"), NO_SYSTEM),
    (400, vllm("Conversation roles must alternate user/assistant/user/assistant/..."), NO_SYSTEM),
    # streaming only
    (400, plain("This model only support stream mode, please enable the stream parameter to access it."), STREAM),
    (400, plain("parameter.enable_thinking must be set to false for non-streaming calls"), STREAM),
]


@pytest.mark.parametrize(("status", "body", "change"), REFUSALS)
def test_each_wording_leads_to_the_dialect_that_the_server_takes(status: int, body: Any, change: Any) -> None:
    request = chat_request(max_tokens=BIG, seed=7, stop=("END",))
    sent = Dialect().body("m", request)
    found = Dialect().after(ServerError.read(status, body), sent)
    assert found is not None
    assert found.non_defaults() == change
    assert found.body("m", request) != sent


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, plain("Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.")),
        (400, plain("temperature must be between 0 and 1")),
        (400, plain("The model m does not exist, or is not supported")),
        (400, vllm("This model's maximum context length is 4097 tokens. However, your messages resulted in 6988.")),
        (401, plain("Unsupported parameter: 'seed' is not supported with this model.")),
        (500, plain("Unknown error; the seed was 7")),
    ],
)
def test_other_refusals_change_nothing(status: int, body: Any) -> None:
    sent = Dialect().body("m", chat_request(max_tokens=64, seed=7, stop=("END",)))
    assert Dialect().after(ServerError.read(status, body), sent) is None


def strict(body: Any, n: int) -> Any:
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
    assert found == {**RENAMED, **COOL, **SEED, **STOP, **NO_SYSTEM}
    for field, value in found.items():
        assert f"{field}: {str(value).lower()}" in line


def test_a_refusal_that_never_ends_is_given_up() -> None:
    asked: list[int] = []

    def moody(body: Any, n: int) -> Any:
        asked.append(n)
        return error(400, f"max_tokens is too large: it must be at most {2000 - n}")

    assert "too large" in failure(moody, chat_request(max_tokens=4000)).reason
    assert len(asked) == 11


def test_llama_cpp_is_known_by_its_timings(caplog: pytest.LogCaptureFixture) -> None:
    timings = {"cache_n": 12, "prompt_n": 8, "prompt_ms": 80.5, "predicted_n": 5}
    with caplog.at_level(logging.WARNING):
        streamed = exchange(events([*CHUNKS, {"choices": [], "timings": timings}]), chat_request(on_token=print))
        spelled = exchange(chat(f'"timings": {json.dumps(timings)}'))
    assert streamed.client.dialect.non_defaults() == {"slots": True}
    assert spelled.client.dialect.non_defaults() == {}
    assert not caplog.records


# Fields that tell a provider of shared beginnings


def at(**dialect: Any) -> dict[str, Any]:
    """The options of a client whose entry states this dialect."""
    return {"entry": ModelEntry(dialect=Dialect(**dialect))}


def test_a_cache_key_is_a_hash_that_the_calls_of_a_question_share() -> None:
    questions = ("What is in /home/me?", "What is in /home/me?", "sk-12345678")
    requests = [chat_request(str(n), about=purpose(question=each)) for n, each in enumerate(questions)]
    bodies = exchange(chat(), *requests, **at(prompt_cache_key=True)).bodies
    first, second, other = (body["prompt_cache_key"] for body in bodies)
    assert first == second != other
    assert all(re.fullmatch(r"[0-9a-f]{32}", key) for key in (first, other))


def test_openai_itself_gets_a_cache_key_and_others_only_if_they_are_known_to_take_it() -> None:
    openai: dict[str, Any] = {"base_url": "https://api.openai.com/v1", "needs_key": False}
    assert OpenAIChat("o", **openai).dialect.prompt_cache_key
    assert not OpenAIChat("o", **openai, **at(prompt_cache_key=False)).dialect.prompt_cache_key
    assert "prompt_cache_key" not in exchange(chat()).bodies[0]


def test_marks_stand_at_the_ends_of_what_siblings_share() -> None:
    (body,) = exchange(chat(), chat_request("What?", system="Be brief."), **at(cache_control=True)).bodies
    mark = {"cache_control": {"type": "ephemeral"}}
    assert [message["content"] for message in body["messages"]] == [
        [{"type": "text", "text": "Be brief.", **mark}],
        [{"type": "text", "text": "What?", **mark}],
    ]
