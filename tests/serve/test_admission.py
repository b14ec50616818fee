"""No request keeps its place, whatever it holds; and none starts beyond a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.serve.serving import Serving, Upstream, body_of, endpoint, post, response, serving, wait_for
from tests.support.openai_server import USAGE

QUESTION = "Who wrote book 1?"
BODY = body_of(QUESTION)
CALLS = 4
"""Calls of a debate without sources."""


def sent(server: Serving, body: dict[str, Any] | bytes, path: str = "/v1/chat/completions") -> Any:
    return response(server.raw(post(body, path)))


def is_idle(server: Serving) -> bool:
    return (server.debates.turns, server.debates.running) == (0, 0)


@pytest.mark.parametrize(
    ("name", "echoed"),
    [("фы", "%D1%84%D1%8B"), ("a\r\nset-cookie: b", "a%0D%0Aset-cookie%3A%20b"), ("x" * 5000, "x" * 1000 + "...")],
)
def test_the_name_of_a_field_never_costs_an_answer_or_a_place(
    name: str, echoed: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream, run={"concurrency": 1}, queue=1) as server:
        for _ in range(3):  # more than the places
            status, headers, content = sent(server, {**BODY, name: 1})
            assert (status, headers["x-madke-ignored"]) == (200, echoed)
            assert json.loads(content)["choices"][0]["message"]["content"] == "Author 1"
            wait_for(lambda: is_idle(server))


SURROGATES = [
    ("/v1/chat/completions", b'{"model":"madke","messages":[{"role":"user","content":"x \\ud800"}]}'),
    ("/page/debates", b'{"protocol":"madke","question":"x","instructions":"\\ud800"}'),
    ("/v1/chat/completions", b'{"model":"madke","messages":' + b"[" * 5000 + b"]" * 5000 + b"}"),
]


@pytest.mark.parametrize(("path", "content"), SURROGATES)
def test_half_of_a_surrogate_pair_is_a_mistake_of_the_client(
    path: str, content: bytes, upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream) as server:
        status, _, body = sent(server, content, path)
        assert (status, json.loads(body)["error"]["type"]) == (400, "invalid_request_error")
        wait_for(lambda: is_idle(server))
        whole = {**BODY, "messages": [{"role": "user", "content": f"{QUESTION} 😀"}]}  # a whole pair in JSON
        assert sent(server, whole)[0] == 200
    assert len(upstream.calls) == CALLS


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {**BODY, "model": "unknown"}),
        ("/page/debates", {"protocol": "unknown", "question": ""}),
    ],
)
def test_a_body_is_only_parsed_before_its_admission(
    path: str, body: dict[str, Any], upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream) as server:
        assert sent(server, body, path)[0] in (400, 404)
        server.debates.draining = True
        assert sent(server, body, path)[0] == 503, "what is wrong with it has not been looked for"
    assert upstream.calls == []


def _cost(limit: str, tmp_path: Path, debates: int) -> dict[str, Any]:
    """The limit that this number of debates reaches."""
    tokens = debates * CALLS * (USAGE["prompt_tokens"] + USAGE["completion_tokens"])
    if limit == "tokens":
        return {"token_budget": tokens}
    prices = tmp_path / "prices.yaml"
    prices.write_text("openai/m: {prompt: 1.0, completion: 1.0}\n")
    return {"max_cost": tokens / 1e6, "prices": prices}


@pytest.mark.parametrize("limit", ["tokens", "cost"])
def test_requests_that_wait_do_not_start_beyond_a_limit(limit: str, tmp_path: Path) -> None:
    run = {"concurrency": 2, **_cost(limit, tmp_path, debates=3)}
    with endpoint(seconds=0.05) as upstream:
        with serving(tmp_path / "out", upstream, run=run) as server:
            asked = [server.ask(f"Who wrote book {n}?") for n in range(20)]
            statuses = [(status, body) for status, _, body in map(response, asked)]
            wait_for(lambda: is_idle(server))
        assert {status for status, _ in statuses} == {200, 429}
        assert all(b"insufficient_quota" in body for status, body in statuses if status == 429)
        assert 3 <= sum(status == 200 for status, _ in statuses) <= 4, "the limit, and what ran at the time"
        calls = len(upstream.calls)
        assert calls <= 4 * CALLS
        with serving(tmp_path / "out", upstream, run=run) as server:  # the next server knows what was spent
            assert sent(server, BODY)[0] == 429
            streamed = {**BODY, "stream": True}
            assert sent(server, streamed)[0] == 429
        assert len(upstream.calls) == calls


def test_a_request_that_waited_for_the_whole_deadline_does_not_start(tmp_path: Path) -> None:
    with endpoint(seconds=0.4) as upstream:
        with serving(tmp_path, upstream, run={"concurrency": 1}, deadline=0.6) as server:
            asked = [server.ask(f"Who wrote book {n}?") for n in (1, 2)]
            wait_for(lambda: (server.debates.running, server.debates.waiting) == (1, 1))
            assert [status for status, _, _ in map(response, asked)] == [504, 504]
            wait_for(lambda: is_idle(server))
        assert not any("book 2" in call for call in upstream.calls)


def test_a_server_that_drains_does_not_start_what_waits(tmp_path: Path) -> None:
    with endpoint(seconds=0.3) as upstream:
        with serving(tmp_path, upstream, run={"concurrency": 1}) as server:
            first = server.ask("Who wrote book 1?")
            wait_for(lambda: server.debates.running == 1)
            second = server.ask("Who wrote book 2?")
            wait_for(lambda: server.debates.waiting == 1)
            server.loop.call_soon_threadsafe(server.server.drain)
            assert response(first)[0] == 200
            status, headers, _ = response(second)
            assert status == 503
            assert headers["retry-after"]
        assert not any("book 2" in call for call in upstream.calls)
