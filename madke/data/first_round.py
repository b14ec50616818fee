"""First-round stances: from a file, from the first round of another run, or drawn from many debates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Literal

from pydantic import BaseModel, Field

from madke._util.files import read_jsonl, refuse_repeated
from madke._util.yaml_file import validate
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Stance, Transcript, Turn
from madke.data.questions import Id
from madke.engine.parse.answer import answer_of, marked
from madke.engine.parse.decisions import parse_confidence
from madke.engine.parse.reply import without_reasoning
from madke.engine.protocol import Protocol
from madke.engine.settings import is_debater_name
from madke.tasks import get_task

GivenOrder = Literal["same", "reversed", "rotated", "other_question"]
"""What debaters read: their stances in this order, or stances from the debate of another question."""
Rounds = dict[int, tuple[Turn, ...]]
"""Repeat -> the turns of its first round."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstRounds:
    """The first round of every debate of a run."""

    rounds: Mapping[str, Rounds]

    @property
    def hashes(self) -> dict[str, str]:
        """Question id -> hash of its first rounds."""
        by_question = {}
        for id_, rounds in self.rounds.items():
            turns = [(repeat, [asdict(turn) for turn in rounds[repeat]]) for repeat in sorted(rounds)]
            by_question[id_] = sha256(json.dumps(turns).encode()).hexdigest()[:16]
        return by_question

    def reorder(self, order: GivenOrder) -> FirstRounds:
        """Assign the stances to other debaters: in reversed order, or rotated by one.

        The order of the names does not change, because debaters read each other in that order. ``other_question``:
        agents outside the cast bring the stances of the question before (the first question: of the next), one fewer
        than there are debaters. A protocol whose debaters do not read each other (``mad-noise``) shows only these.
        """
        ids = [*self.rounds]
        if order == "other_question" and len(ids) < 2:
            raise UserError("first_round: order = other_question needs at least two questions")
        rounds: dict[str, Rounds] = {id_: {} for id_ in ids}
        # By the question before, so that further questions change no first round.
        for id_, other in zip(ids, [*(ids[1:2] or ids), *ids[:-1]], strict=True):
            for repeat, turns in self.rounds[id_].items():
                if order == "other_question":
                    others = self.rounds[other].get(repeat) or next(iter(self.rounds[other].values()))
                    spoke = [turn for turn in others if turn.stance.status != "failed"][: len(turns) - 1]
                    strangers = (replace(t, agent=f"Stranger {n}", reads=()) for n, t in enumerate(spoke, start=1))
                    rounds[id_][repeat] = (*turns, *strangers)
                else:
                    ordered = {"same": turns, "reversed": turns[::-1], "rotated": turns[-1:] + turns[:-1]}[order]
                    by_place = zip(turns, ordered, strict=True)
                    rounds[id_][repeat] = tuple(replace(turn, agent=at.agent) for at, turn in by_place)
        return FirstRounds(rounds=rounds)

    def of(self, question: str, repeat: int) -> tuple[Turn, ...]:
        """The first round of one debate. A question with a single first round uses it in every repeat."""
        rounds = self.rounds[question]
        return next(iter(rounds.values())) if len(rounds) == 1 else rounds[repeat]


class _Stance(BaseModel, extra="forbid", frozen=True):
    agent: str = Field(min_length=1)
    text: str
    answer: str | None = None


class _Line(BaseModel, extra="forbid", frozen=True):
    id: Id
    stances: tuple[_Stance, ...] = Field(min_length=1)


def read_first_rounds(path: Path, questions: Sequence[Question], protocol: Protocol) -> FirstRounds:
    """Read the stances of a JSONL file; UserError if a line is wrong, or a question has none.

    A line is ``{"id", "stances": [{"agent", "text", "answer"?}]}``; other questions are ignored. A missing answer is
    parsed from the text with the protocol's marker and the question's task.
    """
    by_id = {question.id: question for question in questions}
    rounds: dict[str, Rounds] = {}
    line_of: dict[str, int] = {}
    for number, item in read_jsonl(path):
        line = validate(item, _Line, file=f"{path}:{number}")
        refuse_repeated(line_of, line.id, number, file=path, what=f"id {line.id!r}")
        if line.id in by_id:
            try:
                turns = [_turn(stance, by_id[line.id], protocol) for stance in line.stances]
                rounds[line.id] = {0: _distinct(turns)}
            except UserError as error:
                raise UserError(f"question {line.id!r}: {error}", file=path, line=number) from None
    return _complete(rounds, questions, 1, path)


