"""A listener changes nothing, and gets parts of replies where it asks. All events are in ``tests/frozen``."""

import logging
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.events import CallDelta, CallStarted, DebateFinished, never_raising
from madke.core.transcript import Transcript
from madke.models.store import CallStore
from tests.support.pipelines import stored
from tests.support.plain import play, sign


def test_what_a_listener_raises_is_logged_once_a_kind_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    alone, _ = play()

    def broken(event: Any) -> None:
        if isinstance(event, CallStarted | DebateFinished):
            raise ZeroDivisionError("in the listener")

    once_a_run = never_raising(broken)
    with caplog.at_level(logging.ERROR):
        transcripts = [play(listen=once_a_run)[0] for _ in range(2)]

    assert transcripts == [alone, alone]
    assert [record.getMessage() for record in caplog.records] == [
        "a listener failed on CallStarted; this is a bug in the listener",
        "a listener failed on DebateFinished; this is a bug in the listener",
    ]
    assert "ZeroDivisionError" in caplog.text


class Streaming:
    name = "streaming"

    async def complete(self, request: ChatRequest) -> Completion:
        text = sign(request.purpose.agent, request.purpose.round, "Oslo")
        if request.on_delta is not None:
            request.on_delta(text[:3])
            request.on_delta(text[3:])
        return Completion(text=text)


def parts_of(**settings: Any) -> tuple[dict[str, str], Transcript]:
    """Debater -> the parts of its reply that a listener was told, joined; and the transcript."""
    told: list[Any] = []
    transcript, _ = play(listen=told.append, rounds=1, **settings)
    parts: dict[str, str] = {}
    for event in told:
        if isinstance(event, CallDelta):
            parts[event.purpose.agent] = parts.get(event.purpose.agent, "") + event.text
    return parts, transcript


def test_parts_of_replies_are_told_where_they_are_asked_for_also_through_the_call_store(tmp_path: Path) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:
        parts, transcript = parts_of(model=stored(Streaming(), store), deltas=True)
        at_once, again = parts_of(model=stored(Streaming(), store), deltas=True)
    assert parts == {turn.agent: turn.stance.text for turn in transcript.rounds[0].turns}
    assert at_once == {}, "the store answers in one piece"
    assert again.rounds == transcript.rounds
    quiet, same = parts_of(model=Streaming())
    assert quiet == {}
    assert same.rounds == transcript.rounds


def test_a_callback_is_no_part_of_a_request() -> None:
    purpose = Purpose(question="q", stage="speak", agent="A", round=1)
    request = ChatRequest(messages=(), purpose=purpose, temperature=0.5, max_tokens=9)
    heard_one = replace(request, on_delta=lambda text: None)
    assert heard_one == request
    assert hash(heard_one) == hash(request)
    assert repr(heard_one) == repr(request)
    assert pickle.loads(pickle.dumps(heard_one)).on_delta is None
