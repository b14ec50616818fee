"""Who sees whom: which stances a debater's prompt may show, and how a text of others is quoted there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from madke.core.transcript import Round, Turn
from madke.engine.order import Same, answer_groups
from madke.engine.protocol import Protocol, readable

TAGS = ("example", "knowledge", "notes", "reply", "review", "summary")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """One stance as it is shown to a reader."""

    agent: str
    """Empty where the protocol is anonymous."""
    text: str
    """Empty where only answers are shown."""
    answer: str | None = None
    confidence: float | None = None
    round: int = 1
    own: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Peers who hold the same answer."""

    answer: str
    members: tuple[Spoken, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What a debater sees of the debate when its turn comes."""

    peers: tuple[Spoken, ...] = ()
    """The others' stances, where no history is shown."""
    own: str | None = None
    """Its own newest stance; None where the protocol hides it."""
    last: str | None = None
    """The same, hidden or not: selection always sees it (Wang et al., Eq. 2)."""
    history: tuple[Spoken, ...] = ()
    """The peers' stances, the reader's own or both, in the order of time."""
    groups: tuple[Group, ...] = ()
    digest: str | None = None
    critique: str | None = None
    """What it found when it scrutinised its newest stance."""
    reads: tuple[str, ...] = ()
    """The names of the peers, in the order shown."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to reply to."""
        return not self.peers and not self.history and self.own is None and self.digest is None


def view(
    protocol: Protocol, agent: str, rounds: Sequence[Round], spoken: Sequence[Turn], order: Sequence[str], same: Same
) -> View:
    """The view of the debater whose turn it is, by ``protocol.sees``.

    Of ``rounds``, which are over, and of ``spoken``, the turns of a sequential round that are over, in the ``order`` in
    which this reader reads them; ``same`` groups answers.
    """
    hidden = _unread(protocol, agent)
    newest = {turn.agent: (number, turn) for number, turn in _all_turns(rounds, ())}
    seen = _own(protocol, newest[agent][1] if agent in newest else None, rounds)
    # After round 1 the summary may stand for the others.
    peers = "none" if rounds and protocol.talk.later == "simultaneous_with_summary" else protocol.sees.peers
    if "history" in (peers, protocol.sees.own):
        own = protocol.sees.own == "history"
        said = [
            (number, turn)
            for number, turn in _all_turns(rounds, spoken)
            if (own if turn.agent == agent else peers == "history" and turn.agent not in hidden)
        ]
        history = tuple(_shown(protocol, turn, number, own=turn.agent == agent) for number, turn in said)
        seen = replace(seen, history=history, reads=tuple(turn.agent for _, turn in said if turn.agent != agent))
    if peers in ("history", "none"):
        return seen
    shown = {name: found for name, found in newest.items() if found[0] == len(rounds)}
    if peers == "latest":
        shown = newest | {t.agent: (len(rounds) + 1, t) for t in spoken if t.stance.status != "failed"}
    read = [shown[name] for name in order if name in shown and name not in hidden]
    peer_of = {turn.agent: _shown(protocol, turn, number) for number, turn in read}
    grouped = answer_groups([turn for _, turn in read], same) if protocol.sees.grouped else []
    groups = tuple(
        Group(answer=group[0].stance.answer or "", members=tuple(peer_of[turn.agent] for turn in group))
        for group in grouped
    )
    return replace(seen, peers=tuple(peer_of.values()), groups=groups, reads=tuple(peer_of))


def _own(protocol: Protocol, mine: Turn | None, rounds: Sequence[Round]) -> View:
    digest = rounds[-1].digest if rounds else None
    summary = digest.text if digest and not digest.error else None
    if mine is None:
        return View(digest=summary)
    said, found = mine.stance.text, mine.reflection
    critique = found.text if found and found.error is None else None
    return View(own=said if protocol.sees.own != "none" else None, last=said, critique=critique, digest=summary)


def everybody(rounds: Sequence[Round], *, history: bool = False) -> tuple[Spoken, ...]:
    """The stances that judge and summarizer read: those of the last round, or of all, whose calls succeeded."""
    turns = _all_turns(rounds if history else rounds[-1:], ())
    return tuple(_spoken(turn, number) for number, turn in turns)


def without_tags(text: str, names: tuple[str, ...] = TAGS) -> str:
    """The text with ``(`` for the ``<`` of every tag with one of these names, opening or closing."""
    return _opening(names).sub("(", text) if "<" in text else text


@cache
def _opening(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=\W{{0,9}}(?:{'|'.join(names)})\b)", re.IGNORECASE)


def _unread(protocol: Protocol, reader: str) -> frozenset[str]:
    """The debaters whom a debater may not read, itself included. Who is not in the cast (a given stance) is read."""
    names = [debater.name for debater in protocol.cast]
    here = names.index(reader)
    read = readable(protocol.sees.topology, here, len(names)) or set()
    return frozenset(name for place, name in enumerate(names) if place not in read - {here})


def _all_turns(rounds: Sequence[Round], spoken: Iterable[Turn]) -> list[tuple[int, Turn]]:
    said = [(entry.n, turn) for entry in rounds for turn in entry.turns]
    said += [(rounds[-1].n + 1 if rounds else 1, turn) for turn in spoken]
    return [(number, turn) for number, turn in said if turn.stance.status != "failed"]


def _shown(protocol: Protocol, turn: Turn, number: int, *, own: bool = False) -> Spoken:
    shown = replace(_spoken(turn, number), own=own)
    if protocol.sees.peers == "answers" and not own:
        shown = replace(shown, text="")
    return replace(shown, agent="") if protocol.sees.anonymous else shown


def _spoken(turn: Turn, number: int) -> Spoken:
    stance = turn.stance
    return Spoken(agent=turn.agent, text=stance.text, answer=stance.answer, confidence=stance.confidence, round=number)
