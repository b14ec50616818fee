"""Reranker endpoints: both forms of ``/rerank``, keys, and bad replies."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Message, Purpose
from madke.core.errors import CallError, UserError
from madke.models.chat_models import close
from madke.models.endpoint import ModelEntries, read_models
from madke.models.services import open_rerank_endpoint
from tests.support.openai_server import Reply, openai_server


def request(*passages: str) -> ChatRequest:
    texts = ("Who?", *passages)
    purpose = Purpose(question="q", stage="rerank", agent="r", round=1)
    messages = tuple(Message(role="user", content=text) for text in texts)
    return ChatRequest(messages=messages, purpose=purpose, temperature=0.0, max_tokens=0)


def scored(name: str, *passages: str, models: ModelEntries | None = None) -> Completion:
    """The completion of one request."""

    async def ask() -> Completion:
        model = open_rerank_endpoint(name, models or ModelEntries())
        try:
            return await model.complete(request(*passages))
        finally:
            await close(model)

    return asyncio.run(ask())


def by_length(body: dict[str, Any], n: int) -> Reply:
    """As vLLM, Jina and Cohere answer: best first."""
    scores = sorted(((len(text), at) for at, text in enumerate(body["documents"])), reverse=True)
    results = [{"index": at, "relevance_score": score} for score, at in scores]
    return 200, {}, {"id": "r", "results": results, "usage": {"total_tokens": 40}}


def tei(body: dict[str, Any], n: int) -> Reply:
    """As text-embeddings-inference answers."""
    if "texts" not in body:
        return (
            422,
            {"Content-Type": "text/plain"},
            "Failed to deserialize the JSON body: missing field `texts` at line 1",
        )
    if len(body["texts"]) > 32:
        return 422, {}, {"error": "batch size 40 > maximum allowed batch size 32", "error_type": "Validation"}
    return 200, {}, [{"index": at, "score": len(text)} for at, text in enumerate(body["texts"])]


def test_an_endpoint_scores_passages_in_one_request() -> None:
    with openai_server(by_length) as server:
        completion = scored(f"small@{server.url}", "a", "ccc", "bb")
    (seen,) = server.requests
    assert json.loads(completion.text) == [1, 3, 2]
    assert completion.usage.prompt_tokens == 40
    assert not completion.usage.estimated
    assert seen.path.endswith("/rerank")
    assert seen.body == {"model": "small", "query": "Who?", "documents": ["a", "ccc", "bb"]}


def test_the_form_of_tei_is_detected_and_sent_in_batches() -> None:
    with openai_server(tei) as server:
        completion = scored(f"bge@{server.url}", *("x" * n for n in range(40)))
    assert json.loads(completion.text) == list(range(40))
    assert [len(seen.body.get("texts", ())) for seen in server.requests] == [0, 32, 8]
    assert completion.usage.estimated


@pytest.mark.parametrize("key", ["sk-0123456789", None])
def test_a_key_goes_only_where_its_entry_says(key: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    monkeypatch.setenv("RERANK_KEY", "sk-0123456789")
    with openai_server(by_length) as server:
        file = tmp_path / "models.yaml"
        file.write_text(f"judge: {{base_url: '{server.url}'{', key: RERANK_KEY' if key else ''}, model: m-2}}\n")
        scored("judge", "a", models=read_models(file))
        scored(f"judge@{server.url}", "a")
    sent = [seen.headers.get("authorization") for seen in server.requests]
    assert sent == [f"Bearer {key or 'no-key'}", "Bearer no-key"]
    assert server.requests[0].body["model"] == "m-2"


@pytest.mark.parametrize("name", ["other", "openai/gpt-4o"])
def test_an_unknown_reranker_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"unknown reranker .* expected llm, hf/NAME_OR_PATH, NAME@URL"):
        open_rerank_endpoint(name, ModelEntries())


@pytest.mark.parametrize(
    "reply",
    [
        (200, {}, {"results": [{"index": 0, "relevance_score": 1}]}),  # one of two
        (200, {}, {"results": [{"index": 0, "relevance_score": None}, {"index": 1, "relevance_score": 1}]}),
        (200, {}, '{"results": [{"index": 0, "score": NaN}, {"index": 1, "score": 1}]}'),
        (200, {}, f'{{"results": [{{"index": 0, "score": 1{"0" * 400}}}, {{"index": 1, "score": 1}}]}}'),
        (200, {}, "<html>"),
        (200, {}, "[" * 100_000),
        (401, {}, {"error": {"message": "bad key"}}),
        (503, {"Retry-After": "1"}, "busy"),
    ],
)
def test_a_reply_without_all_scores_fails_the_attempt(reply: Reply) -> None:
    with openai_server(reply) as server, pytest.raises(CallError) as failure:
        scored(f"small@{server.url}", "a", "b")
    assert failure.value.retryable == (reply[0] == 503)


@pytest.mark.parametrize(("passages", "stated", "billed"), [(3, None, 1), (250, None, 3), (3, 2, 2), (3, 9, 1)])
def test_the_searches_of_a_reply_are_counted(passages: int, stated: int | None, billed: int) -> None:
    """A provider that bills by the search may count a long passage several times, and says so."""

    def reply(body: dict[str, Any], n: int) -> Reply:
        status, headers, whole = by_length(body, n)
        return status, headers, whole | ({"meta": {"billed_units": {"search_units": stated}}} if stated else {})

    with openai_server(reply) as server:
        completion = scored(f"small@{server.url}", *("x" * (n + 1) for n in range(passages)))
    assert completion.usage.searches == billed
