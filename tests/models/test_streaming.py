"""Replies that are streamed because somebody listens to them; ``test_slow_servers.py`` has those of slow servers."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

import madke
from madke.core.chat import Usage
from madke.core.events import CallDelta, DebateFinished
from madke.models.openai_client import OpenAIChat
from tests.models.test_dialects import CHUNKS, events
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import chat, openai_server

WHOLE = ("Lake Baïkal", "It is deep.", "stop", Usage(prompt_tokens=20, completion_tokens=5))


def parts_of(said: Any) -> Any:
    return said.text, said.reasoning, said.finish_reason, said.usage


@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
@pytest.mark.parametrize(
    ("listener", "part", "expected"),
    # Hidden reasoning is a token too; only the first token is told.
    [("on_delta", "Ba", [("Lake ",), ("Baïkal",)]), ("on_token", 'It is deep."}}]}\n', [()])],
)
def test_a_part_of_a_reply_is_heard_before_the_reply_ends(
    transport: Any, listener: str, part: str, expected: list[tuple[str, ...]]
) -> None:
    heard: list[tuple[str, ...]] = []
    first_heard = threading.Event()

    def hear(*text: Any) -> None:
        heard.append(text)
        first_heard.set()

    status, headers, body = events(CHUNKS)
    cut = body.index(part) + len(part)

    def pieces() -> Any:
        yield body[:cut].encode()
        # The rest is sent only once the first part has been heard.
        assert first_heard.wait(10)
        yield body[cut:].encode()

    with openai_server(lambda asked, n: (status, headers, pieces())) as server:
        model = OpenAIChat("o", base_url=server.url, transport=transport)
        (said,) = said_by(model, replace(chat_request(), **{listener: hear}))
        asked = server.requests[0].body
    assert heard == expected
    assert parts_of(said) == WHOLE
    assert (asked["stream"], asked["stream_options"]) == (True, {"include_usage": True})


def test_a_debate_yields_the_parts_of_replies_if_asked() -> None:
    async def heard(url: str, **asked: Any) -> Any:
        options = madke.RunOptions(base_url=url)
        asked = {"model": "openai/m", "sources": "none", "options": options, **asked}
        return [event async for event in madke.stream("Which lake is the deepest?", **asked)]

    with openai_server(lambda body, n: events(CHUNKS) if "stream" in body else chat("Lake Ba\u00efkal")) as server:
        *told, last = asyncio.run(heard(server.url, deltas=True, settings={"rounds": 1, "judge_asked": "always"}))
        *plain, _ = asyncio.run(heard(server.url, settings={"rounds": 1, "judge_asked": "always"}))
    heard_of = [event for event in told if isinstance(event, CallDelta)]
    assert {event.purpose.stage for event in heard_of} == {"speak", "judge", "summarize"}
    for agent in ("Debater 1", "Debater 2"):
        assert [event.text for event in heard_of if event.purpose.agent == agent] == ["Lake ", "Ba\u00efkal"]
    assert not any(isinstance(event, CallDelta) for event in plain)
    assert isinstance(last, DebateFinished)
    assert last.transcript.rounds[0].turns[0].stance.text == "Lake Ba\u00efkal"
    assert last.transcript.usage["speak"].completion_tokens == 10
    assert not last.transcript.usage["speak"].estimated
