"""Clients that go away, come back, or ask again: what is paid, and what is not."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from madke.models.store import CallStore
from tests.serve.serving import Shelf, endpoint, serving, wait_for
from tests.support.forked import installed

QUESTION = "Who wrote book 1?"


def kill(connection: socket.socket) -> None:
    """End the connection as the kernel does for a killed process."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def stored(out: Path) -> int:
    """The number of calls in the stores that can answer."""
    total = 0
    for path in out.glob("*/calls.sqlite"):
        with CallStore(path) as store:
            total += sum(each.completion.outcome == "ok" for each in store.calls())
    return total


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_is_killed_ends_its_debate_and_pays_nothing_twice(stream: bool, tmp_path: Path) -> None:
    with endpoint(seconds=0.5) as upstream, serving(tmp_path, upstream) as server:
        connection = server.ask(QUESTION, stream=stream)
        wait_for(lambda: len(upstream.began) == 2)
        kill(connection)
        wait_for(lambda: server.debates.running == 0, seconds=1)
        time.sleep(1.2)
        assert len(upstream.began) == 2, "no call starts after the client has gone"
        assert stored(tmp_path) == 2, "calls under way finish and are stored"
        upstream.seconds = 0
        assert server.text(QUESTION) == "Author 1"
        assert len(upstream.calls) == len({*upstream.calls}) == 4, "the debate goes on where it was"


@pytest.mark.slow
def test_a_client_that_comes_back_at_once_joins_the_calls_under_way(tmp_path: Path) -> None:
    with endpoint(seconds=0.6) as upstream, serving(tmp_path, upstream) as server:
        connection = server.ask(QUESTION)
        wait_for(lambda: len(upstream.began) == 2)
        kill(connection)
        wait_for(lambda: server.debates.running == 0, seconds=1)
        assert server.text(QUESTION) == "Author 1"
        assert len(upstream.calls) == len({*upstream.calls}) == 4
        assert stored(tmp_path) == 4


@pytest.mark.slow
def test_an_sdk_that_times_out_and_retries_pays_nothing_twice(tmp_path: Path) -> None:
    with endpoint(seconds=0.5) as upstream, serving(tmp_path, upstream, sources=Shelf()) as server:
        client = server.client(timeout=0.8, max_retries=8)
        completion = client.chat.completions.create(model="madke", messages=[{"role": "user", "content": QUESTION}])
        assert completion.choices[0].message.content == "Author 1 [0]"
    assert len(upstream.calls) == len({*upstream.calls}) == 6
    (run,) = tmp_path.glob("madke-*")
    assert len((run / "transcripts.jsonl").read_bytes().splitlines()) == 1


def test_a_retry_of_a_delivered_answer_gets_it_again(tmp_path: Path) -> None:
    """It was lost on its way, or the client gave up while it came."""
    with endpoint() as upstream, serving(tmp_path, upstream) as server:
        server.text(QUESTION)
        assert server.text(QUESTION, extra_headers={"x-stainless-retry-count": "1"}) == "Author 1"
        assert len(upstream.calls) == 4


def test_asking_again_after_an_answer_debates_anew(tmp_path: Path) -> None:
    shelf = Shelf()
    with endpoint() as upstream, serving(tmp_path, upstream, sources=shelf) as server:
        assert [server.text(QUESTION) for _ in range(3)] == ["Author 1 [0]"] * 3
        assert len(upstream.calls) == 3 * 6
        assert len({json.loads(call)["seed"] for call in upstream.calls}) == 18, "each debate samples anew"
        assert shelf.queries == [QUESTION], "but the pool of a question stays"
    (run,) = tmp_path.glob("madke-*")
    lines = [json.loads(line) for line in (run / "transcripts.jsonl").read_text().splitlines()]
    assert [line["repeat"] for line in lines] == [0, 1, 2]


def test_equal_questions_at_the_same_time_are_separate_debates(tmp_path: Path) -> None:
    with endpoint(seconds=0.2) as upstream, serving(tmp_path, upstream) as server:
        connections = [server.ask(QUESTION) for _ in range(5)]
        for connection in connections:
            content = b""
            while b"Author 1" not in content:
                content += connection.recv(65536)
            connection.close()
    assert len(upstream.calls) == len({*upstream.calls}) == 20


