"""Who sees whom: which stances a debater's prompt may show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from madke.core.transcript import Round, Turn
from madke.engine.protocol import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """One stance as it is shown to a reader."""

    agent: str
    """The speaker's name; empty where the protocol is anonymous."""
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What a debater sees of the debate when its turn comes."""

    peers: tuple[Spoken, ...] = ()
    own: str | None = None
    """Its own stance of the round before; None in round 1, where hidden, or where that turn failed."""


def view(protocol: Protocol, agent: str, rounds: Sequence[Round], spoken: Sequence[Turn]) -> View:
    """The view of one debater.

    Args:
        protocol: Its ``sees`` decides.
        agent: The debater whose turn it is.
        rounds: The finished rounds.
        spoken: Turns of the round under way that are over; a simultaneous round passes none.
    """
    before = {turn.agent: turn for turn in rounds[-1].turns} if rounds else {}
    shown = dict(before)
    if protocol.sees.peers == "latest":
        shown.update({turn.agent: turn for turn in spoken})
    peers = tuple(
        Spoken(agent="" if protocol.sees.anonymous else debater.name, text=shown[debater.name].stance.text)
        for debater in protocol.cast
        if debater.name != agent and debater.name in shown and shown[debater.name].stance.status != "failed"
    )
    mine = before.get(agent)
    remembered = protocol.sees.own == "last_round" and mine is not None and mine.stance.status != "failed"
    return View(
        peers=() if protocol.sees.peers == "none" else peers,
        own=mine.stance.text if mine and remembered else None,
    )
