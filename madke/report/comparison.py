"""Comparison of runs, or of logs of other tools, on their shared questions, with the tables of their tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from textwrap import shorten
from typing import Literal, TypeVar

from madke.core.errors import UserError, count_of
from madke.core.transcript import ParseStatus, Transcript
from madke.report.tables import (
    MARK,
    NO_FIGURE,
    Cell,
    Table,
    TableRow,
    count_cell,
    one_line,
    p_value,
    percent_cell,
    table_of,
    value_cell,
)
from madke.scoring.arms import ArmValues, QuestionKey, Results, open_results, restricted_to, shared_questions
from madke.scoring.debate_rows import NO_EXTERNAL_SCORES, ExternalScores, correct
from madke.scoring.logs import Log
from madke.scoring.metrics import heading_of, is_share, question_of
from madke.scoring.paired import PairedTest, compare_two, further_questions, holm, paired_tests, paired_tests_by_dataset
from madke.scoring.scored import external_values, incomplete
from madke.scoring.scores import Scores, score_with_values
from madke.scoring.statistics import estimate
from madke.tasks import get_task

T = TypeVar("T")

_MAX_PAIRED = 6
"""Number of runs or logs of which every pair is compared; of more, each with the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionResult:
    """Result of one run on one question, in its first repeat."""

    run: str
    answer: str | None
    status: ParseStatus | Literal["deferred"]
    correct: float | None
    """The task's first metric, in 0 .. 1; None for a failed question or one without gold answers."""
    rounds: int | None
    """None for predictions from files."""
    repeat: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedQuestion:
    """One question and the result of each run."""

    id: str
    question: str
    task: str
    answers: tuple[str, ...]
    runs: tuple[QuestionResult, ...]
    differs: bool
    """Whether answers differ under the task's matcher, or scores or statuses differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Results of runs on their shared questions."""

    questions: tuple[ComparedQuestion, ...]
    unshared: Mapping[str, int]
    """Run -> number of its questions that another run lacks."""
    arms: tuple[ArmValues, ...]
    scores: Mapping[str, Scores]
    """Run -> scores on the shared questions."""

    def tests(self, metrics: Sequence[str] = ()) -> list[PairedTest]:
        """Paired tests over questions of these metrics (default: all), with Holm's correction.

        Tests every pair of up to six runs. Of more runs, tests each against the first.
        """
        return paired_tests(_pairs_of(self.arms), self._known_metrics(metrics))

    def dataset_tests(self, metrics: Sequence[str] = ()) -> list[PairedTest]:
        """Like :meth:`tests`, within each dataset: see :func:`madke.scoring.paired.paired_tests_by_dataset`."""
        return paired_tests_by_dataset(_pairs_of(self.arms), self._known_metrics(metrics))

    @property
    def notes(self) -> list[str]:
        """A note on unequal cost."""
        calls = {name: each.total.calls / each.transcripts for name, each in self.scores.items() if each.usage}
        if not calls or max(calls.values()) - min(calls.values()) <= 0.1 * max(calls.values()):
            return []
        return [f"Unequal cost, in calls per question: {', '.join(f'{name} {n:.1f}' for name, n in calls.items())}."]

    def _known_metrics(self, metrics: Sequence[str]) -> Sequence[str]:
        names = dict.fromkeys(name for arm in self.arms for name in arm.values)
        if unknown := [name for name in metrics if name not in names]:
            raise UserError(f"no run has the metric {unknown[0]!r}; available: {', '.join(names) or 'none'}")
        return metrics


def family(arms: Sequence[ArmValues]) -> tuple[list[PairedTest], list[PairedTest]]:
    """Paired tests on shared questions, over all of them and within each of several datasets.

    Tests every pair of up to six arms, or each arm against the first.
    """
    shared = shared_questions(arms)
    pairs = _pairs_of([restricted_to(arm, shared) for arm in arms])
    return paired_tests(pairs), paired_tests_by_dataset(pairs)


def _pairs_of(items: Sequence[T]) -> list[tuple[T, T]]:
    if len(items) <= _MAX_PAIRED:  # with more pairs, the correction would remove all power
        return list(combinations(items, 2))
    return [(items[0], other) for other in items[1:]]


