"""Debates of several rounds, made by hand."""

from dataclasses import replace
from typing import Any

from madke.core.transcript import PoolEntry, Round, Selection, Stance, Transcript, Turn
from tests.support.transcripts import transcript, with_agreement

RIGHT, WRONG, OTHER = "Lake Baikal", "Lake Tanganyika", "Lake Vostok"
FAILED = object()
"""Said by a debater whose call failed."""


def debate(
    *rounds: list[Any] | tuple[str, ...],
    answer: str | None = RIGHT,
    selected: list[Any] | tuple[Any, ...] = (),
    golds: tuple[str, ...] = (RIGHT,),
    id_: str = "q",
    **changes: Any,
) -> Transcript:
    """One debate, from what each debater answered in each round: None could not be read, FAILED is a failed call.

    ``selected``: for each round the pool numbers that each debater chose, None where the call failed; ``changes``:
    other fields of the transcript.
    """
    selected = selected or [[()] * len(said) for said in rounds]
    made = tuple(
        Round(n=n, order=(), turns=tuple(turn(*each) for each in zip("ABCDEFGHIJ", said, ids, strict=False)))
        for n, (said, ids) in enumerate(zip(rounds, selected, strict=True), start=1)
    )
    held = transcript(id_, said=[], consensus=None, answer=answer, golds=golds)
    return with_agreement(replace(held, **{"rounds": made, "usage": {}, **changes}))


def turn(agent: str, answer: Any, ids: tuple[int, ...] | None = ()) -> Turn:
    """What one debater did: None for ids is a selection whose call failed, and no ids one that declined."""
    if answer is FAILED:
        stance = Stance(status="failed", error="HTTP 500")
    else:
        stance = Stance(text=f"[{answer}]", answer=answer, status="ok" if answer else "abstained")
    if ids is None:
        selection = Selection(status="failed", error="HTTP 500")
    else:
        selection = Selection(ids=tuple(ids), rule="ids" if ids else "no_found")
    return Turn(agent=agent, stance=stance, selection=selection)


def pool(*passages: tuple[str, ...]) -> tuple[PoolEntry, ...]:
    """Pool entries from (source, key, title)."""
    return tuple(PoolEntry(n=n, source=s, key=key, title=title) for n, (s, key, title) in enumerate(passages))
