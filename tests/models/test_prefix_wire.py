"""Leaders over HTTP: servers with slots, and what providers want to know of a beginning."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from madke.models.endpoint import ModelEntry
from madke.models.openai_client import OpenAIChat
from tests.models.test_dialects import CHUNKS, events
from tests.models.test_prefixes import sibling
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import chat, openai_server

TIMINGS = {"cache_n": 12, "prompt_n": 8, "prompt_ms": 80.5, "predicted_n": 5}


def with_timings(text: str, *, stream: bool) -> Any:
    if not stream:
        status, headers, body = chat(text)
        return status, headers, {**body, "timings": TIMINGS}
    status, headers, body = events(CHUNKS)
    return (
        status,
        headers,
        body.replace("data: [DONE]", f"data: {json.dumps({'choices': [], 'timings': TIMINGS})}\n\ndata: [DONE]"),
    )


@pytest.mark.parametrize("stream", [True, False])
def test_llama_cpp_is_known_by_its_timings(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    with openai_server(lambda body, n: with_timings("Baikal", stream=stream)) as server:
        model = OpenAIChat("o", base_url=server.url)
        with caplog.at_level(logging.WARNING):
            said_by(model, chat_request(on_token=print))
    assert model.dialect.non_defaults() == {"slots": True}
    assert not caplog.records


# Hints


def body_of(dialect: dict[str, Any], *requests: Any) -> list[dict[str, Any]]:
    with openai_server(chat()) as server:
        entry = ModelEntry.model_validate({"dialect": dialect})
        said_by(OpenAIChat("o", base_url=server.url, entry=entry), *requests)
        return [seen.body for seen in server.requests]


def test_a_cache_key_is_a_hash_that_the_calls_of_a_question_share() -> None:
    questions = ("What is in /home/me?", "What is in /home/me?", "sk-12345678")
    requests = [sibling(n, question=question) for n, question in enumerate(questions)]
    first, second, other = (body["prompt_cache_key"] for body in body_of({"prompt_cache_key": True}, *requests))
    assert first == second != other
    assert all(re.fullmatch(r"[0-9a-f]{32}", key) for key in (first, other))


def test_openai_itself_gets_a_cache_key_and_others_only_if_they_are_known_to_take_it() -> None:
    assert OpenAIChat("o", base_url="https://api.openai.com/v1", needs_key=False).dialect.prompt_cache_key
    entry = ModelEntry.model_validate({"dialect": {"prompt_cache_key": False}})
    off = OpenAIChat("o", base_url="https://api.openai.com/v1", needs_key=False, entry=entry)
    assert not off.dialect.prompt_cache_key
    assert "prompt_cache_key" not in body_of({}, chat_request())[0]


def test_marks_stand_at_the_ends_of_what_siblings_share() -> None:
    (body,) = body_of({"cache_control": True}, chat_request("What?", system="Be brief."))
    mark = {"cache_control": {"type": "ephemeral"}}
    assert [message["content"] for message in body["messages"]] == [
        [{"type": "text", "text": "Be brief.", **mark}],
        [{"type": "text", "text": "What?", **mark}],
    ]
