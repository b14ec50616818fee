"""Runs side by side: what each of them made of the questions that all of them hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import ParseStatus, Transcript
from madke.scoring.arms import ArmValues, QuestionKey, Results, only, opened, read_arm, shared_questions
from madke.scoring.debate_rows import NOTHING_SAID, Said
from madke.scoring.metrics import question_of
from madke.scoring.outside import external_values
from madke.scoring.paired import PairedTest, paired_tests, repeat_tests
from madke.scoring.scores import Scores, score, total_usage
from madke.scoring.statistics import Estimate, estimate, half_width
from madke.tasks import get_task

_PAPERS = 500
"""Questions a set in the papers' tables."""

_EACH_OTHER = 3
"""Up to so many arms each two are tested; of more, each against the first, or correction would take all power away."""

_EQUAL_COST = 0.1
"""Arms whose calls a question differ by more than this share are not at equal cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one run made of one question, in its first repeat."""

    run: str
    answer: str | None
    status: ParseStatus
    correct: float | None
    """The task's first metric, in 0 .. 1; None without a gold answer, or where the question failed."""
    rounds: int | None
    """None, as calls and tokens, where nobody counted: of answers from elsewhere."""
    stop_reason: str
    calls: int | None
    tokens: int | None
    """Prompt and completion tokens together."""
    oracle: bool
    """Whether the order of the debate read the gold answers: an analysis, no prediction."""
    repeat: int
    """Its number, 0-based."""
    repeats: int
    """How many repeats of the question the run holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedQuestion:
    """One question, and what each run made of it."""

    id: str
    question: str
    task: str
    answers: tuple[str, ...]
    """Gold answers."""
    asked: Question
    runs: tuple[Outcome, ...]
    """In the order in which the runs were given."""

    @property
    def differs(self) -> bool:
        """Whether the runs' answers differ under the task's matcher, or are not equally right."""
        first, *others = self.runs
        return any(
            first.correct != other.correct or first.status != other.status or self.other_answer(first, other)
            for other in others
        )

    def other_answer(self, left: Outcome, right: Outcome) -> bool:
        """Whether two runs' final answers differ under the task's matcher; none and none are the same."""
        if left.answer is None or right.answer is None:
            return left.answer != right.answer
        return not get_task(self.task).same(left.answer, right.answer, self.asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What some runs made of the questions that all of them hold."""

    questions: tuple[ComparedQuestion, ...]
    """At least one; in the order of the first run."""
    unshared: Mapping[str, int]
    """Run -> how many of its questions are left out, because another run does not hold them."""
    arms: tuple[ArmValues, ...]
    """All values of the runs on these questions, every repeat."""
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """Run -> its scores on these questions, those of graders and scorers outside among the metrics."""

    def tests(self, metrics: Sequence[str] = (), *, all_pairs: bool = False) -> list[PairedTest]:
        """Paired tests over questions, of these values (by default the runs' own), Holm-corrected together.

        Each two of up to three runs are tested, of more each with the first, unless ``all_pairs``.

        Raises:
            UserError: No run has such a value.
        """
        return family(self.arms, self._known(metrics), all_pairs=all_pairs)

    def repeat_tests(self, metrics: Sequence[str] = (), *, all_pairs: bool = False) -> list[PairedTest]:
        """The same across repeats: see :func:`madke.scoring.paired.repeat_tests`."""
        return repeat_tests(_tested(self.arms, all_pairs), self._known(metrics))

    @property
    def notes(self) -> list[str]:
        """What a reader has to know before believing a difference: how little n says, and unequal cost."""
        n = len(self.questions)
        found = [
            f"n = {n}: a rate near 50 % is known to \u00b1{100 * half_width(n):.1f} points ({_PAPERS} questions, as "
            f"the papers have: \u00b1{100 * half_width(_PAPERS):.1f}); below that only a paired test can tell two runs "
            "apart."
        ]
        calls = {name: each.total.calls / each.transcripts for name, each in self.scores.items() if each.usage}
        if calls and max(calls.values()) - min(calls.values()) > _EQUAL_COST * max(calls.values()):
            each = ", ".join(f"{name} {count:.1f}" for name, count in calls.items())
            found.append(f"not at equal cost: calls a question: {each}.")
        return found

    def _known(self, metrics: Sequence[str]) -> Sequence[str]:
        held = dict.fromkeys(name for arm in self.arms for name in arm.values)
        if unknown := [name for name in metrics if name not in held]:
            raise UserError(f"no run has the value {unknown[0]!r}; there are {', '.join(held) or 'none'}")
        return metrics

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
        answered = [row for row in self.questions if "failed" not in (row.runs[left].status, row.runs[right].status)]
        return Pair(
            first=names[left],
            second=names[right],
            both=both,
            only_first=only_first,
            only_second=only_second,
            neither=neither,
            left_out=marks.total(),
            other_answer=estimate([float(row.other_answer(row.runs[left], row.runs[right])) for row in answered]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """On how many questions two runs were right, in their first repeats."""

    first: str
    second: str
    both: int
    only_first: int
    only_second: int
    neither: int
    left_out: int
    """Questions that failed in one of the two, have no gold answer, or whose metric is more than right or wrong."""
    other_answer: Estimate | None
    """Flip rate: the share of questions whose final answers differ, of those that failed in neither."""


def family(arms: Sequence[ArmValues], metrics: Sequence[str] = (), *, all_pairs: bool = False) -> list[PairedTest]:
    """The paired tests of some arms that stand in one table: :func:`madke.scoring.paired.paired_tests` of their pairs.

    Each two of up to three arms, of more each with the first; on the questions that all of them hold.
    """
    shared = shared_questions(arms)
    return paired_tests(_tested([only(arm, shared) for arm in arms], all_pairs), metrics)


def _tested(arms: Sequence[ArmValues], all_pairs: bool) -> list[tuple[ArmValues, ArmValues]]:
    if all_pairs or len(arms) <= _EACH_OTHER:
        return list(combinations(arms, 2))
    return [(arms[0], other) for other in arms[1:]]


def compare(runs: Mapping[str, Iterable[Transcript]], said: Mapping[str, Said] | None = None) -> Comparison:
    """Set the runs side by side, over the questions that all of them hold: the same id and the same text.

    Args:
        runs: Name -> transcripts, at least two. They are read one by one and not kept.
        said: Run -> what graders and scorers outside said of its answers.

    Raises:
        UserError: There is no such question, or a transcript names a task that does not exist.
    """
    asked: dict[QuestionKey, Question] = {}
    columns: list[dict[QuestionKey, Outcome]] = []
    arms: list[ArmValues] = []
    for name, transcripts in runs.items():
        column: dict[QuestionKey, Outcome] = {}
        arm = read_arm(name, _noted(transcripts, name, column, asked), (said or {}).get(name, NOTHING_SAID))
        correct = arm.values.get("correct", {})
        columns.append(
            {key: replace(kept, correct=correct.get(key, {}).get(kept.repeat)) for key, kept in column.items()}
        )
        arms.append(arm)
    shared = shared_questions(arms)
    if not shared:
        raise UserError(f"no question is in all of {', '.join(runs)}; compare runs over the same questions")
    questions = tuple(
        ComparedQuestion(
            id=key[0],
            question=key[1],
            task=asked[key].task,
            answers=asked[key].answers,
            asked=asked[key],
            runs=tuple(column[key] for column in columns),
        )
        for key in shared
    )
    unshared = {name: len(column) - len(shared) for name, column in zip(runs, columns, strict=True)}
    of_shared = tuple(only(arm, shared) for arm in arms)
    return Comparison(questions=questions, unshared=unshared, arms=of_shared)


def compare_runs(runs: Sequence[Path | str | Results]) -> Comparison:
    """Set runs side by side as :func:`compare` does, with their scores on the questions that all of them hold.

    Args:
        runs: Run directories, or results from anywhere; two or more.

    Raises:
        UserError: A path is no run, or the runs share no question.
    """
    results = opened(runs)
    said = {arm.name: external_values(arm) for arm in results}
    found = compare({arm.name: arm.transcripts() for arm in results}, said)
    shared = {(row.id, row.question) for row in found.questions}
    scores = {
        arm.name: score((t for t in arm.transcripts() if (t.id, t.question) in shared), said[arm.name])
        for arm in results
    }
    return replace(found, scores=scores)


def _noted(
    transcripts: Iterable[Transcript],
    run: str,
    column: dict[QuestionKey, Outcome],
    asked: dict[QuestionKey, Question],
) -> Iterator[Transcript]:
    """The transcripts, with a note of the first repeat of each question taken on the way."""
    for transcript in transcripts:
        key = (transcript.id, transcript.question)
        asked.setdefault(key, question_of(transcript))
        kept = column.get(key)
        first = kept if kept and kept.repeat < transcript.repeat else _outcome(run, transcript)
        column[key] = replace(first, repeats=kept.repeats + 1 if kept else 1)
        yield transcript


def _outcome(run: str, transcript: Transcript) -> Outcome:
    # Whether it is correct is filled in from the arm's values, once they are there.
    used = total_usage(transcript.usage.values()) if transcript.usage else None
    return Outcome(
        run=run,
        answer=transcript.answer,
        status=transcript.status,
        correct=None,
        rounds=len(transcript.rounds) if used else None,
        stop_reason=transcript.stop_reason,
        calls=used.calls if used else None,
        tokens=used.prompt_tokens + used.completion_tokens if used else None,
        oracle=transcript.oracle,
        repeat=transcript.repeat,
        repeats=1,
    )
