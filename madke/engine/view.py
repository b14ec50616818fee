"""What a debater reads: whose stances, in which order, grouped by answer, and how they are quoted.

A vague answer can match several that contradict each other ("July 1969" matches "July 20" and "July 11"). Agreement is
therefore checked for every pair, and groups do not depend on the order of the answers.
"""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import combinations, pairwise

from madke.core.question import Question
from madke.core.stage import Spoken
from madke.core.transcript import Round, Turn
from madke.engine.protocol import Order, Protocol, readable_by
from madke.tasks.base import Task

Same = Callable[[str, str], bool]


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
        own = protocol.sees.own == "history"
        past = [
            (number, turn)
            for number, turn in _all_turns(rounds, spoken)
            if (own if turn.agent == agent else peers == "history" and turn.agent not in hidden)
        ]
        history = tuple(_shown(protocol, turn, number, own=turn.agent == agent) for number, turn in past)
        seen = replace(seen, history=history, reads=tuple(turn.agent for _, turn in past if turn.agent != agent))
    if peers in ("history", "none"):
        return seen
    shown = {name: (number, turn) for name, (number, turn) in newest.items() if number == len(rounds)}
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


def matcher(task: Task, question: Question) -> Same:
    """The task's matcher for answers to one question."""
    return lambda a, b: task.same(a, b, question)


def answer_groups(turns: Sequence[Turn], same: Same) -> list[list[Turn]]:
    """The turns with a parsed answer, grouped by the task's matcher; groups and members keep the order of the turns.

    An answer is vague if it matches two answers that contradict each other. It joins a group if it matches exactly one;
    otherwise it is grouped with the vague answers that match the same ones.
    """
    parsed = [turn for turn in turns if turn.stance.answer is not None]
    matches = _matches([turn.stance.answer or "" for turn in parsed], same)
    vague = {answer for answer, near in matches.items() if any(b not in matches[a] for a, b in combinations(near, 2))}
    clear = {answer: near - vague for answer, near in matches.items() if answer not in vague}
    keys: dict[str, tuple[str, ...]] = {answer: ("", min(near)) for answer, near in clear.items()}
    for answer in vague:
        fits = {keys[other] for other in matches[answer] - vague}
        keys[answer] = fits.pop() if len(fits) == 1 else ("vague", *sorted(matches[answer]))
    groups: dict[tuple[str, ...], list[Turn]] = {}
    for turn in parsed:
        groups.setdefault(keys[turn.stance.answer or ""], []).append(turn)
    return list(groups.values())


def agreed(turns: Sequence[Turn], same: Same) -> bool:
    """Whether at least two debaters spoke, every stance was parsed, and each pair of answers is the same."""
    answers = [turn.stance.answer for turn in turns if turn.stance.status != "failed"]
    if len(answers) < 2 or None in answers:
        return False
    matches = _matches([answer for answer in answers if answer is not None], same)
    return all(len(near) == len(matches) for near in matches.values())


def same_answers(turns: Sequence[Turn], same: Same) -> dict[str, float]:
    """Agent -> how many others give the same answer (Zhang et al., Eq. 2); 0 if its own was not parsed."""
    answers = {turn.agent: turn.stance.answer for turn in turns}
    matches = _matches([answer for answer in answers.values() if answer is not None], same)
    return {
        agent: 0.0 if answer is None else sum(other in matches[answer] for other in answers.values()) - 1.0
        for agent, answer in answers.items()
    }


def by_cast(turns: Sequence[Turn], names: Sequence[str]) -> list[Turn]:
    """The turns in the order of the cast, so that "the earliest debater" does not depend on the speaking order."""
    place = {name: n for n, name in enumerate(names)}
    return sorted(turns, key=lambda turn: place.get(turn.agent, len(place)))


def _matches(answers: Sequence[str], same: Same) -> dict[str, frozenset[str]]:
    """Each distinct answer -> the answers that are the same, including itself."""
    matches = {answer: {answer} for answer in answers}
    for one, other in combinations(matches, 2):
        if same(one, other):
            matches[one].add(other)
            matches[other].add(one)
    return {answer: frozenset(near) for answer, near in matches.items()}


def reading_order(
    order: Order, rounds: Sequence[Round], names: Sequence[str], *, question: Question, task: Task, seed: str
) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """The reading order of the round after ``rounds``, for all readers, and each agent's score (only for ``madc``).

    In the first round it is the order of the cast (``names``) or a random one, which depends on ``seed``. The orders by
    truth compare answers with the question's golds; ``madc`` uses the task's matcher.
    """
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
        for agent in _read_last(rounds):
            scores[agent] = scores.get(agent, 0.0) * order.decay
        return _ascending(turns, scores, same), scores
    return tuple(turn.agent for turn in turns), {}


def _read_last(rounds: Sequence[Round]) -> list[str]:
    """The agent that was read last, for each round after the first."""
    last = []
    for before, entry in pairwise(rounds):
        spoke = {turn.agent for turn in before.turns if turn.stance.status != "failed"}
        last += [agent for agent in reversed(entry.order) if agent in spoke][:1]
    return last


def order_for(reader: str, turns: Sequence[Turn], names: Sequence[str], same: Same) -> tuple[str, ...]:
    """The ``madc`` order for one reader, computed without its own answer (as in the authors' released code)."""
    others = by_cast([turn for turn in turns if turn.agent != reader], names)
    return _ascending(others, same_answers(others, same), same)


def _ascending(turns: Sequence[Turn], scores: Mapping[str, float], same: Same) -> tuple[str, ...]:
    """Agents by score; ties by answer group (that of the earliest debater first), then by position in ``turns``."""
    place = {turn.agent: n for n, turn in enumerate(turns)}
    group = {t.agent: place[members[0].agent] for members in answer_groups(turns, same) for t in members}
    return tuple(sorted(place, key=lambda agent: (scores[agent], group.get(agent, place[agent]), place[agent])))
