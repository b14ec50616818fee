"""Servers that take their time, on the wire. ``test_timeouts.py`` has the times themselves."""

import logging
import threading
from typing import Any

import pytest

from madke.core.errors import CallError
from madke.models.openai_client import OpenAIChat
from tests.models.test_dialects import CHUNKS, events
from tests.models.test_streaming import WHOLE, parts_of
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import chat, openai_server

PAUSE = 0.08
both = pytest.mark.parametrize("transport", ["aiohttp", "httpx"])

_, EVENT_STREAM, _BODY = events(CHUNKS)
LINES = _BODY.encode().splitlines(keepends=True)


def dripping(wait: Any) -> Any:
    """A stream in small pieces; ``wait()`` comes before each."""

    def pieces() -> Any:
        for line in LINES:
            wait()
            yield line

    return 200, EVENT_STREAM, pieces()


@both
def test_a_reply_that_drips_may_take_longer_than_the_timeout(transport: Any) -> None:
    with openai_server(lambda body, n: dripping(lambda: server.stopping.wait(PAUSE))) as server:
        (said,) = said_by(
            OpenAIChat("o", base_url=server.url, transport=transport, timeout=0.7), chat_request(on_token=print)
        )
    assert said.seconds > 0.7
    assert parts_of(said) == WHOLE


@both
def test_a_server_that_never_answers_is_told_from_a_slow_one(transport: Any, caplog: pytest.LogCaptureFixture) -> None:
    def hang(body: Any, n: Any) -> Any:
        server.stopping.wait(10)
        return chat()

    with openai_server(hang) as server, pytest.raises(CallError, match="in time") as caught:
        said_by(OpenAIChat("o", base_url=server.url, transport=transport, timeout=0.1), chat_request())
    assert caught.value.timed_out
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "openai/o" in line


@both
def test_a_reply_that_stops_in_the_middle_is_given_up_and_its_connection_closed(transport: Any) -> None:
    gone = threading.Event()

    def pieces() -> Any:
        try:
            yield b"".join(LINES[:6])
            server.stopping.wait(0.6)
            while True:  # until the connection is found closed
                yield b": still there\n" * 1000
        finally:
            gone.set()

    with openai_server(lambda body, n: (200, EVENT_STREAM, pieces())) as server:
        with pytest.raises(CallError) as caught:
            said_by(
                OpenAIChat("o", base_url=server.url, transport=transport, timeout=0.2), chat_request(on_token=print)
            )
        assert gone.wait(10)
    assert caught.value.timed_out


def test_a_server_that_streams_without_usage_is_streamed_from_only_where_the_text_is_wanted() -> None:
    with openai_server(lambda body, n: events(CHUNKS[:-1]) if "stream" in body else chat()) as server:
        model = OpenAIChat("o", base_url=server.url)
        said_by(model, *[chat_request(on_token=print)] * 2, chat_request(on_delta=print))
        assert ["stream" in seen.body for seen in server.requests] == [True, False, True]
