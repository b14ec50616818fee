"""The map of a disagreement: all answers of a debate, who held them when, what stands behind each, what changed minds.

It is read from the transcript and the passages. No model is called, and no gold answer is read.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from madke.core.question import Question
from madke.core.transcript import Change, Quote, Transcript, Turn
from madke.engine.agreement import (
    Same,
    Texts,
    answer_groups,
    containing,
    matcher,
    quotes_in,
    recorded_agreement,
    without_repeats,
)
from madke.engine.parse import parse_citations
from madke.tasks.base import BaseTask


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """A debater that gave an answer, and in which rounds."""

    agent: str
    rounds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldPosition:
    """One answer of a debate: all replies of all rounds that are the same under the task's matcher."""

    answer: str
    """In the words of the first who gave it."""
    held: tuple[Holder, ...]
    final: bool
    """Whether it is the answer of the debate."""
    containing: tuple[int, ...] | None
    """Pool numbers of all passages that contain it, read or not. None: it cannot be looked up."""
    sources: tuple[str, ...] = ()
    """The sources of these passages."""
    quotes: tuple[Quote, ...] = ()
    """What the debaters quoted for it, looked up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two answers that differ under the task's matcher, and each stands in a passage."""

    answers: tuple[str, str]
    passages: tuple[tuple[int, ...], tuple[int, ...]]
    """Pool numbers that contain the first and the second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turnaround:
    """A debater that changed its answer, and what it had before it that says the new one."""

    change: Change
    read: tuple[str, ...] = ()
    """The debaters whose stance of the round before it read, if that has the new answer."""
    passages: tuple[int, ...] = ()
    """Passages with the new answer that it named in this round and not before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictMap:
    """The map of one debate. Its topic is its question."""

    id: str
    question: str
    repeat: int
    outcome: str
    """``consensus``, ``split`` or ``single``, as in the agreement."""
    positions: tuple[HeldPosition, ...]
    """The final answer first, then by the number of replies."""
    contradictions: tuple[Contradiction, ...] = ()
    changes: tuple[Turnaround, ...] = ()

    @property
    def is_conflict(self) -> bool:
        """Whether more than one answer was given."""
        return len(self.positions) > 1


def conflicts_of(transcript: Transcript, task: BaseTask, texts: Texts | None) -> ConflictMap | None:
    """The map of a debate; None if nobody gave an answer, and for prose, whose texts no matcher compares.

    ``texts``: pool number -> title and text of the passage; None if they are not at hand. Then answers are not looked
    up, except what the transcript's agreement has recorded.
    """
    agreement = recorded_agreement(transcript, task)
    if agreement is None or task.is_prose:
        return None
    question = Question(
        id=transcript.id, question=transcript.question, task=transcript.task, choices=transcript.choices
    )
    same = matcher(task, question)
    said = [_Said(entry.n, turn) for entry in transcript.rounds for turn in entry.turns]
    recorded = {position.answer: position for position in agreement.positions}
    positions = []
    for group in _groups(said, same):
        answer = group[0].turn.stance.answer or ""
        known = next((each for given, each in recorded.items() if same(given, answer)), None)
        found = containing(answer, texts or (), texts, task, question)
        if texts is None and known is not None:
            found = known.containing  # of the passages that its supporters read
        quotes = without_repeats([quote for n, turn in group for quote in quotes_in(turn, n, texts, question)])
        positions.append(
            HeldPosition(
                answer=answer,
                held=_held(group),
                final=transcript.answer is not None and same(answer, transcript.answer),
                containing=found,
                sources=tuple(dict.fromkeys(each.source for each in transcript.pool if each.n in (found or ()))),
                quotes=tuple(quotes) if texts else known.quotes if known else (),
            )
        )
    if not positions:
        return None
    positions.sort(key=lambda each: (not each.final, -sum(len(one.rounds) for one in each.held)))
    pool = {entry.n for entry in transcript.pool}
    return ConflictMap(
        id=transcript.id,
        question=transcript.question,
        repeat=transcript.repeat,
        outcome=agreement.outcome,
        positions=tuple(positions),
        contradictions=tuple(_contradictions(positions, same)),
        changes=tuple(_turnaround(each, said, positions, same, pool) for each in agreement.changes),
    )


class _Said(NamedTuple):
    round: int
    turn: Turn


def _groups(said: Sequence[_Said], same: Same) -> list[list[_Said]]:
    """Replies with the same answer; of a vague answer's group, as at the end of a debate."""
    of_turn = {id(each.turn): each for each in said}
    return [[of_turn[id(turn)] for turn in group] for group in answer_groups([each.turn for each in said], same)]


def _held(group: Sequence[_Said]) -> tuple[Holder, ...]:
    rounds: dict[str, list[int]] = {}
    for n, turn in group:
        rounds.setdefault(turn.agent, []).append(n)
    return tuple(Holder(agent=agent, rounds=tuple(found)) for agent, found in rounds.items())


def _contradictions(positions: Sequence[HeldPosition], same: Same) -> Iterable[Contradiction]:
    stated = [each for each in positions if each.containing]
    for place, one in enumerate(stated):
        for other in stated[place + 1 :]:
            if not same(one.answer, other.answer):
                yield Contradiction(
                    answers=(one.answer, other.answer), passages=(one.containing or (), other.containing or ())
                )


def _turnaround(
    change: Change, said: Sequence[_Said], positions: Sequence[HeldPosition], same: Same, pool: Collection[int]
) -> Turnaround:
    own = [each for each in said if each.turn.agent == change.agent and each.round <= change.round]
    (turn,) = (each.turn for each in own if each.round == change.round)
    before = {n for each in own if each.round < change.round for n in _named(each.turn, pool)}
    holds = next((each for each in positions if same(each.answer, change.after)), None)
    gave = {each.turn.agent for each in said if each.round == change.round - 1 and _says(each.turn, change.after, same)}
    return Turnaround(
        change=change,
        read=tuple(agent for agent in dict.fromkeys(turn.reads) if agent in gave),
        passages=tuple(n for n in (holds.containing if holds else None) or () if n in _named(turn, pool) - before),
    )


def _says(turn: Turn, answer: str, same: Same) -> bool:
    return turn.stance.answer is not None and same(turn.stance.answer, answer)


def _named(turn: Turn, pool: Collection[int]) -> set[int]:
    """The passages that a debater chose or found, or that its reply names in brackets."""
    chosen = {*(turn.selection.ids if turn.selection else ()), *(turn.search.ids if turn.search else ())}
    return chosen | {*parse_citations(turn.stance.text, pool)}