def test_a_failed_answer_goes_on_and_only_failed_calls_are_made_again(tmp_path: Path) -> None:
    with endpoint() as upstream:
        good = upstream.__class__.__call__
        failing = {"on": True}

        def reply(self: Any, body: dict[str, Any], n: int) -> Any:
            if failing["on"] and body["messages"][0]["content"].startswith("You are the summarizer"):
                return 400, {}, {"error": {"message": "broken", "type": "t"}}
            return good(self, body, n)

        with pytest.MonkeyPatch.context() as patch, serving(tmp_path, upstream) as server:
            patch.setattr(upstream.__class__, "__call__", reply)
            page = {"protocol": "madke", "question": QUESTION}
            refused = server.client()._client.post(f"{server.url}/page/debates", json=page)
            assert '"code": "debate_failed"' in refused.text
            with pytest.raises(openai.InternalServerError):
                server.text(QUESTION)
            failing["on"] = False
            assert server.text(QUESTION) == "Author 1"
        # Three times with a schema, and after each refusal without a reason once without.
        assert Counter(Counter(upstream.calls).values()) == {1: 3, 3: 1, 2: 1}
    (run,) = tmp_path.glob("madke-*")
    assert len((run / "transcripts.jsonl").read_bytes().splitlines()) == 1


def test_a_deadline_ends_a_debate_that_another_request_goes_on_with(tmp_path: Path) -> None:
    with endpoint(seconds=0.4) as upstream, serving(tmp_path, upstream, deadline=0.5) as server:
        with pytest.raises(openai.InternalServerError) as late:
            server.text(QUESTION)
        assert late.value.status_code == 504
        for _ in range(5):
            try:
                assert server.text(QUESTION) == "Author 1"
                break
            except openai.InternalServerError:
                continue
        assert len(upstream.calls) == len({*upstream.calls}) == 4


@contextmanager
def process(out: Path, url: str, *args: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """``madke serve`` as a process."""
    command = [str(installed()), "serve", "--out", str(out), "--port", "0", "-m", "openai/m"]
    command += ["--base-url", url, "--sources", "none", "--protocols", "madke", "--set", "judge_asked=always", *args]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as running:
        line = running.stderr.readline()
        assert "serving madke at http://" in line, line + running.stderr.read()
        with openai.OpenAI(base_url=line.split(" at ")[1].strip(), api_key="none", max_retries=0) as client:
            try:
                yield running, client
            finally:
                running.kill()


def question_of(client: Any, text: str = QUESTION) -> str:
    completion = client.chat.completions.create(model="madke", messages=[{"role": "user", "content": text}])
    return completion.choices[0].message.content


@pytest.mark.slow
def test_a_killed_server_loses_no_paid_call_and_debates_anew_what_it_delivered(tmp_path: Path) -> None:
    with endpoint(seconds=0.3) as upstream:
        url = upstream.server.url
        with process(tmp_path, url) as (running, client):
            assert question_of(client, "Who wrote book 2?") == "Author 2"
            wait_for(lambda: b"delivered" in (tmp_path / "served.jsonl").read_bytes())
            hasty = client.with_options(timeout=0.05)
            with pytest.raises(openai.APITimeoutError):
                question_of(hasty)
            wait_for(lambda: stored(tmp_path) == 6)
            running.send_signal(signal.SIGKILL)
            running.wait()
        with process(tmp_path, url) as (_, client):
            assert question_of(client) == "Author 1"
            assert len(upstream.calls) == len({*upstream.calls}) == 8
            assert question_of(client, "Who wrote book 2?") == "Author 2"
            assert len(upstream.calls) == len({*upstream.calls}) == 12


@pytest.mark.slow
def test_a_server_that_is_told_to_stop_finishes_what_it_has_begun(tmp_path: Path) -> None:
    with endpoint(seconds=0.4) as upstream, process(tmp_path, upstream.server.url) as (running, client):
        stream = client.chat.completions.create(
            model="madke", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        next(iter(stream))
        wait_for(lambda: upstream.began)
        running.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        with pytest.raises(openai.InternalServerError) as refused:
            question_of(client, "Who wrote book 2?")
        assert refused.value.status_code == 503
        assert refused.value.response.headers["retry-after"]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Author 1"
        assert running.wait(10) == 0
        assert "Traceback" not in running.stderr.read()
    (run,) = tmp_path.glob("madke-*")
    record = json.loads((run / "run.json").read_text())
    assert len(record["spec"]["questions"]) == 1
    assert record["sessions"][0]["ended"] == "finished"


@pytest.mark.slow
def test_a_second_signal_does_not_wait_for_debates(tmp_path: Path) -> None:
    with endpoint(seconds=3) as upstream, process(tmp_path, upstream.server.url) as (running, client):
        stream = client.chat.completions.create(
            model="madke", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        wait_for(lambda: len(upstream.began) == 2)
        running.send_signal(signal.SIGINT)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        assert running.wait(8) == 0
        stream.close()
        assert len(upstream.began) == 2
    assert stored(tmp_path) == 2, "calls under way are stored even then"
