"""Score tables of arms for terminals, pages and files (:func:`_score_columns`), and score details as text."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Literal

from rich.console import Group
from rich.text import Text

from madke.core.errors import count_of
from madke.report.comparison import if_failed_notes
from madke.report.finding import all_failed, cause
from madke.report.reliability import judge_notes, oddities, readable_note
from madke.report.score_details import bound_note, cut_note, grades_missing, unread, unread_note
from madke.report.tables import (
    MARK,
    NO_FIGURE,
    ORACLE,
    Cell,
    Table,
    count_cell,
    percent_cell,
    rich_table,
    score_cell,
    value_cell,
)
from madke.scoring.arms import ArmValues, Results, of_dataset
from madke.scoring.metrics import BUILT_IN_METRICS, common_metric, heading_of, heading_of_correct
from madke.scoring.outside import arm_of
from madke.scoring.paired import PairedTest, paired_tests
from madke.scoring.scores import Scores
from madke.scoring.value_units import GRADER, is_share
from madke.scoring.votes import DIFFICULTY


def row_name(arm: str, dataset: str | None) -> str:
    """The row name of an arm, or of one of its datasets."""
    return arm if dataset is None else f"{arm}: {dataset or 'no dataset named'}"


def incomplete_notes(scores: Mapping[str, Scores]) -> list[str]:
    """How much of each incomplete run is done. The rows of one run, one for each dataset, share a note."""
    rows: dict[str, list[str]] = {}
    for name, found in scores.items():
        if found.incomplete:
            rows.setdefault(found.incomplete, []).append(name)
    return [f"{', '.join(names)}: {text}." for text, names in rows.items()]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Arm:
    name: str
    scores: Scores
    marks: Mapping[str, str]
    """Value -> mark of its test against the first arm."""


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    """Distinct heading on pages and in files."""
    cell: Callable[[_Arm], Cell]
    _: KW_ONLY
    place: Literal["all", "page", "aside", "screen"] = "all"
    """``page``: not on terminals. ``aside``: in a separate table on pages, left out of papers and terminals.
    ``screen``: only on terminals."""
    interval: bool = False
    """Whether terminals show the interval."""
    note: str = ""
    """Note of tables that have this column."""


_OVER_REPEATS = "over repeats %"
_REPEATS = "sd over repeats"
_SPREAD = (
    f"{_OVER_REPEATS}: correct, with a t interval over repeats of these questions; {_REPEATS}: standard deviation of "
    "the repeats' means."
)
_CONSISTENCY = "Cons and Co2: by the judge's last verdict, or (m) by the task's matcher if not all have one."


_FIRST_OUT = ("Cons", "Co2", "Co2 by grader", "rounds", "F1", "EM")
"""Headings that a narrow terminal leaves out before calls and tokens."""

_CUT_PROMPTS = (
    "cut prompts: calls whose prompt the server cut to its context window without an error; enlarge the window "
    "(num_ctx in Ollama)."
)


_EFFECTIVE_VOTES = f"effective votes: how many independent votes the votes for an answer were worth. {DIFFICULTY}"


def _score_columns(arms: Sequence[_Arm]) -> list[_Column]:
    """All columns, in order. Empty ones are removed later."""
    first = common_metric(arm.scores.measure for arm in arms)
    scores = [arm.scores for arm in arms]
    measured = dict.fromkeys(name for each in scores for name in each.metrics)
    return [
        _Column("n", _questions, place="screen"),
        _Column(f"{heading_of_correct(first)} %", _correct, interval=True),
        _Column("effective votes", _votes, interval=True, note=_EFFECTIVE_VOTES),
        *([_Column("abst.", _count(lambda scores: scores.abstained))] if any(s.abstained for s in scores) else []),
        *([_Column("deferred", _count(lambda scores: scores.deferred))] if any(s.deferred for s in scores) else []),
        *([_Column("unread", _count(unread), note=unread_note(scores))] if any(s.unread for s in scores) else []),
        _Column("failed", _count(lambda s: s.failed), place="all" if any(s.failed for s in scores) else "page"),
        _Column("cut prompts", _count(lambda scores: scores.total.server_cut or None), note=_CUT_PROMPTS),
        _Column(_OVER_REPEATS, _over_repeats, place="page"),
        _Column(_REPEATS, _sd_over_repeats, place="page", note=_SPREAD),
        *(
            _metric(name)
            for name in dict.fromkeys([*BUILT_IN_METRICS, GRADER, *measured])
            if name in measured and (name != first or not is_share(name))
        ),
        *(
            _Column(f"{name} %", partial(_consistency, value=value), note=_CONSISTENCY)
            for name, value in (("Cons", "cons"), ("Co2", "co2"), ("Co2 by grader", "co2_grader"))
        ),
        _Column("rounds", lambda arm: score_cell(arm.scores.mean_rounds, digits=".2f")),
        # Predictions from files have no usage.
        _Column("calls", _count(lambda scores: scores.total.calls if scores.usage else None)),
        _Column("paid", _count(lambda scores: scores.total.paid if scores.usage else None), place="aside"),
        _Column("tokens", _count(lambda scores: scores.total.tokens if scores.usage else None)),
        _Column("distinct prompt tokens", _count(lambda s: s.total.distinct_tokens or None), place="aside"),
        _Column("cached prompt tokens", _count(lambda s: s.total.cached_tokens or None), place="aside"),
        _Column("questions", _count(lambda scores: scores.questions), place="aside"),
        _Column("debates", _count(lambda s: s.transcripts if s.transcripts != s.questions else None), place="aside"),
        _Column(
            "answered", _count(lambda s: s.transcripts - s.abstained - unread(s) - s.failed - s.deferred), place="aside"
        ),
        _Column("incomplete", _incomplete, place="aside"),
        *(
            _Column(f"readable: {stage} %", partial(_readable, stage=stage), place="aside")
            for stage in dict.fromkeys(stage for each in scores for stage in each.readable)
        ),
        _Column("ungraded %", lambda arm: percent_cell(arm.scores.parse_failures.get("grade")), place="aside"),
        _Column("answer words", lambda arm: score_cell(arm.scores.answer_words), place="aside"),
        *(
            _Column(f"{status}: {stage} %", partial(_share, stage=stage, status=status), place="aside")
            for stage, status in dict.fromkeys(
                (stage, status) for each in scores for stage, shares in each.readings.items() for status in shares
            )
        ),
        *(
            _Column(f"bound: {stage}", partial(_bound, stage=stage), place="aside")
            for stage in dict.fromkeys(stage for each in scores for stage, used in each.usage.items() if used.bound)
        ),
    ]


def _questions(arm: _Arm) -> Cell:
    scores = arm.scores
    done = (scores.incomplete or "").partition(" (")[0]
    if done.startswith(f"{scores.transcripts:,} of "):  # the row holds the whole run
        return Cell(text=done, value=scores.questions)
    repeats, more = divmod(scores.transcripts, scores.questions or 1)
    times = f" ({scores.transcripts} debates)" if more else f" x {repeats}" if repeats > 1 else ""
    return Cell(text=f"{scores.questions}{times}", value=scores.questions)


def _incomplete(arm: _Arm) -> Cell:
    return Cell(text=arm.scores.incomplete) if arm.scores.incomplete else NO_FIGURE


def _correct(arm: _Arm) -> Cell:
    mark = arm.marks.get(arm.scores.measure, "") or arm.marks.get("correct", "")
    return percent_cell(arm.scores.correct, mark)


def _over_repeats(arm: _Arm) -> Cell:
    spread = arm.scores.repeats.get("correct")
    return percent_cell(spread.over_repeats()) if spread else NO_FIGURE


def _sd_over_repeats(arm: _Arm) -> Cell:
    spread = arm.scores.repeats.get("correct")
    return Cell(text=f"{100 * spread.sd:.1f} (n = {spread.repeats})", value=100 * spread.sd) if spread else NO_FIGURE


def _votes(arm: _Arm) -> Cell:
    return score_cell(arm.scores.votes, digits=".2f")


def _metric(name: str) -> _Column:
    heading = heading_of(name)

    def cell(arm: _Arm) -> Cell:
        return value_cell(name, arm.scores.metrics.get(name), arm.marks.get(name, ""))

    if is_share(name):
        return _Column(f"{heading} %", cell)
    note = f"{name}: on the scorer's scale, not in percent; over the n questions with an answer."
    return _Column(name, cell, interval=True, note=note)


def _consistency(arm: _Arm, value: str) -> Cell:
    name, _, by = value.partition("_")
    judge, matcher = (getattr(arm.scores, "_".join(filter(None, (name, who, by)))) for who in ("judge", "matcher"))
    return percent_cell(judge) if judge or not matcher else percent_cell(matcher, " m")


def _count(count: Callable[[Scores], int | None]) -> Callable[[_Arm], Cell]:
    return lambda arm: NO_FIGURE if (n := count(arm.scores)) is None else count_cell(n)


def _readable(arm: _Arm, stage: str) -> Cell:
    return percent_cell(arm.scores.readable.get(stage))


def _bound(arm: _Arm, stage: str) -> Cell:
    used = arm.scores.usage.get(stage)
    return count_cell(used.bound) if used else NO_FIGURE


def _share(arm: _Arm, stage: str, status: str) -> Cell:
    return percent_cell(arm.scores.readings.get(stage, {}).get(status))


def score_table(runs: Sequence[tuple[str, Scores]], *, details: bool = False, cut_notes: bool = True) -> Group:
    """Scores for a terminal: one row per run with correctness, consistency and usage, and how its replies were read.

    A run without a finished debate has no row; if all failed, the reasons stand above. ``details``: whole intervals.
    ``cut_notes``: name replies that were cut off.
    """
    incomplete = incomplete_notes(dict(runs))
    causes = [Text(cause(name, scores)) for name, scores in runs if all_failed(scores)]
    rest = [(name, scores) for name, scores in runs if scores.transcripts > scores.failed]
    arms = [_Arm(name=name, scores=scores, marks={}) for name, scores in rest]
    if not arms:
        return Group(*causes, *map(Text, incomplete))
    columns = _filled([column for column in _score_columns(arms) if column.place in ("all", "screen")], arms)
    rows = []
    for arm in arms:
        shown = (column.cell(arm) if column.interval else replace(column.cell(arm), interval="") for column in columns)
        name = f"{arm.name}\n({ORACLE})" if arm.scores.read_golds else arm.name
        rows.append((Cell(text=name), *shown))
    notes = [
        *incomplete,
        *([] if details else _intervals_note(cell.with_interval for row in rows for cell in row)),
    ]
    notes += dict.fromkeys(column.note for column in columns if column.note)
    notes += [f"{arm.name}: {missing}." for arm in arms if (missing := grades_missing(arm.scores))]
    notes += [f"{arm.name}: {note}." for arm in arms if (note := bound_note(arm.scores))]
    notes += [f"{arm.name}: {note}." for arm in arms if cut_notes and (note := cut_note(arm.scores))]
    for name, scores in rest:
        if scores.correct and scores.correct.n < scores.questions and not scores.failed:
            notes.append(f"{name}: correct is over {count_of(scores.correct.n, 'question')} with a gold answer.")
    if any(arm.scores.datasets > 1 for arm in arms):
        notes.append("Several datasets are pooled; use `madke score --by-dataset` for one row per dataset.")
    notes += filter(None, (readable_note(name, scores) for name, scores in rest))
    for name, scores in rest:
        notes += judge_notes(name, scores)
    notes += [f"Warning: {odd}" for odd in oddities(dict(rest))]
    headings = (
        "run",
        *(each.heading if each.cell is _correct else each.heading.removesuffix(" %") for each in columns),
    )
    table = Table(title="", columns=headings, rows=tuple(rows), notes=tuple(notes))
    return Group(*causes, rich_table(table, details=details, first_out=_FIRST_OUT))


def _intervals_note(cells: Iterable[str]) -> list[str]:
    """What the signs of these cells' intervals mean."""
    shown = "\n".join(cells)
    if "\N{PLUS-MINUS SIGN}" in shown:
        return ["\N{PLUS-MINUS SIGN}: half of the 95 % interval; brackets have its ends."]
    return ["Brackets: the 95 % interval."] if re.search(r"\[\S+ to \S+\]", shown) else []


