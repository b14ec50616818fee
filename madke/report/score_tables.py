"""The table of scores: which columns there are, and what stands in them.

One list of columns serves terminals, pages, CSV, Parquet and LaTeX: :func:`_score_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from madke.report.paired_tables import if_failed_notes
from madke.report.tables import (
    HEADINGS,
    MARK,
    NOTHING,
    ORACLE,
    Cell,
    Table,
    count_cell,
    in_percent,
    interval,
    percent_cell,
    rich_table,
    score_cell,
)
from madke.scoring.arms import ArmValues, Results, only
from madke.scoring.outside import arm_of
from madke.scoring.paired import PairedTest, paired_tests
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    import rich.table


def of_dataset(arm: str, dataset: str) -> str:
    """What an arm's row is called where each dataset has its own."""
    return f"{arm}: {dataset or 'no dataset named'}"


def grades_missing(scores: Scores) -> str:
    """How many answers have no grade, and where that leaves the grader's mean; empty where all have one."""
    if not scores.ungraded or scores.grader_if_ungraded is None:
        return ""
    low, high = scores.grader_if_ungraded
    return (
        f"{scores.ungraded} answers have no grade and are not in the grader's mean; with them it lies between "
        f"{100 * low:.1f} % (all wrong) and {100 * high:.1f} % (all right)"
    )


# Scores


