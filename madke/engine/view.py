"""What a debater reads: whose stances, grouped by answer, and how they are quoted."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from madke.core.chat import Message
from madke.core.stage import Spoken
from madke.core.transcript import Round, Turn
from madke.engine.agreement import Same, answer_groups
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import readable_by


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Peers who give the same answer."""

    answer: str
    members: tuple[Spoken, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What a debater sees of the debate in its turn."""

    peers: tuple[Spoken, ...] = ()
    """The others' stances, if no history is shown."""
    own: str | None = None
    """Its own newest stance; None if the protocol hides it."""
    last: str | None = None
    """Its own newest stance even if hidden: selection always sees it (Wang et al., Eq. 2)."""
    history: tuple[Spoken, ...] = ()
    """The peers' stances, the reader's own or both, in order of time."""
    groups: tuple[Group, ...] = ()
    digest: str | None = None
    critique: str | None = None
    """Its review of its own newest stance."""
    reads: tuple[str, ...] = ()
    """The names of the peers, in the order shown."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to reply to."""
        return not self.peers and not self.history and self.own is None and self.digest is None


def view(
    protocol: Protocol, agent: str, rounds: Sequence[Round], spoken: Sequence[Turn], order: Sequence[str], same: Same
) -> View:
    """What ``protocol.sees`` lets ``agent`` see in its turn.

    ``rounds`` are the finished rounds, ``spoken`` the finished turns of a sequential round. Peers are shown in
    ``order``; ``same`` groups answers.
    """
    hidden = _hidden_from(protocol, agent)
    newest = {turn.agent: (number, turn) for number, turn in _all_turns(rounds, ())}
    seen = _own(protocol, newest[agent][1] if agent in newest else None, rounds)
    # After round 1 a summary may replace the peers.
    peers = "none" if rounds and protocol.talk.later == "simultaneous_with_summary" else protocol.sees.peers
    if "history" in (peers, protocol.sees.own):
        everything = [*_all_turns(rounds, spoken)]
        readable: set[str] = set()
        if peers == "history":
            readable = {turn.agent for _, turn in everything}.difference(hidden, [agent])
        if protocol.sees.own == "history":
            readable.add(agent)
        past = [(number, turn) for number, turn in everything if turn.agent in readable]
        history = tuple(_shown(protocol, turn, number, own=turn.agent == agent) for number, turn in past)
        seen = replace(seen, history=history, reads=tuple(turn.agent for _, turn in past if turn.agent != agent))
    if peers in ("history", "none"):
        return seen
    if peers == "latest":
        now = len(rounds) + 1
        shown = newest | {turn.agent: (now, turn) for turn in spoken if turn.stance.status != "failed"}
    else:
        shown = {name: (number, turn) for name, (number, turn) in newest.items() if number == len(rounds)}
    read = [shown[name] for name in order if name in shown and name not in hidden]
    peer_of = {turn.agent: _shown(protocol, turn, number) for number, turn in read}
    groups = _groups([turn for _, turn in read], peer_of, same) if protocol.sees.grouped else ()
    return replace(seen, peers=tuple(peer_of.values()), groups=groups, reads=tuple(peer_of))


def _groups(turns: Sequence[Turn], shown: Mapping[str, Spoken], same: Same) -> tuple[Group, ...]:
    """The turns by answer. ``shown``: agent -> its stance, as the reader sees it."""
    return tuple(
        Group(answer=group[0].stance.answer or "", members=tuple(shown[turn.agent] for turn in group))
        for group in answer_groups(turns, same)
    )


def groups_without(groups: Sequence[Group], dropped: Sequence[Spoken]) -> tuple[Group, ...]:
    """The groups without these stances, and without groups that have no other."""
    # By identity: two anonymous peers with the same text are equal objects.
    dropped_ids = {id(spoken) for spoken in dropped}
    left = (replace(group, members=tuple(m for m in group.members if id(m) not in dropped_ids)) for group in groups)
    return tuple(group for group in left if group.members)


def _own(protocol: Protocol, mine: Turn | None, rounds: Sequence[Round]) -> View:
    digest = rounds[-1].digest if rounds else None
    summary = digest.text if digest and not digest.error else None
    if mine is None:
        return View(digest=summary)
    text, review = mine.stance.text, mine.reflection
    critique = review.text if review and review.error is None else None
    return View(own=text if protocol.sees.own != "none" else None, last=text, critique=critique, digest=summary)


def stances_of(rounds: Sequence[Round], *, history: bool = False) -> tuple[Spoken, ...]:
    """The stances that judge and summarizer read: those of the last round, or of all rounds. No failed calls."""
    turns = _all_turns(rounds if history else rounds[-1:], ())
    return tuple(_spoken(turn, number) for number, turn in turns)


def quoted(text: str) -> str:
    """The text as a quotation: each line begins with ``>``, so that none can pass for a line of the prompt."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def as_message(spoken: Spoken) -> Message:
    """A stance of a debate that is shown as a chat: the reader's own unchanged, another's quoted."""
    # ``_shared/stance.j2`` writes the same.
    said = spoken.text if spoken.own else f"{spoken.agent or 'Another agent'} wrote:\n{quoted(spoken.text)}"
    return Message(role="assistant" if spoken.own else "user", content=said)


def without_tags(text: str, names: tuple[str, ...]) -> str:
    """Replace the ``<`` of all tags with these names, opening or closing, by ``(``."""
    return _opening(names).sub("(", text) if "<" in text else text


@cache
def _opening(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=\W{{0,9}}(?:{'|'.join(names)})\b)", re.IGNORECASE)


def _hidden_from(protocol: Protocol, reader: str) -> frozenset[str]:
    """The debaters that a debater may not read, and itself. Given stances of agents outside the cast are not hidden."""
    names = [debater.name for debater in protocol.cast]
    here = names.index(reader)
    read = readable_by(protocol.sees.topology, here, len(names)) or set()
    return frozenset(name for place, name in enumerate(names) if place not in read - {here})


def _all_turns(rounds: Sequence[Round], spoken: Iterable[Turn]) -> list[tuple[int, Turn]]:
    turns = [(entry.n, turn) for entry in rounds for turn in entry.turns]
    turns += [(rounds[-1].n + 1 if rounds else 1, turn) for turn in spoken]
    return [(number, turn) for number, turn in turns if turn.stance.status != "failed"]


def _shown(protocol: Protocol, turn: Turn, number: int, *, own: bool = False) -> Spoken:
    shown = replace(_spoken(turn, number), own=own)
    if protocol.sees.peers == "answers" and not own:
        shown = replace(shown, text="")
    return replace(shown, agent="") if protocol.sees.anonymous else shown


def _spoken(turn: Turn, number: int) -> Spoken:
    stance = turn.stance
    return Spoken(agent=turn.agent, text=stance.text, answer=stance.answer, confidence=stance.confidence, round=number)
