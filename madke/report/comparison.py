"""Runs side by side on the questions that all hold, and the tables of what tells them apart: tests and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import ParseStatus, Transcript
from madke.report.tables import HEADINGS, MARK, NOTHING, Cell, Table, count_cell, in_percent, percent_cell, score_cell
from madke.scoring.arms import ArmValues, QuestionKey, Results, only, opened, read_arm, shared_questions
from madke.scoring.debate_rows import NO_EXTERNAL_SCORES, ExternalScores
from madke.scoring.metrics import question_of
from madke.scoring.outside import external_values
from madke.scoring.paired import PairedTest, paired_tests, repeat_tests
from madke.scoring.scores import Scores, score, total_usage
from madke.scoring.statistics import Estimate, estimate, half_width
from madke.tasks import get_task

_PAPERS = 500
"""Questions a set in the papers' tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one run made of one question, in its first repeat."""

    run: str
    answer: str | None
    status: ParseStatus
    correct: float | None
    """The task's first metric, in 0 .. 1; None without a gold answer, or where the question failed."""
    rounds: int | None
    """None, as calls and tokens, for answers from elsewhere."""
    stop_reason: str
    calls: int | None
    tokens: int | None
    oracle: bool
    """Whether the order of the debate read the gold answers: an analysis, no prediction."""
    repeat: int
    repeats: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedQuestion:
    """One question, and what each run made of it."""

    id: str
    question: str
    task: str
    answers: tuple[str, ...]
    asked: Question
    runs: tuple[Outcome, ...]

    @property
    def differs(self) -> bool:
        """Whether the runs' answers differ under the task's matcher, or are not equally right."""
        first, *others = self.runs
        alike = {(each.correct, each.status) for each in self.runs}
        return len(alike) > 1 or any(self.other_answer(first, other) for other in others)

    def other_answer(self, left: Outcome, right: Outcome) -> bool:
        """Whether two runs' final answers differ under the task's matcher; none and none are the same."""
        if left.answer is None or right.answer is None:
            return left.answer != right.answer
        return not get_task(self.task).same(left.answer, right.answer, self.asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What some runs made of the questions that all of them hold."""

    questions: tuple[ComparedQuestion, ...]
    unshared: Mapping[str, int]
    """Run -> how many of its questions are left out, because another run does not hold them."""
    arms: tuple[ArmValues, ...]
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """Run -> its scores on these questions."""

    def tests(self, metrics: Sequence[str] = (), *, all_pairs: bool = False) -> list[PairedTest]:
        """Paired tests over questions, of these values (by default the runs' own), Holm-corrected together.

        Each two of up to three runs are tested, of more each with the first, unless ``all_pairs``.
        """
        return family(self.arms, self._known(metrics), all_pairs=all_pairs)

    def repeat_tests(self, metrics: Sequence[str] = (), *, all_pairs: bool = False) -> list[PairedTest]:
        """The same across repeats: see :func:`madke.scoring.paired.repeat_tests`."""
        return repeat_tests(_tested(self.arms, all_pairs), self._known(metrics))

    @property
    def notes(self) -> list[str]:
        """How little n says, and unequal cost."""
        n = len(self.questions)
        found = [
            f"n = {n}: a rate near 50 % is known to \u00b1{100 * half_width(n):.1f} points ({_PAPERS} questions, as "
            f"the papers have: \u00b1{100 * half_width(_PAPERS):.1f}); below that only a paired test can tell two runs "
            "apart."
        ]
        calls = {name: each.total.calls / each.transcripts for name, each in self.scores.items() if each.usage}
        if calls and max(calls.values()) - min(calls.values()) > 0.1 * max(calls.values()):
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
    """The paired tests of each two of up to three arms, of more each with the first; on the questions that all hold."""
    shared = shared_questions(arms)
    return paired_tests(_tested([only(arm, shared) for arm in arms], all_pairs), metrics)


def _tested(arms: Sequence[ArmValues], all_pairs: bool) -> list[tuple[ArmValues, ArmValues]]:
    if all_pairs or len(arms) <= 3:  # of more, correction would take all power away
        return list(combinations(arms, 2))
    return [(arms[0], other) for other in arms[1:]]


def compare(runs: Mapping[str, Iterable[Transcript]], said: Mapping[str, ExternalScores] | None = None) -> Comparison:
    """Set the runs side by side, over the questions that all of them hold: the same id and the same text.

    ``runs`` are name -> transcripts, at least two; ``said`` is run -> what graders and scorers outside said of its
    answers. UserError where there is no such question.
    """
    asked: dict[QuestionKey, Question] = {}
    columns: list[dict[QuestionKey, Outcome]] = []
    arms: list[ArmValues] = []
    for name, transcripts in runs.items():
        column: dict[QuestionKey, Outcome] = {}
        arm = read_arm(name, _noted(transcripts, name, column, asked), (said or {}).get(name, NO_EXTERNAL_SCORES))
        correct = arm.values.get("correct", {})
        judged = ((key, kept, correct.get(key, {}).get(kept.repeat)) for key, kept in column.items())
        columns.append({key: replace(kept, correct=right) for key, kept, right in judged})
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

    UserError where a path is no run, or the runs share no question.
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
    transcripts: Iterable[Transcript], run: str, column: dict[QuestionKey, Outcome], asked: dict[QuestionKey, Question]
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
        tokens=used.tokens if used else None,
        oracle=transcript.oracle,
        repeat=transcript.repeat,
        repeats=1,
    )


# Tables

NO_ROOM = ("p", "effect")
"""What a terminal's table of tests leaves to ``--json`` and pages: uncorrected p values, and effects without a unit."""


def paired_table(tests: Sequence[PairedTest], title: str = "Paired tests") -> Table:
    """Paired tests, a row each. Differences are second minus first."""
    if not tests:
        return Table(title=title, columns=("first", "second", "value"), rows=())
    rows = [_test_cells(test) for test in tests]
    columns = tuple(dict.fromkeys(column for cells in rows for column in cells))
    filled = tuple(tuple(cells.get(column, NOTHING) for column in columns) for cells in rows)
    kinds: dict[str, dict[str, None]] = {}
    for test in tests:
        kinds.setdefault(test.test, {})[test.metric] = None
    notes = [
        "difference: second minus first, with its 95 % interval.",
        f"{MARK}: p < 0.05 after Holm's correction over the {len(tests)} tests of this table.",
        "could show: the smallest difference that n could show, given how much the two differ, with 80 % power at "
        "alpha 0.05.",
        "effect: g, the share of discordant pairs in favour of the second less a half, or d (both Cohen's).",
        *(f"{kind}: {', '.join(metrics)}." for kind, metrics in kinds.items()),
    ]
    reasons = {"questions": "they have the value in one arm only", "repeats": "an arm lacks one of the repeats"}
    for over, why in reasons.items():
        if left_out := max((test.left_out for test in tests if test.over == over), default=0):
            notes.append(f"Up to {left_out} questions are in no test, because {why}.")
    notes += if_failed_notes(tests)
    return Table(title=title, columns=columns, rows=filled, notes=tuple(notes))


def if_failed_notes(tests: Sequence[PairedTest]) -> Iterator[str]:
    """For each two arms: what differences would be if all that failed in one of them only had gone one way."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for test in tests:
        if test.if_failed is not None:
            low, high = (_unit(test)[1](value, "+") for value in test.if_failed)
            withheld = ", so it has no mark" if test.p_holm < 0.05 and not test.significant else ""
            name = HEADINGS.get(test.metric, test.metric)
            pairs.setdefault((test.left, test.right), []).append(f"{name} {low} and {high}{withheld}")
    for (left, right), found in pairs.items():
        yield (
            f"{left} and {right}: with what failed in one of the two counted against {right} and in its favour: "
            f"{'; '.join(found)}."
        )


def _test_cells(test: PairedTest) -> dict[str, Cell]:
    unit, scaled = _unit(test)
    times = 100.0 if unit else 1.0
    found, detectable, pairs, effect = test.difference, test.detectable, test.discordant, test.effect
    cells = {
        "first": Cell(text=test.left),
        "second": Cell(text=test.right),
        "value": Cell(text=f"{HEADINGS.get(test.metric, test.metric)}{unit}"),
        "n": count_cell(test.n),
        "of first": Cell(text=scaled(test.left_value), value=times * test.left_value),
        "of second": Cell(text=scaled(test.right_value), value=times * test.right_value),
        "difference": Cell(
            text=f"{scaled(found.value, '+')} ({scaled(found.low, '+')} to {scaled(found.high, '+')})",
            value=times * found.value,
            low=times * found.low,
            high=times * found.high,
        ),
    }
    if pairs is not None:
        cells |= {"only first": count_cell(pairs.only_left), "only second": count_cell(pairs.only_right)}
    cells |= {
        "p": Cell(text=p_value(test.p), value=test.p),
        "p (Holm)": Cell(text=p_value(test.p_holm), value=test.p_holm, mark=MARK if test.significant else ""),
        "effect": NOTHING
        if effect is None
        else Cell(text=f"{effect.name[-1]} {effect.value:+z.2f}", value=effect.value, low=effect.low, high=effect.high),
        "could show": NOTHING if detectable is None else Cell(text=scaled(detectable), value=times * detectable),
    }
    return cells


def _unit(test: PairedTest) -> tuple[str, Callable[..., str]]:
    """What a value's figures are in; and how one of them is written, with a sign if asked."""
    unit = " %" if in_percent(test.metric) else ""

    def scaled(value: float, signed: str = "") -> str:
        # "z": what rounds to nothing has no minus.
        return f"{100 * value:{signed}z.1f}" if unit else f"{value:{signed}z.4g}"

    return unit, scaled


def p_value(p: float) -> str:
    """A p value as papers print it."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def cost_table(scores: Mapping[str, Scores]) -> Table:
    """What arms got right beside what a question took: by name, in order."""
    columns = ("arm", "correct %", "rounds", "calls a question", "paid a question", "tokens a question")
    rows = []
    for name, found in scores.items():
        total, n = found.total, max(found.transcripts, 1)
        rounds = found.mean_rounds.value if found.mean_rounds else 0.0
        each = (rounds, total.calls / n, total.paid / n, total.tokens / n)
        figures = (score_cell(figure, digits=",.1f") if found.usage else NOTHING for figure in each)
        rows.append((Cell(text=name), percent_cell(found.correct), *figures))
    return Table(title="Cost", columns=columns, rows=tuple(rows))