def score_table_of(results: Sequence[Results], scores: Mapping[str, Mapping[str | None, Scores]]) -> Table:
    """The scores of arms, as in :func:`table_of_arms`, one row per arm and dataset; None is all datasets.

    Each comparable value is tested against the first arm on their shared questions. Holm's correction is over the
    tests of the same value in this table; ``madke compare`` tests more pairs.
    """
    rows: list[ArmValues] = []
    first: dict[str | None, ArmValues] = {}
    pairs = []
    for arm in map(arm_of, results):
        for dataset in scores[arm.name]:
            rows.append(replace(of_dataset(arm, dataset), name=row_name(arm.name, dataset)))
            if dataset in first:
                pairs.append((first[dataset], rows[-1]))
            first.setdefault(dataset, rows[-1])
    named = {row_name(arm, dataset): each for arm, found in scores.items() for dataset, each in found.items()}
    return table_of_arms(rows, named, paired_tests(pairs), [arm.name for arm in first.values()])


def table_of_arms(
    arms: Sequence[ArmValues], scores: Mapping[str, Scores], tests: Sequence[PairedTest], against: Sequence[str] = ()
) -> Table:
    """The scores of arms, one row each, with marks for significant differences from the first arm.

    Uses the ``tests`` against the first arm, or against the arms named by ``against``. If all tasks have the same first
    metric, it has no separate column, because ``correct`` is named after it.
    """
    against = against or [arms[0].name]
    held = [test for test in tests if test.left in against]
    rows = [
        _Arm(
            name=arm.name,
            scores=scores[arm.name],
            marks={test.metric: MARK for test in held if test.significant and test.right == arm.name},
        )
        for arm in arms
    ]
    columns = _filled([column for column in _score_columns(rows) if column.place != "screen"], rows)
    notes = [
        "Intervals: 95 %, over questions; repeats of a question are averaged first. "
        "Rates: Wilson; other means: bootstrap.",
        "Failed debates are left out of all means. Abstained ones count as wrong.",
        *incomplete_notes(scores),
        *dict.fromkeys(column.note for column in columns if column.note),
        *(f"{arm.name}: {missing}." for arm in rows if (missing := grades_missing(arm.scores))),
    ]
    if any(len(set(arm.questions.values())) > 1 for arm in arms):
        notes.insert(1, "Several datasets are pooled as one sample; intervals do not generalise to other datasets.")
    if tests:
        kinds = "; ".join(dict.fromkeys(test.test for test in tests))
        others = arms[0].name if len(against) == 1 else "the first arm on the same dataset"
        corrected = f"p < 0.05 after Holm's correction over the tests of the same value ({kinds})"
        if any(row.marks for row in rows):
            notes.append(f"{MARK} differs from {others}: {corrected}.")
        notes += if_failed_notes(held)
    notes += [f"{arm.name}: {ORACLE}." for arm in rows if arm.scores.read_golds]
    for arm in rows:
        notes += judge_notes(arm.name, arm.scores)
    notes += [f"Warning: {odd}" for odd in oddities({arm.name: arm.scores for arm in rows})]
    return Table(
        title="Scores",
        columns=("arm", *(column.heading for column in columns)),
        rows=tuple((Cell(text=arm.name), *(column.cell(arm) for column in columns)) for arm in rows),
        notes=tuple(notes),
        aside=tuple(column.heading for column in columns if column.place == "aside"),
    )


def _filled(columns: Sequence[_Column], arms: Sequence[_Arm]) -> list[_Column]:
    """The columns that are not empty, and ``correct``."""
    return [each for each in columns if each.cell is _correct or any(each.cell(arm) is not NO_FIGURE for arm in arms)]
