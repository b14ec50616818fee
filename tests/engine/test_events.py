"""What a listener is told, in which order, and that it changes nothing."""

import asyncio
import logging
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.events import (
    CallDelta,
    CallFinished,
    CallStarted,
    DebateFinished,
    DebateStarted,
    RoundEnded,
    SearchMade,
    SelectionMade,
    StanceGiven,
    VerdictGiven,
    never_raising,
)
from madke.core.knowledge import Hits, KnowledgePool, Passage
from madke.core.transcript import Transcript
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.llm import CallStore, ScriptedChat, Stored
from madke.tasks import get_task
from madke.variants import load_variant
from tests.support.plain import QUESTION, calls, given_turn, play, sign, signed

POOL = KnowledgePool(
    passages=tuple(Passage(source="wiki", key=str(n), title=f"T{n}", text=f"p{n}", score=1, rank=n) for n in range(3))
)
KNOWLEDGE = {"sources": ["wiki"], "select": "adaptive"}


def heard(replies: Callable[..., Any] | None = None, **settings: Any) -> tuple[list[Any], Transcript, Any]:
    """(What the listener was told, the transcript, the model)."""
    told: list[Any] = []
    transcript, model = play(replies, listen=told.append, **settings)
    return told, transcript, model


def names(told: list[Any]) -> list[str]:
    """The events, each as its name and whatever says whose it is."""
    shown = []
    for event in told:
        of = event.purpose.stage if hasattr(event, "purpose") else getattr(event, "agent", getattr(event, "n", ""))
        shown.append(f"{type(event).__name__} {of}".strip())
    return shown


@pytest.mark.parametrize("name", ["madke", "mad"])
def test_a_shipped_protocol_is_told_from_its_start_to_its_transcript(name: str) -> None:
    variant = load_variant(name)
    task = get_task("short_answer")
    told: list[Any] = []
    model = ScriptedChat(lambda request: {"select": "[0]", "judge": "[SAME]"}.get(request.purpose.stage, "[Baikal]"))
    cast = dict.fromkeys(variant.protocol.roles, model)

    transcript = asyncio.run(
        hold_debate(Scene(QUESTION, variant.protocol, cast, POOL, task=task, prompts=variant, listen=told.append))
    )

    assert isinstance(told[0], DebateStarted)
    assert len(told[0].pool.passages) == (3 if name == "madke" else 0)
    assert told[-1] == DebateFinished(question="q1", transcript=transcript)
    started = [event for event in told if isinstance(event, CallStarted)]
    assert [event.request for event in started] == model.requests
    assert [event.purpose for event in started] == [request.purpose for request in model.requests]
    assert len([event for event in told if isinstance(event, CallFinished)]) == len(model.requests)
    assert tuple(event.round for event in told if isinstance(event, RoundEnded)) == transcript.rounds
    said = {(e.n, e.agent): e.stance for e in told if isinstance(e, StanceGiven)}
    assert said == {(played.n, turn.agent): turn.stance for played in transcript.rounds for turn in played.turns}
    chose = [event.selection for event in told if isinstance(event, SelectionMade)]
    assert chose == [turn.selection for played in transcript.rounds for turn in played.turns if turn.selection]
    verdicts = [event.verdict for event in told if isinstance(event, VerdictGiven)]
    assert verdicts == [played.verdict for played in transcript.rounds if played.verdict]


def test_events_come_in_the_order_in_which_things_happen() -> None:
    told, _, _ = heard(
        signed(judge="[SAME]", select="[0]"),
        debaters=[{"name": "A"}, {"name": "B"}],
        knowledge=KNOWLEDGE,
        pool=POOL,
        talk={"first": "sequential", "later": "sequential"},
        sees={"peers": "latest"},
        stop="judge",
    )
    turn = ("CallStarted select", "CallFinished select", "SelectionMade {}", "CallStarted {}", "CallFinished {}")
    assert names(told) == [
        "DebateStarted",
        "RoundStarted 1",
        *(line.format(of) for line, of in zip(turn, ("", "", "A", "speak", "speak"), strict=True)),
        "StanceGiven A",
        *(line.format(of) for line, of in zip(turn, ("", "", "B", "reply", "reply"), strict=True)),
        "StanceGiven B",
        "CallStarted judge",
        "CallFinished judge",
        "VerdictGiven 1",
        "RoundEnded",
        "DebateFinished",
    ]


