"""Prompts that are longer than the model's context window: the oldest and the least is left out."""

from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion
from madke.core.transcript import Truncation
from madke.models.scripted import ScriptedChat
from tests.support.plain import given_turn, play, prompts, signed, tokens

EIGHTY = tuple(given_turn(f"S{n}", "Oslo") for n in range(80))


@pytest.mark.parametrize("room", [79, 70, 41, 10, 1, 0])
def test_the_stances_read_first_are_dropped_until_the_prompt_fits(room: int) -> None:
    def reply(request: ChatRequest) -> str | Completion:
        if len(tokens(request.messages[-1].content)) <= room:
            said: str = signed()(request)
            return said
        return Completion(outcome="too_long", error="the prompt does not fit")

    alone: dict[str, Any] = {"first_round_given": True, "debaters": 1, "reads": {"own": "none"}}
    transcript, model = play(model=ScriptedChat(reply), turns=EIGHTY, overflow="drop", **alone)
    (turn,) = transcript.rounds[1].turns
    last = tokens(prompts(model)[-1])
    assert last == [f"S{n}@1" for n in range(80 - len(last), 80)]
    assert room >= len(last) >= room * 7 // 8
    assert turn.stance.truncated == Truncation(stances=80 - len(last))
    assert (transcript.status, transcript.answer) == ("ok", "Lake Baikal")
    # Eighths of what is left: even from eighty stances to none in a bounded number of attempts.
    assert model.calls <= 27