def compare_runs(runs: Sequence[Path | str | Results]) -> Comparison:
    """Compare runs on their shared questions; UserError if a path is no run, or if no question is shared."""
    results = open_results(runs)
    return comparison_of(results, {arm.name: external_values(arm) for arm in results})


def comparison_of(results: Sequence[Results], external: Mapping[str, ExternalScores] | None = None) -> Comparison:
    """Compare at least two arms on their shared questions, which have the same id and text.

    ``external``: arm -> the scores of graders and scorers. UserError if no question is shared.
    """
    questions: dict[QuestionKey, Transcript] = {}
    read = {arm.name: _column(arm, questions) for arm in results}
    columns = {name: column for name, (column, _) in read.items()}
    shared = [key for key in columns[results[0].name] if all(key in column for column in columns.values())]
    if not shared:
        raise UserError(f"no question is in all of {', '.join(columns)}; compare runs over the same questions")
    of_all, scores, arms = {*shared}, {}, []
    for arm in results:
        transcripts = (t for t in arm.transcripts() if (t.id, t.question) in of_all)
        own, values = score_with_values(arm.name, transcripts, (external or {}).get(arm.name, NO_EXTERNAL_SCORES))
        scores[arm.name] = replace(own, incomplete=incomplete(arm, read[arm.name][1]))
        arms.append(restricted_to(values, shared))
    return Comparison(
        questions=tuple(_question_row(questions[key], [column[key] for column in columns.values()]) for key in shared),
        unshared={name: len(column) - len(shared) for name, column in columns.items()},
        arms=tuple(arms),
        scores=scores,
    )


def _column(arm: Results, questions: dict[QuestionKey, Transcript]) -> tuple[dict[QuestionKey, QuestionResult], int]:
    """Question -> an arm's result in its first repeat; the number of debates. ``questions`` gets a debate of each."""
    column: dict[QuestionKey, QuestionResult] = {}
    done = 0
    for t in arm.transcripts():
        key, done = (t.id, t.question), done + 1
        questions.setdefault(key, t)
        if key not in column or t.repeat < column[key].repeat:
            rounds, right = len(t.rounds) if t.usage else None, correct(t)
            column[key] = QuestionResult(
                run=arm.name, answer=t.answer, status=t.status, correct=right, rounds=rounds, repeat=t.repeat
            )
    return column, done


def _question_row(transcript: Transcript, results: Sequence[QuestionResult]) -> ComparedQuestion:
    first, *others = dict.fromkeys(each.answer for each in results)
    differs = len({(each.correct, each.status) for each in results}) > 1
    if others and not differs:
        task, question = get_task(transcript.task), question_of(transcript)
        differs = any(
            first is None or other is None or not task.same(first, other, question=question) for other in others
        )
    return ComparedQuestion(
        id=transcript.id,
        question=transcript.question,
        task=transcript.task,
        answers=transcript.answers,
        runs=tuple(results),
        differs=differs,
    )


# Tables of tests and questions

BY_DATASET = "Paired tests by dataset"


def paired_table(tests: Sequence[PairedTest], title: str = "Paired tests") -> Table:
    """Paired tests, one row each. Differences are second minus first."""
    if not tests:
        return Table(title=title, columns=("first", "second", "value"), rows=())
    family = "over the tests of the same value in this table"
    if any(test.dataset is not None for test in tests):
        family = "over all datasets and pairs in this table (the first metrics of the tasks together)"
    kinds: dict[str, dict[str, None]] = {}
    for test in tests:
        kinds.setdefault(test.test, {})[test.metric] = None
    notes = [
        "difference: second minus first, with its 95 % interval.",
        f"{MARK}: p < 0.05 after Holm's correction {family}.",
        "more n: further questions like these that would show a difference of this size with 80 % power at alpha 0.05.",
        *(f"{kind}: {', '.join(heading_of(name) for name in metrics)}." for kind, metrics in kinds.items()),
    ]
    if left_out := max(test.left_out for test in tests):
        lost = count_of(left_out, "question is", "questions are")
        notes.append(f"Up to {lost} excluded from a test, because one arm has no value for them.")
    return table_of(title, [_test_cells(test) for test in tests], [*notes, *if_failed_notes(tests)])


