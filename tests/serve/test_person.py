"""A person at the page as a chat model: what is asked, what is read, what is seen of the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from madke.core import events
from madke.core.chat import Purpose
from madke.core.errors import UserError
from madke.core.transcript import Selection, Stance, Verdict
from madke.serve.person import PersonAtPage, PersonReply
from madke.variants import load_variant
from tests.support.chat_requests import chat_request

FREE = "Say something."


def person(protocol: str = "madke", **settings: Any) -> tuple[PersonAtPage, list[dict[str, Any]]]:
    variant = load_variant(protocol)
    variant = variant.with_settings(settings) if settings else variant
    made = PersonAtPage("Debater 2", variant.protocol)
    shown: list[dict[str, Any]] = []
    made.show = shown.append
    return made, shown


def stance(agent: str, n: int) -> events.StanceGiven:
    return events.StanceGiven(question="q", n=n, agent=agent, stance=Stance(text=f"{agent} in {n}"))


def names(seen: Any) -> list[str]:
    return [f"{type(event).__name__} {getattr(event, 'agent', '')}".strip() for event in seen]


def test_the_others_are_seen_after_the_own_turn() -> None:
    debater, _ = person()
    chosen = events.SelectionMade(question="q", n=1, agent="Debater 1", selection=Selection(ids=(0,)))
    streamed = events.CallDelta(
        question="q", purpose=Purpose(question="q", stage="speak", agent="a", round=1), text="x"
    )
    assert names(debater.seen(events.RoundStarted(question="q", n=1))) == ["RoundStarted"]
    for early in (chosen, streamed, stance("Debater 1", 1)):
        assert names(debater.seen(early)) == []
    expected = ["SelectionMade Debater 1", "CallDelta", "StanceGiven Debater 1", "StanceGiven Debater 2"]
    assert names(debater.seen(stance("Debater 2", 1))) == expected
    assert names(debater.seen(events.VerdictGiven(question="q", n=1, verdict=Verdict(consensus=False)))) == [
        "VerdictGiven"
    ]
    assert names(debater.seen(stance("Debater 1", 2))) == []


def test_what_the_protocol_hides_is_seen_when_the_debate_has_ended() -> None:
    debater, _ = person(sees={"anonymous": True})
    assert names(debater.seen(stance("Debater 2", 1))) == ["StanceGiven Debater 2"]
    assert names(debater.seen(stance("Debater 1", 1))) == []
    done = events.DebateFinished(question="q", transcript=None)
    assert names(debater.seen(done)) == ["StanceGiven Debater 1", "DebateFinished"]


def test_a_prompt_of_another_form_is_shown_whole_and_answered_whole() -> None:
    async def asked() -> str:
        debater, shown = person()
        call = asyncio.create_task(debater.complete(chat_request(FREE)))
        await asyncio.sleep(0)
        (question,) = shown
        assert (question["kind"], question["messages"][-1]["content"]) == ("free", FREE)
        for wrong in (PersonReply(turn=1, text="  "), PersonReply(turn=2, text="early")):
            with pytest.raises(UserError):
                debater.take(wrong)
        debater.take(PersonReply(turn=1, text=" Something. "))
        with pytest.raises(UserError, match="answered already"):
            debater.take(PersonReply(turn=1, text="late"))
        return (await call).text

    assert asyncio.run(asked()) == "Something."
