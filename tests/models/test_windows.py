"""Prompts near the end of a window: a reply gets what is free, and prompts that a server cuts silently are found."""

from pathlib import Path
from typing import Any

import pytest

from madke.models.openai_wire import MIN_FREE, ServerError, free_tokens
from madke.runs.directory import read_transcripts
from tests.models.wire import ask, exchange, vllm
from tests.support.chat_requests import chat_request
from tests.support.cli import madke
from tests.support.dataset import write_dataset
from tests.support.openai_server import USAGE, chat, openai_server

WINDOW = "This model's maximum context length is 4096 tokens"
FREE = [
    f"{WINDOW}. However, you requested 4431 tokens (3407 in the messages, 1024 in the completion).",  # OpenAI, DeepSeek
    f"{WINDOW}. However, you requested 1024 output tokens and your prompt contains 3407 input tokens.",  # vLLM
    f"{WINDOW}. You requested a total of 4431 tokens: 3407 tokens from the input messages and 1024 tokens.",  # SGLang
    f"{WINDOW}. However, you requested about 4,431 tokens (3,407 of text input, 1,024 in the output).",  # OpenRouter
    f"{WINDOW}. However, you requested 4431 tokens.",
    "input length and `max_tokens` exceed context limit: 3407 + 1024 > 4096, decrease input length or `max_tokens`",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3407 `inputs` tokens",  # text-generation-inference
]
NONE_FREE = [
    f"{WINDOW}. However, your messages resulted in 4988 tokens.",
    f"{WINDOW} and your request has 4050 input tokens.",
    "request (9120 tokens) exceeds the available context size (4096 tokens), try increasing it",
]


@pytest.mark.parametrize(("message", "free"), [*((each, 689) for each in FREE), *((each, None) for each in NONE_FREE)])
def test_what_is_free_is_read_in_each_wording_if_it_is_enough(message: str, free: int | None) -> None:
    assert free_tokens(ServerError.read(400, vllm(message)), 1024) == free


def window(size: int) -> Any:
    """A vLLM whose prompts have a token for each character."""

    def reply(body: Any, n: int) -> Any:
        prompt, bound = sum(len(message["content"]) for message in body["messages"]), body["max_tokens"]
        if prompt + bound > size:
            stated = f"This model's maximum context length is {size} tokens. However, you requested {bound} output"
            return 400, {}, vllm(f"{stated} tokens and your prompt contains {prompt} input tokens.")
        return chat("It is long and ", finish_reason="length")

    return reply


def test_the_call_is_made_again_with_what_is_free() -> None:
    long, short = chat_request("x" * 800, system="", max_tokens=300), chat_request(max_tokens=300)
    done = exchange(window(1000), long, short)
    first, second = done.said
    assert [body["max_tokens"] for body in done.bodies] == [300, 200, 300]
    assert (first.outcome, first.attempts, first.finish_reason, first.max_tokens) == ("ok", 2, "length", 200)
    assert second.max_tokens is None


def test_a_transcript_tells_the_limit_of_a_reply_and_a_replay_too(tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 1)
    protocol = ("--protocol", "cot", "--set", "max_tokens=2900")
    with openai_server(window(3000)) as server:
        endpoint = ("--model", "openai/m", "--base-url", server.url)
        command = ("run", questions, *endpoint, *protocol, "--out", tmp_path / "out")
        done = madke(*command)
    (transcript,) = read_transcripts(tmp_path / "out")
    limit = transcript.rounds[0].turns[0].stance.max_tokens
    assert MIN_FREE <= limit < 2900
    shown = madke("report", tmp_path / "out", "--question", transcript.id).stdout
    assert f"reply limited to {limit} tokens" in " ".join(shown.split())
    assert madke(*command, "--replay").returncode == done.returncode
    assert list(read_transcripts(tmp_path / "out")) == [transcript]


# Prompts that are cut without an error, found in the server's own count of their tokens

ENGLISH = "The river runs past the mill and the old bridge near the square. " * 40
LONG = ENGLISH * 10
"""5,400 words: 5,610 tokens of Qwen2.5."""
COUNTED = {
    # text: the fewest tokens that Qwen2.5 and SmolLM2 count
    ENGLISH: 561,
    "Die Bundeshauptstadt Berlin ist mit rund 3,8 Millionen Einwohnern die bevölkerungsreichste Stadt. " * 30: 811,
    "Москва является столицей России и крупнейшим по численности населения городом страны. " * 30: 603,
    "東京は日本の首都であり、世界最大の都市圏を形成している。人口は約千四百万人である。" * 60: 1560,
    "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها من حيث عدد السكان. " * 30: 633,
    "12 345 678.90, 1,234; 2001-04-05 " * 80: 2640,
    "Name: ______________________ Date: ________________\n" * 50: 450,
}


def test_a_whole_prompt_of_any_script_raises_no_alarm() -> None:
    def counting(body: Any, n: int) -> Any:
        tokens = COUNTED[body["messages"][-1]["content"]]
        return chat(usage={"prompt_tokens": tokens, "completion_tokens": 5})

    done = exchange(counting, *(chat_request(text, system="") for text in COUNTED))
    assert not any(said.usage.server_cut for said in done.said)


PART = {"prompt_tokens": 610, "completion_tokens": 5}


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {**PART, "prompt_tokens_details": {"cached_tokens": 5000}},
        {**PART, "cache_read_input_tokens": 4000, "cache_creation_input_tokens": 1000},
        {**PART, "total_tokens": 5615},
    ],
)
def test_servers_that_count_otherwise_raise_no_alarm(usage: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert not ask(chat(usage=usage), chat_request(LONG)).usage.server_cut
    assert not caplog.records
    assert ask(chat(usage=PART), chat_request(LONG)).usage.server_cut


def cutting(body: Any, n: int) -> Any:
    """Ollama, with a token for four characters; of a prompt that exceeds the window, half a window is kept."""
    tokens = sum(len(message["content"]) for message in body["messages"]) // 4
    kept = tokens if tokens <= 4096 else 2050
    return chat("The answer is [Paris].", usage={**USAGE, "prompt_tokens": kept, "total_tokens": None})


def test_a_run_counts_such_calls_and_scores_show_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "q.csv").write_text(f"question,answers\n{LONG}?,Paris\n{LONG}Where is it?,Paris\n")
    with openai_server(cutting) as server:
        asked = ("--sources", "none", "--protocol", "cot", "--model", "openai/m", "--base-url", server.url)
        done = madke("run", tmp_path / "q.csv", *asked, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("openai/m: the server counted 2,050 tokens") == 1
    for cure in ("num_ctx 16384", "OLLAMA_CONTEXT_LENGTH=16384", "extra_body"):
        assert cure in " ".join(done.stderr.split())
    assert [debate.total.server_cut for debate in read_transcripts(out)] == [1, 1]
    assert "cut prompts" in madke("score", out).stdout