def if_failed_notes(tests: Sequence[PairedTest]) -> Iterator[str]:
    """For each pair of arms: differences if all questions that failed in only one arm counted for or against it."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for test in tests:
        if test.if_failed is not None:
            low, high = (value_cell(test.metric, each, sign="+").text for each in test.if_failed)
            withheld = ", so no mark" if test.p_holm < 0.05 and not test.significant else ""
            of = f" on {test.dataset}" if test.dataset else ""
            note = f"{heading_of(test.metric)}{of} {low} and {high}{withheld}"
            pairs.setdefault((test.left, test.right), []).append(note)
    for (left, right), notes in pairs.items():
        yield (
            f"{left} and {right}: difference if questions that failed in only one run count against and for {right}: "
            f"{'; '.join(notes)}."
        )


def _test_cells(test: PairedTest) -> TableRow:
    dataset: TableRow = {} if test.dataset is None else {"dataset": test.dataset or "-"}
    cells: TableRow = dataset | {
        "first": test.left,
        "second": test.right,
        "value": f"{heading_of(test.metric)}{' %' if is_share(test.metric) else ''}",
        "n": count_cell(test.n),
        "difference": value_cell(test.metric, test.difference, sign="+"),
        "p (Holm)": Cell(text=p_value(test.p_holm), value=test.p_holm, mark=MARK if test.significant else ""),
        "of first": value_cell(test.metric, test.left_value),
        "of second": value_cell(test.metric, test.right_value),
    }
    if (pairs := test.discordant) is not None:
        cells |= {"only first": count_cell(pairs.only_left), "only second": count_cell(pairs.only_right)}
    more = further_questions(test)
    return cells | {"more n": NO_FIGURE if more is None else count_cell(more)}


def question_table(compared: Sequence[ComparedQuestion]) -> Table:
    """One row per question: each run's answer with a mark and its number of rounds, and the gold answers.

    The gold answers are last, because narrow terminals leave out columns from the right.
    """
    rows: list[TableRow] = [
        {
            "id": _short(row.id),
            "question": _short(row.question),
            **{run.run: _marked_answer(run) for run in row.runs},
            "gold": _short(" | ".join(row.answers)),
        }
        for row in compared
    ]
    return table_of("", rows, ["+ right, - wrong, or a score in percent (task's first metric); rounds in parentheses."])


def _marked_answer(run: QuestionResult) -> str:
    mark = {None: "", 1.0: "+ ", 0.0: "- "}.get(run.correct, f"{100 * (run.correct or 0):.0f} ")
    answer = "failed" if run.status == "failed" else run.answer or "no answer"
    rounds = "" if run.rounds is None else f" ({run.rounds})"
    return f"{mark}{_short(answer)}{rounds}"


def _short(text: str) -> str:
    return shorten(one_line(text), 60, placeholder="\u2026")


# Logs


def compare_logs(logs: Sequence[Log]) -> list[PairedTest]:
    """Tests of the pairs of logs: all of up to six, else each with the first. UserError if two share no question."""
    tests = []
    for left, right in _pairs_of(logs):
        shared = [id_ for id_ in left.right if id_ in right.right]
        if not shared:
            here, there = next(iter(right.right)), next(iter(left.right))
            why = f"shares no question with {left.path}: its first id is {here!r}, there it is {there!r}"
            raise UserError(why, file=right.path)
        test = compare_two(*([log.right[id_] for id_ in shared] for log in (left, right)))
        left_out = len(left.right) + len(right.right) - 2 * len(shared)
        tests.append(replace(test, left=left.name, right=right.name, metric="correct", left_out=left_out))
    return [replace(test, p_holm=p) for test, p in zip(tests, holm([test.p for test in tests]), strict=True)]


def logs_table(logs: Sequence[Log]) -> Table:
    """One row per log: right answers, questions, and what the log tells of its cost."""
    rows: list[TableRow] = []
    for log in logs:
        row: TableRow = {"log": log.name, "right %": percent_cell(estimate([*log.right.values()]))}
        row["questions"] = count_cell(len(log.right))
        for what in ("calls", "tokens", "cost"):
            if any(what in each.cost for each in logs):
                spent, form = log.cost.get(what), ",.4g" if what == "cost" else ",.0f"
                row[what] = NO_FIGURE if spent is None else Cell(text=f"{spent:{form}}", value=spent)
        rows.append(row)
    return table_of("", rows)
