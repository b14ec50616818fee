"""Right and wrong stances of a question, drawn from many debates and put into an order (Zhang et al., 2025, RQ3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from random import Random
from typing import Literal

from pydantic import BaseModel, Field

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Stance, Transcript, Turn
from madke.data.first_round import FirstRounds
from madke.tasks import get_task

DrawnOrder = Literal["correct_first", "incorrect_first", "alternating"]

ORDERS: Mapping[DrawnOrder, Callable[[Sequence[Stance], Sequence[Stance]], list[Stance]]] = {
    "correct_first": lambda right, wrong: [*right, *wrong],
    "incorrect_first": lambda right, wrong: [*wrong, *right],
    # Begins with a right one.
    "alternating": lambda right, wrong: list(chain.from_iterable(zip(right, wrong, strict=True))),
}


class Draw(BaseModel, extra="forbid", frozen=True):
    """Stances to draw from all debates of a question, anew in each repeat."""

    each: int = Field(ge=1, strict=True)
    """Right stances, and wrong ones."""
    order: DrawnOrder
    read: int = Field(ge=1, strict=True)
    """How many of them are read: the first ones, in this order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """A question with its stances, by kind."""

    question: Question
    right: tuple[Stance, ...]
    wrong: tuple[Stance, ...]

    def drawn(self, order: DrawnOrder, each: int, draw: int, seed: int) -> list[Stance]:
        """``each`` stances of each kind in an order. The orders of one draw hold the same ones."""
        random = Random(sha256(repr((seed, self.question.id, draw)).encode()).digest())
        return ORDERS[order](random.sample(self.right, each), random.sample(self.wrong, each))


def sort_out(question: Question, stances: Sequence[Stance], each: int) -> Sampled:
    """The stances by kind, without those that have no parsed answer.

    Raises:
        UserError: There are fewer than ``each`` of a kind.
    """
    task = get_task(question.task)
    kinds: dict[bool, list[Stance]] = {True: [], False: []}
    for stance in stances:
        if stance.answer is not None:
            kinds[task.accepts(stance.answer, question)].append(stance)
    right, wrong = tuple(kinds[True]), tuple(kinds[False])
    if min(len(right), len(wrong)) < each:
        found = f"of {len(stances)} stances {len(right)} are right and {len(wrong)} wrong, and {each} of each are drawn"
        raise UserError(f"question {question.id!r} is left out: {found}; draw fewer, or sample more")
    return Sampled(question=question, right=right, wrong=wrong)


def drawn_first_rounds(
    transcripts: Iterable[Transcript], questions: Sequence[Question], draw: Draw, *, repeats: int, seed: int
) -> FirstRounds:
    """A first round for every repeat, drawn from the first rounds of the transcripts.

    A question with too few stances of a kind has none. The agents are outside any cast, and their names say nothing
    but their place.
    """
    stances: dict[str, list[Stance]] = {}
    for transcript in sorted(transcripts, key=lambda each: each.repeat):
        said = (turn.stance for turn in transcript.rounds[0].turns)
        stances.setdefault(transcript.id, []).extend(replace(each, stage="speak", truncated=None) for each in said)
    rounds = {}
    for question in questions:
        try:
            sampled = sort_out(question, stances.get(question.id, ()), draw.each)
        except UserError:
            continue
        rounds[question.id] = {
            repeat: _turns(sampled.drawn(draw.order, draw.each, repeat, seed)[: draw.read]) for repeat in range(repeats)
        }
    return FirstRounds(rounds=rounds)


def planned_first_rounds(simulated: FirstRounds, draw: Draw) -> FirstRounds:
    """As many stances as will be drawn, in place of those that are not known yet: copies of one, each with a number."""
    rounds = {}
    for id_ in simulated.rounds:
        stance = simulated.of(id_, 0)[0].stance
        copies = [replace(stance, text=f"{draw.order} {n}. {stance.text}") for n in range(draw.read)]
        rounds[id_] = {0: _turns(copies)}
    return FirstRounds(rounds=rounds)


def _turns(stances: Sequence[Stance]) -> tuple[Turn, ...]:
    return tuple(Turn(agent=f"Agent {n}", stance=stance) for n, stance in enumerate(stances, start=1))
