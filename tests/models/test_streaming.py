"""Streamed replies, and servers that take their time; ``test_limiter.py`` has the time limits themselves."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.models.wire import CHUNKS, WHOLE, ask, events, exchange, failure, parts
from tests.support.chat_requests import chat_request
from tests.support.openai_server import chat

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


def test_a_server_that_streams_without_usage_is_streamed_from_only_where_the_text_is_wanted() -> None:
    requests = [*[chat_request(on_token=print)] * 2, chat_request(on_delta=print)]
    done = exchange(lambda body, n: events(CHUNKS[:-1]) if "stream" in body else chat(), *requests)
    assert ["stream" in body for body in done.bodies] == [True, False, True]


def test_a_reply_that_drips_may_take_longer_than_the_timeout() -> None:
    def pieces() -> Iterator[bytes]:
        for line in LINES:
            time.sleep(0.06)
            yield line

    said = ask(lambda body, n: (200, EVENT_STREAM, pieces()), chat_request(on_token=print), timeout=0.5)
    assert said.seconds > 0.5
    assert parts(said) == WHOLE


@both
def test_a_reply_that_stops_in_the_middle_is_given_up_and_its_connection_closed(
    transport: Any, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert "openai/m: the server did not answer in time" in caplog.text
