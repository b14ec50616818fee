"""Tables that know nothing of where they are shown: a terminal, a page, a paper, a spreadsheet."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from madke.report.compare import arm_of
from madke.report.text import HEADINGS, ORACLE, grades_missing, has_cost, in_percent, interval, of_dataset
from madke.runs.results import Results
from madke.scoring.arms import ArmValues, only
from madke.scoring.paired import PairedTest, paired_tests
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate, enough
from madke.terminal import printable

MARK = "*"
"""Follows a figure that differs significantly from the first arm's."""

_OVER_REPEATS = "over repeats %"
_REPEATS = "sd over repeats"

_UNPARSED = "unparsed: "
_ASIDE = ("paid", "questions", "debates", "answered")
"""What stands aside in the table of scores, with the shares of replies that could not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What stands in one place of a table."""

    text: str
    """As people read it, without the mark. It may be text of others: whoever renders it escapes it."""
    value: float | None = None
    """The figure, in the unit of the column's heading; None for words and where there is none."""
    low: float | None = None
    """Its 95 % interval, in the same unit; of a range without a value, its ends."""
    high: float | None = None
    mark: str = ""
    """Follows the text; a note of the table says what it means."""

    @property
    def figure_and_interval(self) -> tuple[str, str]:
        """The text in two, for want of room: a figure, and its interval for the line below, empty if it has none."""
        if self.value is None or self.low is None:
            return self.text, ""
        figure, bracket, interval = self.text.partition(" (")
        return figure, interval.removesuffix(")") if bracket else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table; all rows have as many cells as there are columns."""

    title: str
    columns: tuple[str, ...]
    """Headings, each with its unit where it has one; all different."""
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """What a reader has to know to read it, a sentence each."""
    aside: tuple[str, ...] = ()
    """Headings of columns that a page or a paper shows apart, for want of room."""

    def in_two(self) -> tuple[Table, Table | None]:
        """The table without the columns that stand aside, and those behind the first column; None if there are none."""
        apart = [heading in self.aside for heading in self.columns]

        def kept(which: Sequence[bool], notes: tuple[str, ...]) -> Table:
            rows = tuple(tuple(compress(row, which)) for row in self.rows)
            return Table(title=self.title, columns=tuple(compress(self.columns, which)), rows=rows, notes=notes)

        rest = kept([True, *apart[1:]], ()) if any(apart) else None
        return kept([not one for one in apart], self.notes), rest

    def has_figures(self, column: int) -> bool:
        """Whether the column, by its place, holds figures or ranges of them, which stand to the right."""
        return any(row[column].value is not None or row[column].low is not None for row in self.rows)


NOTHING = Cell(text="-")
"""Where a figure does not apply, or nobody knows it; in files the cell is empty."""


def score_table_of(results: Sequence[Results], scores: Mapping[str, Scores]) -> Table:
    """The scores of arms as :func:`table_of_arms` shows them, tested for the marks; transcripts are read once.

    Every value that stands in a column and can be compared is tested against the first arm's on the questions that both
    hold, and corrected for all of these tests together (Holm): a family of its own, not that of ``madke compare``.

    Args:
        results: The arms, at least one; the first is what the others are tested against.
        scores: By the arms' names.
    """
    arms = [arm_of(arm) for arm in results]
    return table_of_arms(arms, scores, paired_tests([(arms[0], other) for other in arms[1:]]))


def score_table_by_dataset(results: Sequence[Results], scores: Mapping[str, Mapping[str, Scores]]) -> Table:
    """The same with a row for each dataset of each arm, tested against the first arm on the same dataset.

    Args:
        results: The arms, at least one.
        scores: Arm -> dataset -> its scores.
    """
    rows: list[ArmValues] = []
    first: dict[str, ArmValues] = {}
    pairs = []
    for arm in map(arm_of, results):
        for dataset in scores[arm.name]:
            keys = [key for key, name in arm.questions.items() if (name or "") == dataset]
            rows.append(replace(only(arm, keys), name=of_dataset(arm.name, dataset)))
            if dataset in first:
                pairs.append((first[dataset], rows[-1]))
            first.setdefault(dataset, rows[-1])
    named = {of_dataset(arm, dataset): each for arm, found in scores.items() for dataset, each in found.items()}
    return table_of_arms(rows, named, paired_tests(pairs), against=[arm.name for arm in first.values()])


def table_of_arms(
    arms: Sequence[ArmValues], scores: Mapping[str, Scores], tests: Sequence[PairedTest], against: Sequence[str] = ()
) -> Table:
    """The scores of arms, a row each, with a mark where a test says that one differs from the first arm.

    Where all tasks have the same first metric, it has no column of its own: it is what ``correct`` says.

    Args:
        arms: At least one.
        scores: By the arms' names.
        tests: Those of arms against the first; others are left aside.
        against: The names of the arms that others are tested against, where it is not the first alone.
    """
    against = against or [arms[0].name]
    marks = {(test.right, test.metric): MARK for test in tests if test.significant and test.left in against}
    firsts = {arm.first_metric for arm in arms}
    first = firsts.pop() if len(firsts) == 1 else "correct"
    groups = [_score_cells(arm, scores[arm.name], marks, first) for arm in arms]
    columns = tuple(dict.fromkeys(column for group in zip(*groups, strict=True) for cells in group for column in cells))
    notes = [
        "Intervals are of 95 %, over questions; repeats of a question are averaged first. "
        "Rates: Wilson; other means: bootstrap.",
        "Failed debates are in no mean; abstained ones are wrong.",
    ]
    if any(enough(list(arm.questions.values())) for arm in arms):
        notes.insert(
            1, "Several datasets are pooled: intervals hold t intervals, standard errors clustered by dataset, as well."
        )
    elif any(len(set(arm.questions.values())) == 2 for arm in arms):
        notes.insert(1, "Two datasets are pooled as one sample: the intervals say nothing about other datasets.")
    if _REPEATS in columns:
        notes.append(
            f"{_OVER_REPEATS}: correct, with the t interval over repeats of these questions; {_REPEATS}: standard "
            "deviation of the means of single repeats."
        )
    if any(scores[arm.name].cons_judge is None and scores[arm.name].cons_matcher for arm in arms):
        notes.append(
            "Cons and Co2 by the judge's last verdict; m: no judge was asked about all, by the task's matcher."
        )
    notes += [f"{arm.name}: {said}." for arm in arms if (said := grades_missing(scores[arm.name]))]
    if tests:
        kinds = "; ".join(dict.fromkeys(test.test for test in tests))
        others = arms[0].name if len(against) == 1 else "the first arm on the same dataset"
        notes.append(
            f"{MARK} differs from {others}: p < 0.05 after Holm's correction over {len(tests)} tests ({kinds})."
        )
        notes += _if_failed([test for test in tests if test.left in against])
    notes += [f"{arm.name}: {ORACLE}." for arm in arms if scores[arm.name].read_golds]
    rows = _filled(columns, (ChainMap(*of_arm) for of_arm in groups))
    aside = tuple(heading for heading in columns if heading in _ASIDE or heading.startswith(_UNPARSED))
    return Table(title="Scores", columns=columns, rows=rows, notes=tuple(notes), aside=aside)


def paired_table(tests: Sequence[PairedTest], title: str = "Paired tests") -> Table:
    """Paired tests, a row each. Differences are second minus first."""
    if not tests:
        return Table(title=title, columns=("first", "second", "value"), rows=())
    rows = [_test_cells(test) for test in tests]
    columns = tuple(dict.fromkeys(column for cells in rows for column in cells))
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
    for over, why in (
        ("questions", "they have the value in one arm only"),
        ("repeats", "an arm lacks one of the repeats"),
    ):
        if left_out := max((test.left_out for test in tests if test.over == over), default=0):
            notes.append(f"Up to {left_out} questions are in no test, because {why}.")
    notes += _if_failed(tests)
    return Table(title=title, columns=columns, rows=_filled(columns, rows), notes=tuple(notes))


def _if_failed(tests: Sequence[PairedTest]) -> Iterator[str]:
    """For each two arms: what differences would be if all that failed in one of them only had gone one way."""
    pairs: dict[tuple[str, str], list[PairedTest]] = {}
    for test in tests:
        if test.if_failed is not None:
            pairs.setdefault((test.left, test.right), []).append(test)
    for (left, right), found in pairs.items():
        failed = max(test.if_failed.n for test in found if test.if_failed is not None)
        yield (
            f"{left} and {right}: {failed} questions failed in one of the two; counted against {right} and in its "
            f"favour: {'; '.join(map(_extremes, found))}."
        )


def _extremes(test: PairedTest) -> str:
    found = test.if_failed
    assert found is not None
    _, scaled = _unit(test)
    low, high = (
        f"{scaled(value, '+')} ({_said_p(p)})" for value, p in ((found.low, found.low_p), (found.high, found.high_p))
    )
    withheld = ", so it has no mark" if test.p_holm < 0.05 and not test.significant else ""
    return f"{HEADINGS.get(test.metric, test.metric)} {low} and {high}{withheld}"


def cost_table(scores: Mapping[str, Scores]) -> Table:
    """What arms got right beside what a question took: by name, in order."""
    columns = ("arm", "correct %", "rounds", "calls a question", "paid a question", "tokens a question")
    rows = []
    for name, found in scores.items():
        total, n = found.total, max(found.transcripts, 1)
        tokens = total.prompt_tokens + total.completion_tokens
        rounds = found.mean_rounds.value if found.mean_rounds else 0.0
        each = (rounds, total.calls / n, total.paid / n, tokens / n)
        known = has_cost(found)
        figures = (Cell(text=f"{figure:,.1f}", value=figure) if known else NOTHING for figure in each)
        rows.append((Cell(text=name), percent_cell(found.correct), *figures))
    return Table(title="Cost", columns=columns, rows=tuple(rows))


def _score_cells(
    arm: ArmValues, scores: Scores, marks: Mapping[tuple[str, str], str], first: str
) -> list[dict[str, Cell]]:
    """Heading -> cell, in groups whose headings stand together; headings that do not apply to an arm are left out.

    ``first`` is the metric that ``correct`` is for all arms, or ``correct`` itself.
    """

    def mark(metric: str) -> str:
        return marks.get((arm.name, metric), "")

    named = "correct %" if first == "correct" else f"correct ({HEADINGS.get(first, first)}) %"
    right = {"arm": Cell(text=arm.name), named: percent_cell(scores.correct, mark(arm.first_metric) or mark("correct"))}
    if spread := scores.repeats.get("correct"):
        over = Estimate(value=spread.mean, low=spread.low, high=spread.high, n=spread.repeats)
        right[_OVER_REPEATS] = percent_cell(over)
        right[_REPEATS] = Cell(text=f"{100 * spread.sd:.1f} (n = {spread.repeats})", value=100 * spread.sd)
    metrics = {}
    for name, found in scores.metrics.items():
        if name == first:
            continue
        if in_percent(name):
            metrics[f"{HEADINGS.get(name, name)} %"] = percent_cell(found, mark(name))
        else:
            metrics[name] = _figure(found, mark(name))
    consistent = {
        heading: percent_cell(judge) if judge else percent_cell(matcher, " m")
        for heading, judge, matcher in (
            ("Cons %", scores.cons_judge, scores.cons_matcher),
            ("Co2 %", scores.co2_judge, scores.co2_matcher),
            ("Co2 by grader %", scores.co2_judge_grader, scores.co2_matcher_grader),
        )
        if judge or matcher
    }
    total = scores.total
    cost = {
        "rounds": NOTHING if scores.mean_rounds is None else _figure(scores.mean_rounds, digits=".2f"),
        "calls": count_cell(total.calls),
        "paid": count_cell(total.paid),
        "tokens": count_cell(total.prompt_tokens + total.completion_tokens),
    }
    asked = {
        "questions": count_cell(scores.questions),
        **({"debates": count_cell(scores.transcripts)} if scores.transcripts != scores.questions else {}),
        "answered": count_cell(scores.transcripts - scores.abstained - scores.failed),
        "failed": count_cell(scores.failed),
    }
    unparsed = {f"{_UNPARSED}{stage} %": percent_cell(missed) for stage, missed in scores.parse_failures.items()}
    return [right, metrics, consistent, cost if has_cost(scores) else {}, asked, unparsed]


def _test_cells(test: PairedTest) -> dict[str, Cell]:
    unit, scaled = _unit(test)
    times = 100.0 if unit else 1.0
    found, detectable, pairs = test.difference, test.detectable, test.discordant
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
        "effect": _effect(test),
        "could show": NOTHING if detectable is None else Cell(text=scaled(detectable), value=times * detectable),
    }
    return cells


def _unit(test: PairedTest) -> tuple[str, Callable[..., str]]:
    """What a value's figures are in, as its heading says; and how one of them is written, with a sign if asked."""
    unit = " %" if in_percent(test.metric) else ""

    def scaled(value: float, signed: str = "") -> str:
        # "z": what rounds to nothing has no minus.
        return f"{100 * value:{signed}z.1f}" if unit else f"{value:{signed}z.4g}"

    return unit, scaled


