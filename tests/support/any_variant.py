"""A debate of any variant at all, with whatever its protocol asks for from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from madke.core.knowledge import Hits, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Stance, Transcript, Turn
from madke.engine.debate import hold_debate
from madke.engine.parse import marked
from madke.engine.protocol import Protocol
from madke.engine.scene import Scene
from madke.engine.variant import Variant
from madke.models.scripted import ScriptedChat
from madke.tasks import TASKS
from tests.conftest import passage
from tests.support.debates import QUESTION, Reply


def play_any(variant: Variant, reply: Reply, *, first_round: Sequence[Turn] = ()) -> tuple[Transcript, ScriptedChat]:
    """One debate over a pool with a passage for each debater; searches find nothing, all candidates are alike.

    ``first_round``: the given one; by default, stances of the debaters that all differ.
    """
    protocol, model = variant.protocol, ScriptedChat(reply)
    agents = [debater.name for debater in protocol.cast]
    first = first_round or [
        Turn(agent=name, stance=Stance(text=f"[Lake {letter}]", answer=f"Lake {letter}"))
        for name, letter in zip(agents, "ABCDEFGHIJKLMNOP", strict=False)
    ]
    passages = tuple(passage("wiki", f"k{n}", "T", "text") for n in range(len(agents)))
    played = hold_debate(
        Scene(
            QUESTION,
            protocol,
            dict.fromkeys(protocol.roles, model),
            KnowledgePool(passages=passages),
            task=TASKS[QUESTION.task],
            prompts=variant,
            first_round=first if protocol.first_round_given else (),
            retrieve=_nothing,
            score_answers=_alike,
        )
    )
    return asyncio.run(played), model


def stating(protocol: Protocol, answer: str) -> str:
    """A reply with this answer, marked as the protocol wants it, and with a confidence."""
    if protocol.marker == "text":
        return answer
    return f"The answer is {marked(answer, protocol.marker)}.\nConfidence: 0.9"


async def _nothing(query: Any, purpose: Any) -> Any:
    return Hits()


async def _alike(question: Question, candidates: Sequence[str]) -> list[float]:
    return [0.0] * len(candidates)
