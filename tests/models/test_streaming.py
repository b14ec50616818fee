"""Streamed replies, and servers that take their time; ``test_limiter.py`` has the time limits themselves."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import madke
from madke.core.events import CallDelta, DebateFinished
from tests.models.wire import CHUNKS, WHOLE, ask, events, exchange, failure, parts
from tests.support.chat_requests import chat_request
from tests.support.openai_server import chat, error, openai_server

both = pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
_, EVENT_STREAM, TEXT = events(CHUNKS)
LINES = TEXT.encode().splitlines(keepends=True)


@both
def test_a_part_of_a_reply_is_heard_before_the_reply_ends(transport: Any) -> None:
    heard: list[str] = []
    text, token = threading.Event(), threading.Event()

    def hear(part: str) -> None:
        heard.append(part)
        text.set()

    def pieces() -> Iterator[bytes]:
        yield b"".join(LINES[:5])
        assert token.wait(10)  # hidden reasoning is a token too
        yield b"".join(LINES[5:8]) + LINES[8][:40]  # the cut is within a line
        assert text.wait(10)
        yield LINES[8][40:] + b"".join(LINES[9:])

    request = chat_request(on_delta=hear, on_token=token.set)
    done = exchange(lambda body, n: (200, EVENT_STREAM, pieces()), request, transport=transport)
    assert heard == ["Lake ", "Baïkal"]
    assert parts(done.said[0]) == WHOLE
    assert (done.bodies[0]["stream"], done.bodies[0]["stream_options"]) == (True, {"include_usage": True})


def test_a_server_that_only_streams_is_streamed_from_and_assembled() -> None:
    refusal = error(400, "This model only support stream mode, please enable the stream parameter.")
    assert parts(ask(lambda body, n: events(CHUNKS) if body.get("stream") else refusal)) == WHOLE


def test_a_server_that_streams_without_usage_is_streamed_from_only_where_the_text_is_wanted() -> None:
    requests = [*[chat_request(on_token=print)] * 2, chat_request(on_delta=print)]
    done = exchange(lambda body, n: events(CHUNKS[:-1]) if "stream" in body else chat(), *requests)
    assert ["stream" in body for body in done.bodies] == [True, False, True]


def test_a_debate_yields_the_parts_of_replies_if_asked() -> None:
    async def heard(url: str, **asked: Any) -> Any:
        options = madke.RunOptions(base_url=url)
        settings = {"rounds": 1, "judge_asked": "always"}
        asked = {"model": "openai/m", "sources": "none", "options": options, "settings": settings, **asked}
        return [event async for event in madke.stream("Which lake is the deepest?", **asked)]

    with openai_server(lambda body, n: events(CHUNKS) if "stream" in body else chat("Lake Baïkal")) as server:
        *told, last = asyncio.run(heard(server.url, deltas=True))
        *plain, _ = asyncio.run(heard(server.url))
    deltas = [event for event in told if isinstance(event, CallDelta)]
    assert {event.purpose.stage for event in deltas} == {"speak", "judge", "summarize"}
    for agent in ("Debater 1", "Debater 2"):
        assert [event.text for event in deltas if event.purpose.agent == agent] == ["Lake ", "Baïkal"]
    assert not any(isinstance(event, CallDelta) for event in plain)
    assert isinstance(last, DebateFinished)
    assert last.transcript.rounds[0].turns[0].stance.text == "Lake Baïkal"
    assert last.transcript.usage["speak"].completion_tokens == 10
    assert not last.transcript.usage["speak"].estimated


def test_a_reply_that_drips_may_take_longer_than_the_timeout() -> None:
    def pieces() -> Iterator[bytes]:
        for line in LINES:
            time.sleep(0.06)
            yield line

    said = ask(lambda body, n: (200, EVENT_STREAM, pieces()), chat_request(on_token=print), timeout=0.5)
    assert said.seconds > 0.5
    assert parts(said) == WHOLE


def test_a_server_that_never_answers_is_told_from_a_slow_one(caplog: pytest.LogCaptureFixture) -> None:
    given_up = threading.Event()

    def hang(body: Any, n: int) -> Any:
        given_up.wait(10)
        return chat()

    with caplog.at_level(logging.WARNING):
        failed = failure(hang, timeout=0.1)
    given_up.set()
    assert failed.timed_out
    assert "in time" in failed.reason
    (line,) = [record.getMessage() for record in caplog.records]
    assert "openai/m" in line


@both
def test_a_reply_that_stops_in_the_middle_is_given_up_and_its_connection_closed(transport: Any) -> None:
    given_up, gone = threading.Event(), threading.Event()

    def pieces() -> Iterator[bytes]:
        try:
            yield b"".join(LINES[:6])
            given_up.wait(10)
            while True:  # until the connection is found closed
                yield b": still there\n" * 1000
        finally:
            gone.set()

    def reply(body: Any, n: int) -> Any:
        return 200, EVENT_STREAM, pieces()

    assert failure(reply, chat_request(on_token=print), transport=transport, timeout=0.2).timed_out
    given_up.set()
    assert gone.wait(10)
