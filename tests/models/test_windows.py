"""A prompt that fits, with too little room for the whole reply: the reply gets what is free."""

from pathlib import Path
from typing import Any

import pytest

from madke.models.openai_client import OpenAIChat
from madke.models.openai_wire import MIN_FREE, ServerError, free_tokens
from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from tests.models.test_dialects import vllm
from tests.support.chat_requests import chat_request, said_by
from tests.support.cli import madke
from tests.support.dataset import write_dataset
from tests.support.openai_server import chat, error, openai_server

FREE = [
    "This model's maximum context length is 4096 tokens. However, you requested 4431 tokens (3407 in the messages, "
    "1024 in the completion). Please reduce the length of the messages or completion.",  # OpenAI, DeepSeek, older vLLM
    "This model's maximum context length is 4096 tokens, however you requested 4431 tokens (3407 in your prompt; 1024 "
    "for the completion). Please reduce your prompt; or completion length.",  # OpenAI's completions, llama-cpp-python
    "This model's maximum context length is 4096 tokens. However, you requested 1024 output tokens and your prompt "
    "contains 3407 input tokens, for a total of 4431 tokens.",  # vLLM
    "'max_tokens' or 'max_completion_tokens' is too large: 1024. This model's maximum context length is 4096 tokens "
    "and your request has 3407 input tokens (1024 > 4096 - 3407).",  # vLLM
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 4431 "
    "tokens: 3407 tokens from the input messages and 1024 tokens for the completion.",  # SGLang
    "This endpoint's maximum context length is 4,096 tokens. However, you requested about 4,431 tokens (3,407 of text "
    "input, 1,024 in the output).",  # OpenRouter
    "input length and `max_tokens` exceed context limit: 3407 + 1024 > 4096, decrease input length or `max_tokens`",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3407 `inputs` tokens and 1024 "
    "`max_new_tokens`",  # text-generation-inference
    "This model's maximum context length is 4096 tokens. However, you requested 4431 tokens.",
]
NONE_FREE = [
    "This model's maximum context length is 4096 tokens. However, your messages resulted in 4988 tokens.",
    "request (9120 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "Requested tokens (4431) exceed context window of 4096",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "This model's maximum context length is 4096 tokens and your request has 5000 input tokens.",
    "This model's maximum context length is 4096 tokens and your request has 4050 input tokens.",
    "This model's maximum context length is 4096 tokens and your request has 10 input tokens.",
    "Prompt contains 140000 tokens, too large for model with 131072 maximum context length",
    "max_tokens must be at most 4096, and 3407 in the messages",
]


@pytest.mark.parametrize("message", FREE)
def test_what_is_free_is_read_in_each_wording(message: str) -> None:
    assert free_tokens(ServerError.read(400, vllm(message)), 1024) == 689


@pytest.mark.parametrize("message", NONE_FREE)
def test_nothing_is_read_where_nothing_is_told_or_too_little_is_free(message: str) -> None:
    assert free_tokens(ServerError.read(400, vllm(message)), 1024) is None


def window(size: int) -> Any:
    """A vLLM whose prompts have a token for each character."""

    def reply(body: Any, n: Any) -> Any:
        prompt, bound = sum(len(message["content"]) for message in body["messages"]), body["max_tokens"]
        if prompt + bound > size:
            return (
                400,
                {},
                vllm(
                    f"This model's maximum context length is {size} tokens. However, you requested {bound} output "
                    f"tokens and your prompt contains {prompt} input tokens, for a total of {prompt + bound} tokens."
                ),
            )
        return chat("It is long and ", finish_reason="length")

    return reply


def test_the_call_is_made_again_with_what_is_free() -> None:
    with openai_server(window(1000)) as server:
        long, short = chat_request("x" * 800, system="", max_tokens=300), chat_request(max_tokens=300)
        first, second = said_by(OpenAIChat("o", base_url=server.url), long, short)
        assert [seen.body["max_tokens"] for seen in server.requests] == [300, 200, 300]
    assert (first.outcome, first.attempts, first.finish_reason, first.max_tokens) == ("ok", 2, "length", 200)
    assert second.max_tokens is None


def test_a_server_that_refuses_what_it_called_free_is_not_asked_for_ever() -> None:
    def moody(body: Any, n: Any) -> Any:
        return error(400, f"maximum context length is 4096 tokens, you requested {4000 + body['max_tokens']} tokens")

    with openai_server(moody) as server:
        (said,) = said_by(OpenAIChat("o", base_url=server.url), chat_request(max_tokens=1024))
        assert len(server.requests) <= 2
    assert said.outcome == "too_long"


def test_a_transcript_tells_the_limit_of_a_reply_and_a_replay_too(tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 1)
    with openai_server(window(3000)) as server:
        command = ("run", questions, "--model", "openai/m", "--base-url", server.url, "--out", tmp_path / "out")
        protocol = ("--protocol", "cot", "--set", "max_tokens=2900")
        done = madke(*command, *protocol)
    assert done.returncode in (0, 1), done.stderr
    (transcript,) = read_transcripts(tmp_path / "out")
    limit = transcript.rounds[0].turns[0].stance.max_tokens
    assert limit is not None
    assert MIN_FREE <= limit < 2900
    with CallStore(tmp_path / "out" / "calls.sqlite") as store:
        (call,) = store.calls()
    assert call.completion.max_tokens == limit
    shown = madke("report", tmp_path / "out", "--question", transcript.id).stdout
    assert f"reply limited to {limit} tokens" in " ".join(shown.split())
    assert madke(*command, *protocol, "--replay").returncode == done.returncode
    assert list(read_transcripts(tmp_path / "out")) == [transcript]
