"""First-round stances that come from outside: sampled elsewhere, or the first round of another run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Stance, Transcript, Turn
from madke.data.questions import Identified, read_lines
from madke.engine.parse import answer_of, marked, parse_confidence, without_reasoning
from madke.engine.protocol import Protocol, is_name
from madke.tasks import get_task

Rounds = dict[int, tuple[Turn, ...]]
"""Repeat -> the turns of its first round."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstRounds:
    """The first round of every debate of a run."""

    rounds: Mapping[str, Rounds]
    """Question id -> its first rounds."""

    @property
    def hashes(self) -> dict[str, str]:
        """Question id -> hash of what is given, wherever it came from."""
        found = {}
        for id_, rounds in self.rounds.items():
            turns = [(repeat, [asdict(turn) for turn in rounds[repeat]]) for repeat in sorted(rounds)]
            found[id_] = sha256(json.dumps(turns).encode()).hexdigest()[:16]
        return found

    def reordered(self, order: Literal["same", "reversed", "rotated"]) -> FirstRounds:
        """The same stances at other places: who stood first now says what the last one said, and so on.

        Names stay where they are, since readers who are among them read by their own order.
        """
        if order == "same":
            return self
        moved = {}
        for id_, rounds in self.rounds.items():
            moved[id_] = {repeat: _moved(turns, reverse=order == "reversed") for repeat, turns in rounds.items()}
        return FirstRounds(rounds=moved)

    def of(self, question: str, repeat: int) -> tuple[Turn, ...]:
        """The first round of one debate. A question with one given round has it in every repeat."""
        rounds = self.rounds[question]
        return next(iter(rounds.values())) if len(rounds) == 1 else rounds[repeat]


class _Stance(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: str = Field(min_length=1)
    text: str
    answer: str | None = None


class _Line(Identified):
    stances: tuple[_Stance, ...] = Field(min_length=1)


def read_first_rounds(path: Path, questions: Sequence[Question], protocol: Protocol) -> FirstRounds:
    """The stances of a JSONL file; lines of other questions are passed over.

    A line is ``{"id", "stances": [{"agent", "text", "answer"?}]}``. An answer that is not there is read from the text,
    by the protocol's marker and the reader of the question's task.

    Raises:
        UserError: The file or one of its lines is wrong, or a question has none.
    """
    asked = {question.id: question for question in questions}
    rounds: dict[str, Rounds] = {}
    for number, line in read_lines(path, _Line):
        if line.id in asked:
            try:
                rounds[line.id] = {0: _distinct([_turn(said, asked[line.id], protocol) for said in line.stances])}
            except UserError as error:
                raise UserError(f"question {line.id!r}: {error}", file=path, line=number) from None
    return _complete(rounds, questions, 1, path)


def first_rounds(
    transcripts: Iterable[Transcript], questions: Sequence[Question], repeats: int, path: Path
) -> FirstRounds:
    """The first round of each of a run's transcripts; each repeat has its own where the run has several.

    Transcripts of other questions are passed over. ``path`` is the run's, for errors.

    Raises:
        UserError: A question has no first round with a stance in it, or its text is another one there.
    """
    asked = {question.id: question for question in questions}
    rounds: dict[str, Rounds] = {}
    for transcript in transcripts:
        question = asked.get(transcript.id)
        if question is None:
            continue
        if question.question != transcript.question:
            found = f"its question {question.id!r} is {transcript.question!r}, not {question.question!r}"
            raise UserError(found, file=path)
        # What was said, without how it came about.
        said = [
            (turn.agent, replace(turn.stance, stage="speak", truncated=None)) for turn in transcript.rounds[0].turns
        ]
        turns = [Turn(agent=agent, stance=stance) for agent, stance in said]
        if any(turn.stance.status != "failed" for turn in turns):
            rounds.setdefault(transcript.id, {})[transcript.repeat] = _distinct(turns)
    return _complete(rounds, questions, repeats, path)


def _complete(rounds: Mapping[str, Rounds], questions: Sequence[Question], repeats: int, path: Path) -> FirstRounds:
    for question in questions:
        there = rounds.get(question.id, {})
        if not there:
            raise UserError(f"holds no first-round stance for question {question.id!r}", file=path)
        if len(there) > 1 and (missing := [repeat for repeat in range(repeats) if repeat not in there]):
            raise UserError(f"holds no first round for question {question.id!r}, repeat {missing[0]}", file=path)
    return FirstRounds(rounds=rounds)


def _turn(said: _Stance, question: Question, protocol: Protocol) -> Turn:
    text, task = without_reasoning(said.text), get_task(question.task)
    if said.answer is not None:
        answer = task.read(said.answer, question)
        if answer is None:
            raise UserError(f"{said.answer!r} of {said.agent!r} is no answer of task {question.task}")
        # Who reads it is shown what was said; without a text that is the answer.
        stance = Stance(text=text or f"My answer is {marked(answer, protocol.marker)}.", answer=answer, rule="given")
    else:
        parsed = answer_of(text, task, question, protocol.marker)
        stance = Stance(text=text, answer=parsed.value, status=parsed.status, rule=parsed.rule)
    confidence = parse_confidence(text).value if protocol.finish == "weighted" else None
    return Turn(agent=said.agent, stance=replace(stance, confidence=confidence))


def _moved(turns: tuple[Turn, ...], *, reverse: bool) -> tuple[Turn, ...]:
    said = turns[::-1] if reverse else turns[-1:] + turns[:-1]
    return tuple(replace(what, agent=who.agent) for who, what in zip(turns, said, strict=True))


def _distinct(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    for agent, count in Counter(turn.agent for turn in turns).items():
        if not is_name(agent):
            raise UserError(f"agent {agent!r}: a name is one line with a letter or digit in it")
        if count > 1:
            raise UserError(f"agent {agent!r} has {count} stances; names must differ")
    return tuple(turns)
