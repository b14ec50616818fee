"""Events and debates as JSON values, for the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from madke.core import events
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Transcript


def event_json(event: events.Event) -> dict[str, Any] | None:
    """An event with its name; None for one that the page does not need. Prompts are not sent."""
    match event:
        case events.DebateStarted() | events.CallFinished():
            return None  # the pool came before, the reply comes as a stance or a verdict
        case events.PoolReady(pool=pool):
            fields: dict[str, Any] = {
                "pool": [
                    {"n": n, "source": each.source, "key": each.key, "title": each.title}
                    for n, each in enumerate(pool.passages)
                ],
                "texts": [[each.text, each.url, each.date] for each in pool.passages],
                "partial": dict(pool.partial),
            }
        case events.CallStarted(purpose=purpose):
            fields = {"stage": purpose.stage, "agent": purpose.agent, "n": purpose.round}
        case events.CallDelta(purpose=purpose, text=text):
            fields = {"stage": purpose.stage, "agent": purpose.agent, "n": purpose.round, "text": text}
        case events.DebateFinished(transcript=transcript):
            fields = {"transcript": _json(transcript)}
        case _:
            fields = _json(event)
    return {"event": type(event).__name__, **fields}


def debate_json(transcript: Transcript, pool: KnowledgePool) -> dict[str, Any]:
    """A debate as the report page reads it: the transcript, and ``[text, url, date]`` of each passage of its pool."""
    held = {(each.source, each.key): [each.text, each.url, each.date] for each in reversed(pool.passages)}
    texts: Sequence[Any] = [held.get((entry.source, entry.key)) for entry in transcript.pool]
    return _json(transcript) | {"texts": texts}


def _json(record: events.Event | Transcript) -> dict[str, Any]:
    """The record without default values."""
    kind: Any = type(record)
    fields: dict[str, Any] = _adapter(kind).dump_python(record, mode="json", exclude_defaults=True)
    return fields


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