def _effect(test: PairedTest) -> Cell:
    effect = test.effect
    if effect is None:
        return NOTHING
    short = effect.name.removeprefix("Cohen's ")
    return Cell(text=f"{short} {effect.value:+z.2f}", value=effect.value, low=effect.low, high=effect.high)


def p_value(p: float) -> str:
    """A p value as papers print it."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def _said_p(p: float) -> str:
    found = p_value(p)
    return f"p {found}" if found.startswith("<") else f"p = {found}"


def _filled(columns: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(cells.get(column, NOTHING) for column in columns) for cells in rows)


def count_cell(n: int) -> Cell:
    """A number of things."""
    return Cell(text=f"{n:,}", value=n)


def percent_cell(found: Estimate | None, mark: str = "") -> Cell:
    """A share in percent, with its interval; :data:`NOTHING` where there is none."""
    if found is None:
        return NOTHING
    return Cell(text=interval(found), value=100 * found.value, low=100 * found.low, high=100 * found.high, mark=mark)


def _figure(found: Estimate, mark: str = "", digits: str = ".4g") -> Cell:
    text = f"{found.value:{digits}} ({found.low:{digits}} to {found.high:{digits}})"
    return Cell(text=text, value=found.value, low=found.low, high=found.high, mark=mark)


# The last four are the full-width forms, which spreadsheets of some locales take for the others.
_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_cell(text: str) -> str:
    """Text of others as a spreadsheet may hold it: printable, with an apostrophe before what it takes for a formula.

    Control and formatting characters, carriage returns among them, are left out (:func:`madke.terminal.printable`). A
    formula is what then starts with ``=``, ``+``, ``-``, ``@``, a tab or a newline and is no number (OWASP, "CSV
    Injection"). Quoting commas and line breaks is left to the csv module.
    """
    clean = printable(text)
    return f"'{clean}" if clean.startswith(_STARTS_FORMULA) and not _NUMBER.fullmatch(clean) else clean
