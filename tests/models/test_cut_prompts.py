"""Prompts that a server cuts without an error, found in its own count of their tokens."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from madke.models.openai_client import OpenAIChat
from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from tests.support.chat_requests import chat_request, said_by
from tests.support.cli import madke
from tests.support.openai_server import USAGE, chat, openai_server

ENGLISH = "The river runs past the mill and the old bridge near the square. " * 40
GERMAN = "Die Bundeshauptstadt Berlin ist mit rund 3,8 Millionen Einwohnern die bevölkerungsreichste Stadt. " * 30
RUSSIAN = "Москва является столицей России и крупнейшим по численности населения городом страны. " * 30
COUNTED = {
    # text: its tokens in Qwen2.5's and in SmolLM2's tokenizer
    ENGLISH: (561, 561),
    "莫斯科是俄罗斯的首都、位于东欧平原、人口超过一千二百万。这座城市历史悠久、是政治、经济和文化的中心。"
    * 60: (1680, 5460),
    "東京は日本の首都であり、世界最大の都市圏を形成している。人口は約千四百万人である。" * 60: (1560, 4200),
    "서울은 대한민국의 수도이며 인구는 약 천만 명이다. 한강이 도시를 가로질러 흐른다." * 50: (1800, 4650),
    "मॉस्को रूस की राजधानी है और यूरोप का सबसे बड़ा शहर है। " * 50: (2751, 3250),
    "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทยและเป็นเมืองที่มีประชากรมากที่สุด " * 30: (901, 4050),
    "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها من حيث عدد السكان. " * 30: (633, 1771),
    RUSSIAN: (603, 1951),
    GERMAN: (811, 1081),
    "12 345 678.90, 1,234; 2001-04-05 " * 80: (2640, 2640),
    "| --- | --- | --- |\n| a | b | c |\n" * 80: (1120, 1280),
    "Name: ______________________ Date: ________________\n" * 50: (450, 500),
    ("word" + " " * 60 + "word\n") * 50: (200, 300),
}  # fmt: skip


def test_a_whole_prompt_of_any_script_raises_no_alarm() -> None:
    requests = [chat_request(text, system="") for text in COUNTED for _ in range(2)]
    counts = iter(each for tokens in COUNTED.values() for each in tokens)

    def counting(body: Any, n: Any) -> Any:
        return chat(usage={**USAGE, "prompt_tokens": next(counts), "total_tokens": None})

    with openai_server(counting) as server:
        model = OpenAIChat("o", base_url=server.url)
        assert not any(said_by(model, request)[0].usage.server_cut for request in requests)


PART = {"prompt_tokens": 610, "completion_tokens": 5}
LONG = ENGLISH * 10
"""5,400 words: 5,610 tokens of Qwen2.5."""


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {**USAGE, "prompt_tokens": 0},
        {**USAGE, "prompt_tokens": None},
        {**PART, "prompt_tokens_details": {"cached_tokens": 5000}},
        {**PART, "cache_read_input_tokens": 4000, "cache_creation_input_tokens": 1000},
        {**PART, "total_tokens": 5615},
        {**PART, "prompt_tokens": 5610, "prompt_tokens_details": {"cached_tokens": 5600}},
    ],
)
def test_servers_that_count_otherwise_raise_no_alarm(usage: Any, caplog: pytest.LogCaptureFixture) -> None:
    with openai_server(chat(usage=usage)) as server:
        (said,) = said_by(OpenAIChat("o", base_url=server.url), chat_request(LONG))
    assert not said.usage.server_cut
    assert not caplog.records


def cutting(body: Any, n: Any) -> Any:
    """Ollama, with a token for four characters; of a prompt that exceeds the window, half a window is kept."""
    tokens = sum(len(message["content"]) for message in body["messages"]) // 4
    kept = tokens if tokens <= 4096 else 2050
    return chat("The answer is [Paris].", usage={"prompt_tokens": kept, "completion_tokens": 5})


def test_the_warning_comes_once_and_names_the_cure(caplog: pytest.LogCaptureFixture) -> None:
    with openai_server(cutting) as server, caplog.at_level(logging.WARNING):
        said = said_by(OpenAIChat("o", base_url=server.url), *(chat_request(text) for text in (LONG, "Hi", LONG)))
    assert [each.usage.server_cut for each in said] == [True, False, True]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("openai/o: the server counted 2,050 tokens")
    for cure in ("num_ctx 8192", "OLLAMA_CONTEXT_LENGTH=8192", "extra_body"):
        assert cure in line


def test_a_run_counts_such_calls_and_scores_show_them(tmp_path: Path) -> None:
    texts = [ENGLISH] * 9
    question = {"id": "q", "question": "What is the capital of France?", "golden_answers": ["Paris"]}
    passages = [
        {"source": "notes", "key": f"d{n}", "title": f"Town {n}", "text": f"{n} mills. {text}", "score": 1, "rank": n}
        for n, text in enumerate(texts)
    ]
    (tmp_path / "q.jsonl").write_text(json.dumps(question) + "\n")
    (tmp_path / "pools.jsonl").write_text(
        json.dumps({"id": "q", "question": question["question"], "passages": passages, "partial": {}}) + "\n"
    )
    out, pools = tmp_path / "out", ("--pools", tmp_path / "pools.jsonl", "--sources", "notes")
    with openai_server(cutting) as server:
        protocol = ("--protocol", "rag", "--set", "per_source=9")
        endpoint = ("--model", "openai/m", "--base-url", server.url)
        done = madke("run", tmp_path / "q.jsonl", *pools, *protocol, *endpoint, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the server counted") == 1
    (debate,) = read_transcripts(out)
    assert debate.total.server_cut == 1
    with CallStore(out / "calls.sqlite") as store:
        assert [call.completion.usage.server_cut for call in store.calls()] == [True]
    assert "cut prompts" in madke("score", out).stdout
