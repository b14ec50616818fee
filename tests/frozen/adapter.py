"""How the frozen debates reach madke. Everything that a rebuilt engine may change is here, and only here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import madke
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import UserError
from madke.core.events import Event
from madke.core.knowledge import Hits, Passage
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.scoring.debate_rows import DebateMeasures

__all__ = ["Completion", "Event", "Hits", "Passage", "Question", "Refused", "Transcript", "Usage"]

Refused = UserError


def run(
    protocol: str, questions: Sequence[Question], model: Any, events: list[Event], **asked: Any
) -> Sequence[Transcript]:
    """The transcripts of a run. ``asked``: pools, first_round, sources, answer_scorer, repeats, settings."""
    given = {name: value for name, value in asked.items() if value is not None}
    found = madke.run(questions, protocol=protocol, model=model, listen=events.append, signals=False, **given)
    return [*found.transcripts()]


def stream(protocol: str, question: Question, model: Any, events: list[Event], **asked: Any) -> Transcript:
    """The transcript of one debate that is watched while its replies arrive."""

    async def watched() -> None:
        events.extend(
            [event async for event in madke.stream(question, protocol=protocol, model=model, deltas=True, **asked)]
        )

    asyncio.run(watched())
    return next(event.transcript for event in events if isinstance(event, madke.events.DebateFinished))


def scores(transcript: Transcript) -> Mapping[str, float]:
    """The values of a debate by name: EM, F1, match, and whether its last answers agree."""
    return DebateMeasures(transcript).row


def stand_in_values(request: ChatRequest) -> str:
    """What a stand-in for a language model is told of a call, besides its messages."""
    stage = request.stage
    if stage is None:
        return ""
    others = [(each.agent, each.round, each.answer, each.confidence) for each in stage.others]
    passages = [passage.number for passage in stage.passages]
    flags = (stage.allow_search, stage.asks_confidence, stage.decides)
    return repr((stage.marker, stage.persona, passages, stage.own, others, stage.max_selected, flags))