@dataclass(frozen=True, kw_only=True, slots=True)
class _Arm:
    name: str
    scores: Scores
    first_metric: str = "correct"
    marks: Mapping[str, str]
    """Value -> the mark of its test against the first arm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    heading: str
    """On pages and in files; all different."""
    cell: Callable[[_Arm], Cell]
    screen: str = ""
    """The heading on a terminal; empty if it is not shown there."""
    place: Literal["main", "aside", "screen"] = "main"
    """``aside``: a page shows it apart, a paper not at all. ``screen``: on terminals alone."""
    screen_text: Callable[[_Arm], str] | None = None
    """What a terminal shows instead of the figure without its interval."""
    note: str = ""
    """What it says, where the table has it."""


_OVER_REPEATS = "over repeats %"
_REPEATS = "sd over repeats"
_CONSISTENCY = "Cons and Co2 by the judge's last verdict; m: no judge was asked about all, by the task's matcher."


def _score_columns(arms: Sequence[_Arm]) -> list[_Column]:
    """Every column, in order; those that hold nothing for any of the arms are left out later."""
    first = _first_metric(arms)
    measured = dict.fromkeys(name for arm in arms for name in arm.scores.metrics)
    named = "correct %" if first == "correct" else f"correct ({HEADINGS.get(first, first)}) %"
    return [
        _Column(heading="n", screen="n", place="screen", cell=_questions),
        _Column(
            heading=named,
            screen="correct % (95 % interval)",
            cell=_correct,
            screen_text=lambda arm: interval(arm.scores.correct),
        ),
        _Column(heading=_OVER_REPEATS, cell=_over_repeats),
        _Column(
            heading=_REPEATS,
            cell=_sd_over_repeats,
            note=f"{_OVER_REPEATS}: correct, with the t interval over repeats of these questions; {_REPEATS}: standard "
            "deviation of the means of single repeats.",
        ),
        *(_metric(name, first) for name in dict.fromkeys([*HEADINGS, *measured]) if name in measured),
        *(
            _Column(heading=f"{name} %", screen=name, cell=partial(_consistency, value=value), note=_CONSISTENCY)
            for name, value in (("Cons", "cons"), ("Co2", "co2"), ("Co2 by grader", "co2_grader"))
        ),
        _Column(heading="rounds", screen="rounds", cell=lambda arm: score_cell(arm.scores.mean_rounds, digits=".2f")),
        _Column(heading="calls", screen="calls", cell=_cost(lambda scores: scores.total.calls)),
        _Column(heading="paid", place="aside", cell=_cost(lambda scores: scores.total.paid)),
        _Column(
            heading="tokens",
            screen="tokens",
            cell=_cost(lambda scores: scores.total.prompt_tokens + scores.total.completion_tokens),
        ),
        _Column(heading="questions", place="aside", cell=lambda arm: count_cell(arm.scores.questions)),
        _Column(heading="debates", place="aside", cell=_debates),
        _Column(heading="answered", place="aside", cell=_answered),
        _Column(heading="abst.", screen="abst.", place="screen", cell=lambda arm: count_cell(arm.scores.abstained)),
        _Column(heading="failed", screen="failed", cell=lambda arm: count_cell(arm.scores.failed)),
        *(
            _Column(heading=f"unparsed: {stage} %", place="aside", cell=partial(_unparsed, stage=stage))
            for stage in dict.fromkeys(stage for arm in arms for stage in arm.scores.parse_failures)
        ),
    ]


def _first_metric(arms: Sequence[_Arm]) -> str:
    """The metric that ``correct`` is for all arms, or ``correct`` itself; then it has no column of its own in files."""
    firsts = {arm.first_metric for arm in arms}
    return firsts.pop() if len(firsts) == 1 else "correct"


def _questions(arm: _Arm) -> Cell:
    """How many questions there were, and with how many repeats where there are some: ``40 x 3``."""
    scores = arm.scores
    if scores.transcripts == scores.questions:
        return Cell(text=str(scores.questions), value=scores.questions)
    repeats, more = divmod(scores.transcripts, scores.questions)
    text = f"{scores.questions} ({scores.transcripts} debates)" if more else f"{scores.questions} x {repeats}"
    return Cell(text=text, value=scores.questions)


def _correct(arm: _Arm) -> Cell:
    mark = arm.marks.get(arm.first_metric, "") or arm.marks.get("correct", "")
    return percent_cell(arm.scores.correct, mark)


def _correct_text(arm: _Arm) -> str:
    return interval(arm.scores.correct)


def _over_repeats(arm: _Arm) -> Cell:
    spread = arm.scores.repeats.get("correct")
    if spread is None:
        return NOTHING
    return percent_cell(Estimate(value=spread.mean, low=spread.low, high=spread.high, n=spread.repeats))


def _sd_over_repeats(arm: _Arm) -> Cell:
    spread = arm.scores.repeats.get("correct")
    if spread is None:
        return NOTHING
    return Cell(text=f"{100 * spread.sd:.1f} (n = {spread.repeats})", value=100 * spread.sd)


def _metric(name: str, first: str) -> _Column:
    heading, shown = HEADINGS.get(name, name), percent_cell if in_percent(name) else score_cell

    def cell(arm: _Arm) -> Cell:
        return shown(arm.scores.metrics.get(name), arm.marks.get(name, ""))

    def own_scale(arm: _Arm) -> str:
        found = arm.scores.metrics.get(name)
        return "-" if found is None else "\n".join((*score_cell(found).figure_and_interval, f"n = {found.n}"))

    if in_percent(name):
        return _Column(heading=f"{heading} %", screen=heading, place="screen" if name == first else "main", cell=cell)
    said = f"{name}: a scale of its own, not percent; over the n questions with an answer."
    return _Column(heading=name, screen=name, cell=cell, screen_text=own_scale, note=said)


def _consistency(arm: _Arm, value: str) -> Cell:
    """By the judge; by the matcher, with a mark, where no judge was asked about all."""
    name, _, by = value.partition("_")
    judge, matcher = (getattr(arm.scores, "_".join(filter(None, (name, who, by)))) for who in ("judge", "matcher"))
    return percent_cell(judge) if judge or not matcher else percent_cell(matcher, " m")


def _cost(count: Callable[[Scores], int]) -> Callable[[_Arm], Cell]:
    """Nobody counted what answers from elsewhere took."""
    return lambda arm: count_cell(count(arm.scores)) if arm.scores.usage else NOTHING


def _debates(arm: _Arm) -> Cell:
    return NOTHING if arm.scores.transcripts == arm.scores.questions else count_cell(arm.scores.transcripts)


def _answered(arm: _Arm) -> Cell:
    return count_cell(arm.scores.transcripts - arm.scores.abstained - arm.scores.failed)


def _unparsed(arm: _Arm, stage: str) -> Cell:
    return percent_cell(arm.scores.parse_failures.get(stage))


def score_table(runs: Sequence[tuple[str, Scores]]) -> rich.table.Table:
    """For a terminal: one row a run; what came out right, how consistent the debaters were, and what it took."""
    arms = [_Arm(name=name, scores=scores, marks={}) for name, scores in runs]
    columns = _filled([column for column in _score_columns(arms) if column.screen], arms)
    rows = []
    for arm in arms:
        name = f"{arm.name}\n({ORACLE})" if arm.scores.read_golds else arm.name
        cells = ((column.cell(arm), column.screen_text) for column in columns)
        texts = (text(arm) if text else f"{cell.figure_and_interval[0]}{cell.mark}" for cell, text in cells)
        rows.append((Cell(text=name), *(Cell(text=text, value=0) for text in texts)))
    notes = [*dict.fromkeys(column.note for column in columns if column.note)]
    notes += [f"{arm.name}: {said}." for arm in arms if (said := grades_missing(arm.scores))]
    if any(arm.scores.datasets > 1 for arm in arms):
        notes.append("Several datasets are pooled; `madke score --by-dataset` gives each its own row.")
    headings = ("run", *(column.screen for column in columns))
    return rich_table(Table(title="", columns=headings, rows=tuple(rows), notes=tuple(notes)))


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
    held = [test for test in tests if test.left in against]
    rows = [
        _Arm(
            name=arm.name,
            scores=scores[arm.name],
            first_metric=arm.first_metric,
            marks={test.metric: MARK for test in held if test.significant and test.right == arm.name},
        )
        for arm in arms
    ]
    columns = _filled([column for column in _score_columns(rows) if column.place != "screen"], rows)
    notes = [
        "Intervals are of 95 %, over questions; repeats of a question are averaged first. "
        "Rates: Wilson; other means: bootstrap.",
        "Failed debates are left out of all means. Abstained ones count as wrong.",
        *dict.fromkeys(column.note for column in columns if column.note),
        *(f"{arm.name}: {said}." for arm in rows if (said := grades_missing(arm.scores))),
    ]
    if any(len(set(arm.questions.values())) > 1 for arm in arms):
        notes.insert(1, "Several datasets are pooled as one sample: intervals say nothing about other datasets.")
    if tests:
        kinds = "; ".join(dict.fromkeys(test.test for test in tests))
        others = arms[0].name if len(against) == 1 else "the first arm on the same dataset"
        corrected = f"p < 0.05 after Holm's correction over {len(tests)} tests ({kinds})"
        notes += [f"{MARK} differs from {others}: {corrected}.", *if_failed_notes(held)]
    notes += [f"{arm.name}: {ORACLE}." for arm in rows if arm.scores.read_golds]
    return Table(
        title="Scores",
        columns=("arm", *(column.heading for column in columns)),
        rows=tuple((Cell(text=arm.name), *(column.cell(arm) for column in columns)) for arm in rows),
        notes=tuple(notes),
        aside=tuple(column.heading for column in columns if column.place == "aside"),
    )


def _filled(columns: Sequence[_Column], arms: Sequence[_Arm]) -> list[_Column]:
    """The columns in which something stands, and that of what is correct."""
    return [each for each in columns if each.cell is _correct or any(each.cell(arm) is not NOTHING for arm in arms)]
