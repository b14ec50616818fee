"""Clients that go away, come back, or ask again: what is paid, and what is not."""

import json
import signal
import socket
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.serve.serving import Shelf, Upstream, body_of, endpoint, process, response, serving, stored, wait_for

QUESTION = "Who wrote book 1?"


def kill(connection: socket.socket) -> None:
    """End the connection as the kernel does for a killed process."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def assert_paid_once(upstream: Upstream, calls: int) -> None:
    assert len(upstream.calls) == len({*upstream.calls}) == calls


@pytest.mark.parametrize("stream", [True, False])
def test_a_killed_client_ends_its_debate_and_pays_nothing_twice(
    stream: bool, upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream) as server:
        with upstream.holding("debater"):
            connection = server.ask(QUESTION, stream=stream)
            wait_for(lambda: len(upstream.began) == 2)
            kill(connection)
            wait_for(lambda: server.debates.running == 0)
        wait_for(lambda: server.is_idle)
        assert stored(tmp_path) == 2, "calls under way finish and are stored"
        assert len(upstream.began) == 2, "no call starts after the client has gone"
        assert server.text(QUESTION) == "Author 1"
        assert_paid_once(upstream, 4)


def test_a_client_that_comes_back_at_once_joins_the_calls_under_way(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        with upstream.holding("debater"):
            connection = server.ask(QUESTION)
            wait_for(lambda: len(upstream.began) == 2)
            kill(connection)
            wait_for(lambda: server.debates.running == 0)
            again = server.ask(QUESTION)
            wait_for(lambda: server.debates.running == 1)
        assert response(again)[0] == 200
        assert_paid_once(upstream, 4)
        assert stored(tmp_path) == 4


def test_an_sdk_that_times_out_and_retries_pays_nothing_twice(tmp_path: Path) -> None:
    with endpoint(seconds=0.2) as upstream, serving(tmp_path, upstream, sources=Shelf()) as server:
        client = server.client(timeout=0.5, max_retries=8)
        completion = client.chat.completions.create(**body_of(QUESTION))
        assert completion.choices[0].message.content == "Author 1 [0]"
    assert_paid_once(upstream, 6)
    (run,) = tmp_path.glob("madke-*")
    assert len((run / "transcripts.jsonl").read_bytes().splitlines()) == 1


def test_asking_again_debates_anew_and_a_retry_gets_the_answer_again(upstream: Upstream, tmp_path: Path) -> None:
    shelf = Shelf()
    with serving(tmp_path, upstream, sources=shelf) as server:
        assert [server.text(QUESTION) for _ in range(3)] == ["Author 1 [0]"] * 3
        assert_paid_once(upstream, 3 * 6)
        assert len({json.loads(call)["seed"] for call in upstream.calls}) == 18, "each debate samples anew"
        assert shelf.queries == [QUESTION], "but the pool of a question stays"
        # The answer was lost on its way, or the client gave up while it came.
        assert server.text(QUESTION, extra_headers={"x-stainless-retry-count": "1"}) == "Author 1 [0]"
        assert_paid_once(upstream, 3 * 6)
    (run,) = tmp_path.glob("madke-*")
    lines = [json.loads(line) for line in (run / "transcripts.jsonl").read_text().splitlines()]
    assert [line["repeat"] for line in lines] == [0, 1, 2]


def test_equal_questions_at_the_same_time_are_separate_debates(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        with upstream.holding("debater"):
            connections = [server.ask(QUESTION) for _ in range(5)]
            wait_for(lambda: server.debates.running == 5)
        assert [response(each)[0] for each in connections] == [200] * 5
    assert_paid_once(upstream, 20)


def test_a_failed_answer_goes_on_and_only_failed_calls_are_made_again(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        upstream.broken.add("summarize")
        page = {"protocol": "madke", "question": QUESTION}
        refused = httpx2.post(f"{server.url}/page/debates", json=page)
        assert '"code": "debate_failed"' in refused.text
        with pytest.raises(openai.InternalServerError):
            server.text(QUESTION)
        upstream.broken.clear()
        assert server.text(QUESTION) == "Author 1"
    # Three times with a schema, and after each refusal without a reason once without.
    assert Counter(Counter(upstream.calls).values()) == {1: 3, 3: 1, 2: 1}
    (run,) = tmp_path.glob("madke-*")
    assert len((run / "transcripts.jsonl").read_bytes().splitlines()) == 1


def answer_to(client: Any, question: str = QUESTION) -> str:
    return str(client.chat.completions.create(**body_of(question)).choices[0].message.content)


@pytest.mark.slow
def test_a_killed_server_loses_no_paid_call_and_knows_what_it_delivered(upstream: Upstream, tmp_path: Path) -> None:
    url = upstream.server.url
    with process(tmp_path, url) as (running, client):
        assert answer_to(client, "Who wrote book 2?") == "Author 2"
        wait_for(lambda: b"delivered" in (tmp_path / "served.jsonl").read_bytes())
        with upstream.holding("debater"), pytest.raises(openai.APITimeoutError):
            answer_to(client.with_options(timeout=0.3))
        wait_for(lambda: stored(tmp_path) == 6)
        running.send_signal(signal.SIGKILL)
        running.wait()
    with process(tmp_path, url) as (_, client):
        assert answer_to(client) == "Author 1"
        assert_paid_once(upstream, 8)
        assert answer_to(client, "Who wrote book 2?") == "Author 2"
        assert_paid_once(upstream, 12)


@pytest.mark.slow
def test_a_server_that_is_told_to_stop_finishes_what_it_has_begun(upstream: Upstream, tmp_path: Path) -> None:
    with process(tmp_path, upstream.server.url) as (running, client):
        with upstream.holding("debater"):
            stream = client.chat.completions.create(**body_of(QUESTION, stream=True))
            wait_for(lambda: upstream.began)
            running.send_signal(signal.SIGTERM)
            health = str(client.base_url).replace("/v1/", "/health")
            wait_for(lambda: client._client.get(health).json()["status"] == "draining")
            with pytest.raises(openai.InternalServerError) as refused:
                answer_to(client, "Who wrote book 2?")
        assert refused.value.status_code == 503
        assert refused.value.response.headers["retry-after"]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Author 1"
        assert running.wait(10) == 0
        assert "Traceback" not in running.stderr.read()
    (run,) = tmp_path.glob("madke-*")
    record = json.loads((run / "run.json").read_text())
    assert len(record["spec"]["questions"]) == 1
    assert record["sessions"][0]["ended"] == "finished"


def test_a_second_signal_does_not_wait_for_debates(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, grace=60) as server:
        with upstream.holding("debater"), server.ask(QUESTION) as connection:
            wait_for(lambda: upstream.began)
            for _ in range(2):
                server.loop.call_soon_threadsafe(server.server.drain)
            assert connection.recv(65536) == b""
        server.thread.join(10)
    assert len(upstream.began) == stored(tmp_path), "calls under way are stored even then"
