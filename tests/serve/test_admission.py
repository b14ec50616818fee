"""No request keeps its place, whatever it holds; and none starts beyond a limit."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.serve.serving import Serving, Upstream, body_of, endpoint, post, response, serving, wait_for
from tests.support.openai_server import USAGE

QUESTION = "Who wrote book 1?"
BODY = body_of(QUESTION)
CALLS = 4
"""Calls of a debate without sources."""

CHAT, PAGE = "/v1/chat/completions", "/page/debates"


def sent(server: Serving, body: dict[str, Any] | bytes, path: str = CHAT) -> Any:
    return response(server.raw(post(body, path)))


def test_the_name_of_a_field_never_costs_an_answer_or_a_place(upstream: Upstream, tmp_path: Path) -> None:
    echoes = {
        "фы": "%D1%84%D1%8B",
        "a\r\nset-cookie: b": "a%0D%0Aset-cookie%3A%20b",
        "x" * 5000: "x" * 1000 + "...",
    }
    with serving(tmp_path, upstream, run={"concurrency": 1}, queue=1) as server:  # fewer places than requests
        for name, echo in echoes.items():
            status, headers, content = sent(server, {**BODY, name: 1})
            assert (status, headers["x-madke-ignored"]) == (200, echo)
            assert json.loads(content)["choices"][0]["message"]["content"] == "Author 1"
            wait_for(lambda: server.is_idle)


def test_text_that_cannot_be_read_is_a_mistake_of_the_client(upstream: Upstream, tmp_path: Path) -> None:
    half_of_a_pair = b'{"model":"madke","messages":[{"role":"user","content":"x \\ud800"}]}'
    unreadable = [
        (CHAT, half_of_a_pair),
        (PAGE, b'{"protocol":"madke","question":"x","instructions":"\\ud800"}'),
        (CHAT, b'{"model":"madke","messages":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        *((CHAT, content) for content in (b"{", b"[]", b'{"model": 3}', b"\xff\xfe")),
    ]
    with serving(tmp_path, upstream) as server:
        for path, content in unreadable:
            status, _, body = sent(server, content, path)
            assert (status, json.loads(body)["error"]["type"]) == (400, "invalid_request_error")
        wait_for(lambda: server.is_idle)
        assert upstream.calls == []
        assert sent(server, half_of_a_pair.replace(b"\\ud800", b"\\ud83d\\ude00"))[0] == 200


def test_a_body_is_only_parsed_before_its_admission(upstream: Upstream, tmp_path: Path) -> None:
    wrong = [(CHAT, {**BODY, "model": "unknown"}), (PAGE, {"protocol": "unknown", "question": ""})]
    with serving(tmp_path, upstream) as server:
        assert [sent(server, body, path)[0] for path, body in wrong] == [404, 404]
        server.debates.draining = True
        assert [sent(server, body, path)[0] for path, body in wrong] == [503, 503], "nobody looked at what is wrong"
    assert upstream.calls == []


def test_what_a_full_queue_or_a_server_that_ends_does_not_take_is_told_to_come_back(
    upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream, run={"concurrency": 1}, queue=1) as server:
        with upstream.holding("debater"):
            first = server.ask("Who wrote book 1?")
            wait_for(lambda: server.debates.running == 1)
            second = server.ask("Who wrote book 2?")
            wait_for(lambda: server.debates.waiting == 1)
            with pytest.raises(openai.RateLimitError) as refused:
                server.text(QUESTION)
            server.loop.call_soon_threadsafe(server.server.drain)
        assert int(refused.value.response.headers["retry-after"]) > 0
        assert refused.value.code == "queue_full"
        assert response(first)[0] == 200
        status, headers, _ = response(second)
    assert (status, int(headers["retry-after"]) > 0) == (503, True)
    assert not any("book 2" in call for call in upstream.calls)


TOKENS = 3 * CALLS * (USAGE["prompt_tokens"] + USAGE["completion_tokens"])
"""Of three debates."""


@pytest.mark.parametrize("limit", [{"token_budget": TOKENS}, {"max_cost": TOKENS / 1e6}])
def test_requests_that_wait_do_not_start_beyond_a_limit(limit: dict[str, float], tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("openai/m: {prompt: 1.0, completion: 1.0}\n")
    run = {"concurrency": 2, "prices": prices, **limit}
    with endpoint(seconds=0.02) as upstream:
        with serving(tmp_path / "out", upstream, run=run) as server:
            asked = [server.ask(f"Who wrote book {n}?") for n in range(20)]
            statuses = [(status, body) for status, _, body in map(response, asked)]
            wait_for(lambda: server.is_idle)
        assert {status for status, _ in statuses} == {200, 429}
        assert all(b"insufficient_quota" in body for status, body in statuses if status == 429)
        assert 3 <= sum(status == 200 for status, _ in statuses) <= 4, "the limit, and what ran at the time"
        calls = len(upstream.calls)
        assert calls <= 4 * CALLS
        with serving(tmp_path / "out", upstream, run=run) as server:  # the next server knows what was spent
            assert sent(server, BODY)[0] == 429
            assert sent(server, {**BODY, "stream": True})[0] == 429
        assert len(upstream.calls) == calls


def test_a_deadline_ends_a_debate_that_another_request_goes_on_with(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, run={"concurrency": 1}, deadline=1.0) as server:
        with upstream.holding("debater"):
            first = server.ask(QUESTION)
            wait_for(lambda: server.debates.running == 1)
            second = server.ask("Who wrote book 2?")
            assert [response(each)[0] for each in (first, second)] == [504, 504]
        wait_for(lambda: server.is_idle)
        assert not any("book 2" in call for call in upstream.calls), "it waited for the whole deadline"
        retrying = server.client(max_retries=5)  # a busy machine may reach the deadline again
        completion = retrying.chat.completions.create(**body_of(QUESTION))
        assert completion.choices[0].message.content == "Author 1"
        assert len(upstream.calls) == len({*upstream.calls}) == CALLS