def test_a_stop_rule_ends_the_rounds_that_are_told() -> None:
    told, transcript, _ = heard(rounds=3, stop="agreement")
    assert transcript.stop_reason == "agreement"
    assert names(told).count("RoundEnded") == 1
    assert names(told)[-2:] == ["RoundEnded", "DebateFinished"]


def test_given_stances_are_told_as_the_first_round() -> None:
    told, _, _ = heard(first_round_given=True, turns=(given_turn("X", "Oslo"), given_turn("A")))
    assert names(told)[:5] == ["DebateStarted", "RoundStarted 1", "StanceGiven X", "StanceGiven A", "RoundEnded"]


def test_a_search_is_told_with_what_it_found() -> None:
    async def retrieve(query: str, purpose: Purpose) -> Hits:
        return Hits(passages=(replace(POOL.passages[0], key="new", text="new", title=query),))

    told, transcript, _ = heard(
        signed(select="[0] [SEARCH: depth of Baikal]"),
        knowledge={**KNOWLEDGE, "allow_search": True},
        pool=POOL,
        rounds=1,
        retrieve=retrieve,
    )
    made = {event.agent: event.search for event in told if isinstance(event, SearchMade)}
    assert made == {turn.agent: turn.search for turn in transcript.rounds[0].turns}
    assert {search.ids for search in made.values()} == {(3,)}


def test_a_call_that_fails_and_one_too_long_are_told_each() -> None:
    long = iter([Completion(outcome="too_long", error="too long")])

    def reply(request: ChatRequest) -> str | Completion:
        if request.purpose.agent == "A":
            return Completion(outcome="failed", error="gone")
        return next(long, None) or sign(request.purpose.agent, 2, "Oslo")

    told, transcript, model = heard(
        reply,
        first_round_given=True,
        turns=(given_turn("X"), given_turn("Y")),
        overflow="drop",
        debaters=[{"name": "A"}, {"name": "B"}],
    )
    outcomes = [(e.purpose.agent, e.completion.outcome) for e in told if isinstance(e, CallFinished)]
    assert sorted(outcomes) == [("A", "failed"), ("B", "ok"), ("B", "too_long")]
    assert len(outcomes) == len(calls(model))
    assert transcript.degraded
    assert [e.stance.status for e in told if isinstance(e, StanceGiven) and e.agent == "A"] == ["failed"]


def test_times_are_seconds_since_the_debate_began() -> None:
    ticks = count(100.0)
    told, _, _ = heard(clock=lambda: next(ticks), repeat=2)
    assert [event.at for event in told] == [float(n) for n in range(1, len(told) + 1)]
    assert {(event.question, event.repeat) for event in told} == {("q1", 2)}
    assert {event.at for event in heard()[0]} == {0.0}


def test_a_listener_changes_nothing() -> None:
    alone, quiet = play(signed(judge="[DIFFERENT]"), stop="judge", seed=1)
    told, listened, model = heard(signed(judge="[DIFFERENT]"), stop="judge", seed=1)
    assert told
    assert listened == alone
    assert model.requests == quiet.requests


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
        told, transcript, _ = heard(model=Stored(Streaming(), store), deltas=True, rounds=1)
        assert any(isinstance(event, CallDelta) for event in told)
        again, same, _ = heard(model=Stored(Streaming(), store), deltas=True, rounds=1)
    assert not any(isinstance(event, CallDelta) for event in again)  # the store answers in one piece
    assert same.rounds == transcript.rounds
