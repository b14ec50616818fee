"""Runs side by side: what each of them made of the questions that all of them hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from madke.core.errors import UserError
from madke.core.transcript import ParseStatus, Transcript
from madke.scoring.rows import correct
from madke.scoring.scores import total_usage
from madke.tasks import get_task


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one run made of one question, in its first repeat."""

    run: str
    answer: str | None
    status: ParseStatus
    correct: float | None
    """The task's first metric, in 0 .. 1; None without a gold answer, or where the question failed."""
    rounds: int
    stop_reason: str
    calls: int
    tokens: int
    """Prompt and completion tokens together."""
    oracle: bool
    """Whether the order of the debate read the gold answers: an analysis, no prediction."""
    repeat: int
    """Its number, 0-based."""
    repeats: int
    """How many repeats of the question the run holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """One question, and what each run made of it."""

    id: str
    question: str
    task: str
    answers: tuple[str, ...]
    """Gold answers."""
    runs: tuple[Outcome, ...]
    """In the order in which the runs were given."""

    @property
    def differs(self) -> bool:
        """Whether the runs' answers differ under the task's matcher, or are not equally right."""
        first, *others = self.runs
        return any(self._apart(first, other) for other in others)

    def _apart(self, left: Outcome, right: Outcome) -> bool:
        if left.correct != right.correct or left.status != right.status:
            return True
        if left.answer is None or right.answer is None:
            return left.answer != right.answer
        return not get_task(self.task).same(left.answer, right.answer)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What some runs made of the questions that all of them hold."""

    questions: tuple[Compared, ...]
    """At least one; in the order of the first run."""
    unshared: Mapping[str, int]
    """Run -> how many of its questions are left out, because another run does not hold them."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Each two of the runs, in the order in which they were given."""
        return tuple(self._pair(*two) for two in combinations(range(len(self.unshared)), 2))

    def _pair(self, left: int, right: int) -> Pair:
        marks = Counter((row.runs[left].correct, row.runs[right].correct) for row in self.questions)
        both, only_first, only_second, neither = (
            marks.pop(found, 0) for found in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
        )
        names = tuple(self.unshared)
        return Pair(
            first=names[left],
            second=names[right],
            both=both,
            only_first=only_first,
            only_second=only_second,
            neither=neither,
            left_out=marks.total(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """On how many questions two runs were right."""

    first: str
    second: str
    both: int
    only_first: int
    only_second: int
    neither: int
    left_out: int
    """Questions that failed in one of the two, have no gold answer, or whose metric is more than right or wrong."""


def compare(runs: Mapping[str, Iterable[Transcript]]) -> Comparison:
    """Set the runs side by side, over the questions that all of them hold: the same id and the same text.

    Args:
        runs: Name -> transcripts, at least two. They are read one by one and not kept.

    Raises:
        UserError: There is no such question, or a transcript names a task that does not exist.
    """
    # Ids alone are the same in many datasets ("1", "2", ...), so the text is part of the key.
    asked: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}
    columns: list[dict[tuple[str, str], Outcome]] = []
    for name, transcripts in runs.items():
        column: dict[tuple[str, str], Outcome] = {}
        for transcript in transcripts:
            key = (transcript.id, transcript.question)
            asked.setdefault(key, (transcript.task, transcript.answers))
            kept = column.get(key)
            first = kept if kept and kept.repeat < transcript.repeat else _outcome(name, transcript)
            column[key] = replace(first, repeats=kept.repeats + 1 if kept else 1)
        columns.append(column)
    shared = [key for key in columns[0] if all(key in column for column in columns)]
    if not shared:
        raise UserError(f"no question is in all of {', '.join(runs)}; compare runs over the same questions")
    questions = tuple(
        Compared(
            id=id_,
            question=question,
            task=asked[id_, question][0],
            answers=asked[id_, question][1],
            runs=tuple(column[id_, question] for column in columns),
        )
        for id_, question in shared
    )
    unshared = {name: len(column) - len(shared) for name, column in zip(runs, columns, strict=True)}
    return Comparison(questions=questions, unshared=unshared)


def _outcome(run: str, transcript: Transcript) -> Outcome:
    used = total_usage(transcript.usage.values())
    return Outcome(
        run=run,
        answer=transcript.answer,
        status=transcript.status,
        correct=correct(transcript),
        rounds=len(transcript.rounds),
        stop_reason=transcript.stop_reason,
        calls=used.calls,
        tokens=used.prompt_tokens + used.completion_tokens,
        oracle=transcript.oracle,
        repeat=transcript.repeat,
        repeats=1,
    )
