"""A listener changes nothing, and gets parts of replies where it asks. All events are in ``tests/frozen``."""

import logging
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.events import (
    CallDelta,
    CallStarted,
    DebateFinished,
    never_raising,
)
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.transcript import Transcript
from madke.models.store import CallStore
from tests.support.pipelines import stored
from tests.support.plain import play, sign

POOL = KnowledgePool(
    passages=tuple(Passage(source="wiki", key=str(n), title=f"T{n}", text=f"p{n}", score=1, rank=n) for n in range(3))
)


def heard(replies: Callable[..., Any] | None = None, **settings: Any) -> tuple[list[Any], Transcript, Any]:
    """(What the listener was told, the transcript, the model)."""
    told: list[Any] = []
    transcript, model = play(replies, listen=told.append, **settings)
    return told, transcript, model


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


def test_parts_of_replies_are_told_where_they_are_asked_for() -> None:
    told, transcript, _ = heard(model=Streaming(), deltas=True, rounds=1)
    parts: dict[Any, str] = {}
    for event in told:
        if isinstance(event, CallDelta):
            parts[event.purpose.agent] = parts.get(event.purpose.agent, "") + event.text
    assert parts == {turn.agent: turn.stance.text for turn in transcript.rounds[0].turns}
    quiet, same, _ = heard(model=Streaming(), rounds=1)
    assert not any(isinstance(event, CallDelta) for event in quiet)
    assert same == transcript


def test_a_callback_is_no_part_of_a_request() -> None:
    purpose = Purpose(question="q", stage="speak", agent="A", round=1)
    request = ChatRequest(messages=(), purpose=purpose, temperature=0.5, max_tokens=9)
    heard_one = replace(request, on_delta=lambda text: None)
    assert heard_one == request
    assert hash(heard_one) == hash(request)
    assert repr(heard_one) == repr(request)
    assert pickle.loads(pickle.dumps(heard_one)).on_delta is None


def test_parts_of_replies_pass_through_the_call_store(tmp_path: Path) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:
        told, transcript, _ = heard(model=stored(Streaming(), store), deltas=True, rounds=1)
        assert any(isinstance(event, CallDelta) for event in told)
        again, same, _ = heard(model=stored(Streaming(), store), deltas=True, rounds=1)
    assert not any(isinstance(event, CallDelta) for event in again)  # the store answers in one piece
    assert same.rounds == transcript.rounds