def first_rounds(
    transcripts: Iterable[Transcript], questions: Sequence[Question], repeats: int, path: Path
) -> FirstRounds:
    """The first rounds of a run's transcripts, one per repeat; UserError if a question has none, or another text.

    Transcripts of other questions are ignored. ``path`` is the run's, for errors.
    """
    by_id = {question.id: question for question in questions}
    rounds: dict[str, Rounds] = {}
    for transcript in transcripts:
        question = by_id.get(transcript.id)
        if question is None:
            continue
        if question.question != transcript.question:
            problem = f"found {transcript.question!r} as question {question.id!r}, expected {question.question!r}"
            raise UserError(problem, file=path)
        # Keep the stances only, not how they were obtained.
        turns = [
            Turn(agent=turn.agent, stance=replace(turn.stance, stage="speak", truncated=None))
            for turn in transcript.rounds[0].turns
        ]
        if any(turn.stance.status != "failed" for turn in turns):
            rounds.setdefault(transcript.id, {})[transcript.repeat] = _distinct(turns)
    return _complete(rounds, questions, repeats, path)


def _complete(rounds: Mapping[str, Rounds], questions: Sequence[Question], repeats: int, path: Path) -> FirstRounds:
    for question in questions:
        by_repeat = rounds.get(question.id, {})
        if not by_repeat:
            raise UserError(f"no first-round stance for question {question.id!r}", file=path)
        if len(by_repeat) > 1 and (missing := [repeat for repeat in range(repeats) if repeat not in by_repeat]):
            raise UserError(f"no first round for question {question.id!r}, repeat {missing[0]}", file=path)
    return FirstRounds(rounds=rounds)


def _turn(line: _Stance, question: Question, protocol: Protocol) -> Turn:
    text, task = without_reasoning(line.text), get_task(question.task)
    if line.answer is not None:
        answer = task.read(line.answer, question)
        if answer is None:
            raise UserError(f"the answer {line.answer!r} of {line.agent!r} is not valid for task {question.task}")
        # Other debaters read the text; if it is empty, they read the answer.
        stance = Stance(text=text or f"My answer is {marked(answer, protocol.marker)}.", answer=answer, rule="given")
    else:
        parsed = answer_of(text, task, question, protocol.marker)
        stance = Stance(text=text, answer=parsed.value, status=parsed.status, rule=parsed.rule)
    confidence = parse_confidence(text).value if protocol.trace.weighs else None
    return Turn(agent=line.agent, stance=replace(stance, confidence=confidence))


def _distinct(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    for agent, count in Counter(turn.agent for turn in turns).items():
        if not is_debater_name(agent):
            raise UserError(f"agent {agent!r}: expected a name of one line with at least one letter or digit")
        if count > 1:
            raise UserError(f"agent {agent!r} has {count} stances; names must be unique")
    return tuple(turns)


class Draw(BaseModel, extra="forbid", frozen=True):
    """Stances to draw from all debates of a question, anew in each repeat."""

    each: int = Field(ge=1, strict=True)
    """Right stances, and wrong ones."""
    order: Literal["correct_first", "incorrect_first", "alternating"]
    """``alternating`` begins with a right one. The orders of one draw hold the same stances."""
    read: int = Field(ge=1, strict=True)
    """How many of them are read: the first ones, in this order."""

    def draw(self, right: Sequence[Stance], wrong: Sequence[Stance], random: Random) -> list[Stance]:
        """Some of these stances, in this order."""
        right, wrong = random.sample(right, self.each), random.sample(wrong, self.each)
        ordered = {
            "correct_first": [*right, *wrong],
            "incorrect_first": [*wrong, *right],
            "alternating": [stance for pair in zip(right, wrong, strict=True) for stance in pair],
        }
        return ordered[self.order][: self.read]


def drawn_first_rounds(
    transcripts: Iterable[Transcript], questions: Sequence[Question], draw: Draw, *, repeats: int, seed: int
) -> FirstRounds:
    """A first round for every repeat, drawn from the first rounds of the transcripts.

    A question with too few right or wrong stances has none; stances without a parsed answer do not count. The agents
    are outside any cast, and their names say nothing but their place.
    """
    stances: dict[str, list[Stance]] = {}
    for transcript in sorted(transcripts, key=lambda each: each.repeat):
        spoken = (turn.stance for turn in transcript.rounds[0].turns)
        stances.setdefault(transcript.id, []).extend(replace(each, stage="speak", truncated=None) for each in spoken)
    rounds = {}
    for question in questions:
        kinds: dict[bool, list[Stance]] = {True: [], False: []}
        for stance in stances.get(question.id, ()):
            if stance.answer is not None:
                kinds[get_task(question.task).accepts(stance.answer, question)].append(stance)
        if min(map(len, kinds.values())) >= draw.each:
            randoms = [Random(sha256(repr((seed, question.id, repeat)).encode()).digest()) for repeat in range(repeats)]
            rounds[question.id] = {
                repeat: _turns(draw.draw(kinds[True], kinds[False], random)) for repeat, random in enumerate(randoms)
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
