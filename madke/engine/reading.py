"""What a debater reads: whose stances, in which order, grouped by answer, and how they are quoted."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise

from madke.core.chat import Message, Spoken
from madke.core.question import Question
from madke.core.transcript import Round, Turn
from madke.engine.agreement import Same, answer_groups, matcher, same_answers
from madke.engine.settings import Order, Reads, readable_by
from madke.tasks.base import BaseTask


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
    chat: bool = False
    """Whether the history is shown as chat messages."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to reply to."""
        return not self.peers and not self.history and self.own is None and self.digest is None


def view(
    reads: Reads,
    agent: str,
    names: Sequence[str],
    rounds: Sequence[Round],
    spoken: Sequence[Turn],
    order: Sequence[str],
    same: Same,
) -> View:
    """What ``reads`` lets ``agent`` see in its turn."""
    readable_places = readable_by(reads.topology, names.index(agent), len(names)) or set()
    # Given stances of agents outside the cast are not hidden.
    hidden = {agent, *(name for n, name in enumerate(names) if n not in readable_places)}
    newest = {turn.agent: (number, turn) for number, turn in _all_turns(rounds, ())}
    mine = newest[agent][1] if agent in newest else None
    review, digest = mine and mine.reflection, rounds[-1].digest if rounds else None
    # A summary of the debate so far replaces the peers.
    peers = "none" if digest is not None else reads.peers
    past = [
        (number, turn)
        for number, turn in _all_turns(rounds, spoken)
        if (reads.own == "history" if turn.agent == agent else peers == "history" and turn.agent not in hidden)
    ]
    shown: dict[str, tuple[int, Turn]] = {}
    if peers == "latest":
        now = len(rounds) + 1
        shown = newest | {turn.agent: (now, turn) for turn in spoken if turn.stance.status != "failed"}
    elif peers in ("last_round", "answers"):
        shown = {name: (number, turn) for name, (number, turn) in newest.items() if number == len(rounds)}
    read_turns = [shown[name] for name in order if name in shown and name not in hidden]
    peer_of = {turn.agent: _spoken_as_read(reads, turn, number) for number, turn in read_turns}
    groups = answer_groups([turn for _, turn in read_turns], same) if reads.grouped else ()
    notes = [each for entry in rounds[-1:] for each in entry.remarks if not each.error]
    remarks = [Spoken(agent=each.role, text=each.text, round=rounds[-1].n) for each in notes]
    history = [_spoken_as_read(reads, turn, number, own=turn.agent == agent) for number, turn in past]
    return View(
        peers=(*peer_of.values(), *(remarks if peers != "history" else ())),
        own=mine.stance.text if mine and reads.own != "none" else None,
        last=mine.stance.text if mine else None,
        history=(*history, *(remarks if peers == "history" else ())),
        groups=tuple(
            Group(answer=group[0].stance.answer or "", members=tuple(peer_of[turn.agent] for turn in group))
            for group in groups
        ),
        digest=digest.text if digest and not digest.error else None,
        critique=review.text if review and review.error is None else None,
        reads=(*(turn.agent for _, turn in past if turn.agent != agent), *peer_of, *(each.role for each in notes)),
        chat=reads.chat,
    )


def groups_without(groups: Sequence[Group], dropped: Sequence[Spoken]) -> tuple[Group, ...]:
    """The groups without these stances, and without groups that have no other."""
    # By identity: two anonymous peers with the same text are equal objects.
    dropped_ids = {id(spoken) for spoken in dropped}
    left = (replace(group, members=tuple(m for m in group.members if id(m) not in dropped_ids)) for group in groups)
    return tuple(group for group in left if group.members)


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
    text = spoken.text if spoken.own else f"{spoken.agent or 'Another agent'} wrote:\n{quoted(spoken.text)}"
    return Message(role="assistant" if spoken.own else "user", content=text)


def without_tags(text: str, names: tuple[str, ...]) -> str:
    """Replace the ``<`` of all tags with these names, opening or closing, by ``(``."""
    return re.sub(rf"<(?=\W{{0,9}}(?:{'|'.join(names)})\b)", "(", text, flags=re.IGNORECASE) if "<" in text else text


def _all_turns(rounds: Sequence[Round], spoken: Iterable[Turn]) -> list[tuple[int, Turn]]:
    turns = [(entry.n, turn) for entry in rounds for turn in entry.turns]
    turns += [(rounds[-1].n + 1 if rounds else 1, turn) for turn in spoken]
    return [(number, turn) for number, turn in turns if turn.stance.status != "failed"]


def _spoken_as_read(reads: Reads, turn: Turn, number: int, *, own: bool = False) -> Spoken:
    shown = replace(_spoken(turn, number), own=own)
    if reads.peers == "answers" and not own:
        shown = replace(shown, text="")
    return replace(shown, agent="") if reads.anonymous else shown


def _spoken(turn: Turn, number: int) -> Spoken:
    stance = turn.stance
    return Spoken(agent=turn.agent, text=stance.text, answer=stance.answer, confidence=stance.confidence, round=number)


def by_cast(turns: Sequence[Turn], names: Sequence[str]) -> list[Turn]:
    """The turns in the order of the cast, so that "the earliest debater" does not depend on the speaking order."""
    place = {name: n for n, name in enumerate(names)}
    return sorted(turns, key=lambda turn: place.get(turn.agent, len(place)))


def reading_order(
    order: Order, rounds: Sequence[Round], names: Sequence[str], *, question: Question, task: BaseTask, seed: str
) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """The reading order of the round after ``rounds``, for all readers, and each agent's score (only for ``madc``)."""
    if order.by == "random":
        spoke = [turn.agent for turn in rounds[-1].turns] if rounds else names
        return tuple(random.Random(sha256(seed.encode()).digest()).sample(list(spoke), len(spoke))), {}
    if not rounds:
        return tuple(names), {}
    turns = by_cast(rounds[-1].turns, names)
    if order.by in ("truth_first", "truth_last"):
        right = {t.agent: t.stance.answer is not None and task.accepts(t.stance.answer, question) for t in turns}
        first = order.by == "truth_first"
        return tuple(t.agent for t in sorted(turns, key=lambda t: right[t.agent] != first)), {}
    if order.by == "madc":
        same = matcher(task, question)
        scores = same_answers(turns, same)
        for before, entry in pairwise(rounds):
            speakers = {turn.agent for turn in before.turns if turn.stance.status != "failed"}
            read_last = next((agent for agent in reversed(entry.order) if agent in speakers), None)
            if read_last is not None:
                scores[read_last] = scores.get(read_last, 0.0) * order.decay
        return _ascending(turns, scores, same), scores
    return tuple(turn.agent for turn in turns), {}


def order_for(reader: str, turns: Sequence[Turn], names: Sequence[str], same: Same) -> tuple[str, ...]:
    """The ``madc`` order for one reader, computed without its own answer (as in the authors' released code)."""
    others = by_cast([turn for turn in turns if turn.agent != reader], names)
    return _ascending(others, same_answers(others, same), same)


def _ascending(turns: Sequence[Turn], scores: Mapping[str, float], same: Same) -> tuple[str, ...]:
    """Agents by score; ties by answer group (that of the earliest debater first), then by position in ``turns``."""
    place = {turn.agent: n for n, turn in enumerate(turns)}
    group = {t.agent: place[members[0].agent] for members in answer_groups(turns, same) for t in members}
    return tuple(sorted(place, key=lambda agent: (scores[agent], group.get(agent, place[agent]), place[agent])))
