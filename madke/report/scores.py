"""Scores of arms as tables and text: one row per arm, one per stage of its calls, and what limits the trust in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Literal

from rich.console import Group
from rich.text import Text

from madke._util.terminal import printable
from madke.core.chat import Prefix
from madke.core.errors import count_of
from madke.core.transcript import StageUsage
from madke.experiments.plan import Planned, planned_range
from madke.models.prices import Prices, cost, price_of
from madke.models.store import Paid
from madke.report.comparison import if_failed_notes
from madke.report.tables import (
    MARK,
    NO_FIGURE,
    ORACLE,
    Cell,
    Table,
    TableRow,
    count_cell,
    interval,
    one_line,
    percent_cell,
    rich_table,
    score_cell,
    table_of,
    value_cell,
)
from madke.runs.pools import POOLS
from madke.scoring.arms import ArmValues, Results, of_dataset
from madke.scoring.metrics import (
    ALL_GOLDS,
    BUILT_IN_METRICS,
    GRADER,
    common_metric,
    heading_of,
    heading_of_correct,
    is_share,
)
from madke.scoring.outside import arm_of
from madke.scoring.paired import PairedTest, paired_tests
from madke.scoring.scores import Scores
from madke.scoring.shadow import changed_note, gate_lines
from madke.scoring.statistics import DIFFICULTY, Estimate

# One row per arm


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
    place: Literal["all", "page", "file", "screen"] = "all"
    """``page``: not on terminals. ``file``: only in CSV and Parquet files. ``screen``: only on terminals."""
    interval: bool = False
    """Whether terminals show the interval."""
    note: str = ""
    """Note of tables that have this column."""


_OVER_REPEATS, _SD_OVER_REPEATS = "over repeats %", "sd over repeats"
_FIRST_OUT = ("Cons", "Co2", "Co2 by grader", "rounds", "F1", "EM")
"""Headings that a narrow terminal leaves out before calls and tokens."""


def _score_columns(arms: Sequence[_Arm]) -> list[_Column]:
    """All columns, in order. Empty ones are removed later."""
    first = common_metric(arm.scores.measure for arm in arms)
    scores = [arm.scores for arm in arms]
    measured = dict.fromkeys(name for each in scores for name in each.metrics)
    consistency = "Cons and Co2: by the judge's last verdict, or (m) by the task's matcher if not all have one."
    spread = (
        f"{_OVER_REPEATS}: correct, with a t interval over repeats of these questions; {_SD_OVER_REPEATS}: standard "
        "deviation of the repeats' means."
    )
    cut = (
        "cut prompts: calls whose prompt the server cut to its context window without an error; enlarge the window "
        "(num_ctx in Ollama)."
    )
    votes = f"effective votes: how many independent votes the votes for an answer were worth. {DIFFICULTY}"
    return [
        _Column("n", _questions, place="screen"),
        _Column(f"{heading_of_correct(first)} %", _correct, interval=True),
        _Column("effective votes", lambda arm: score_cell(arm.scores.votes, digits=".2f"), interval=True, note=votes),
        _Column("abst.", _count(lambda scores: scores.abstained, or_none=not any(s.abstained for s in scores))),
        _Column("deferred", _count(lambda scores: scores.deferred, or_none=not any(s.deferred for s in scores))),
        _Column("unread", _count(unread, or_none=not any(map(unread, scores))), note=_unread_note(scores)),
        _Column("failed", _count(lambda s: s.failed), place="all" if any(s.failed for s in scores) else "page"),
        _Column("cut prompts", _count(lambda scores: scores.total.server_cut, or_none=True), note=cut),
        _Column(_OVER_REPEATS, _over_repeats, place="page"),
        _Column(_SD_OVER_REPEATS, _sd_over_repeats, place="page", note=spread),
        *(
            _metric(name)
            for name in dict.fromkeys([*BUILT_IN_METRICS, GRADER, *measured])
            if name in measured and (name != first or not is_share(name))
        ),
        *(
            _Column(f"{name} %", partial(_consistency, value=value), note=consistency)
            for name, value in (("Cons", "cons"), ("Co2", "co2"), ("Co2 by grader", "co2_grader"))
        ),
        _Column("rounds", lambda arm: score_cell(arm.scores.mean_rounds, digits=".2f")),
        _Column("calls", _used(lambda total: total.calls)),
        _Column("paid", _used(lambda total: total.paid), place="file"),
        _Column("tokens", _used(lambda total: total.tokens)),
        _Column("questions", _count(lambda scores: scores.questions), place="file"),
        _Column("debates", _count(lambda scores: scores.transcripts), place="file"),
        _Column("answered", _count(_answered), place="file"),
        _Column("answer words", lambda arm: score_cell(arm.scores.answer_words), place="file"),
        _Column("ungraded %", lambda arm: percent_cell(arm.scores.parse_failures.get("grade")), place="file"),
        _Column("incomplete", lambda arm: Cell(text=arm.scores.incomplete or "-"), place="file"),
    ]


def _count(count: Callable[[Scores], int], *, or_none: bool = False) -> Callable[[_Arm], Cell]:
    """A column of counts. ``or_none``: no cell for 0."""
    return lambda arm: NO_FIGURE if or_none and not count(arm.scores) else count_cell(count(arm.scores))


def _used(count: Callable[[StageUsage], int]) -> Callable[[_Arm], Cell]:
    """Predictions from files have no usage."""
    return lambda arm: count_cell(count(arm.scores.total)) if arm.scores.usage else NO_FIGURE


def _questions(arm: _Arm) -> Cell:
    scores = arm.scores
    done = (scores.incomplete or "").partition(" (")[0]
    if done.startswith(f"{scores.transcripts:,} of "):  # the row holds the whole run
        return Cell(text=done, value=scores.questions)
    repeats, more = divmod(scores.transcripts, scores.questions or 1)
    times = f" ({scores.transcripts} debates)" if more else f" x {repeats}" if repeats > 1 else ""
    return Cell(text=f"{scores.questions}{times}", value=scores.questions)


def _answered(scores: Scores) -> int:
    return scores.transcripts - scores.abstained - unread(scores) - scores.failed - scores.deferred


def _correct(arm: _Arm) -> Cell:
    mark = arm.marks.get(arm.scores.measure, "") or arm.marks.get("correct", "")
    return percent_cell(arm.scores.correct, mark)


def _over_repeats(arm: _Arm) -> Cell:
    spread = arm.scores.repeats.get("correct")
    return percent_cell(spread.over_repeats()) if spread else NO_FIGURE


def _sd_over_repeats(arm: _Arm) -> Cell:
    spread = arm.scores.repeats.get("correct")
    return Cell(text=f"{100 * spread.sd:.1f} (n = {spread.repeats})", value=100 * spread.sd) if spread else NO_FIGURE


def _metric(name: str) -> _Column:
    def cell(arm: _Arm) -> Cell:
        return value_cell(name, arm.scores.metrics.get(name), arm.marks.get(name, ""))

    if is_share(name):
        return _Column(f"{heading_of(name)} %", cell)
    note = f"{name}: on the scorer's scale, not in percent; over the n questions with an answer."
    return _Column(name, cell, interval=True, note=note)


def _consistency(arm: _Arm, value: str) -> Cell:
    name, _, by = value.partition("_")
    judge, matcher = (getattr(arm.scores, "_".join(filter(None, (name, who, by)))) for who in ("judge", "matcher"))
    return percent_cell(judge) if judge or not matcher else percent_cell(matcher, " m")


def _filled(columns: Sequence[_Column], arms: Sequence[_Arm]) -> list[_Column]:
    """The columns that are not empty, and ``correct``."""
    return [each for each in columns if each.cell is _correct or any(each.cell(arm).text != "-" for arm in arms)]


def score_table(runs: Sequence[tuple[str, Scores]], *, details: bool = False, cut_notes: bool = True) -> Group:
    """Scores for a terminal: one row per run with correctness, consistency and usage, and how its replies were read.

    A run without a finished debate has no row; if all failed, the reasons stand above. ``details``: whole intervals.
    ``cut_notes``: name replies that were cut off.
    """
    incomplete = incomplete_notes(dict(runs))
    causes = [Text(cause(name, scores)) for name, scores in runs if all_failed(scores)]
    rest = {name: scores for name, scores in runs if scores.transcripts > scores.failed}
    arms = [_Arm(name=name, scores=scores, marks={}) for name, scores in rest.items()]
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
        *dict.fromkeys(column.note for column in columns if column.note),
    ]
    for name, scores in rest.items():
        said = [grades_missing(scores), bound_note(scores), cut_note(scores) if cut_notes else None]
        if scores.correct and scores.correct.n < scores.questions and not scores.failed:
            said.append(f"correct is over {count_of(scores.correct.n, 'question')} with a gold answer")
        notes += [f"{name}: {each}." for each in said if each]
    if any(scores.datasets > 1 for scores in rest.values()):
        notes.append("Several datasets are pooled; use `madke score --by-dataset` for one row per dataset.")
    notes += filter(None, (readable_note(name, scores) for name, scores in rest.items()))
    notes += [note for name, scores in rest.items() for note in judge_notes(name, scores)]
    notes += [f"Warning: {odd}" for odd in oddities(rest)]
    headings = [each.heading if each.cell is _correct else each.heading.removesuffix(" %") for each in columns]
    table = Table(title="", columns=("run", *headings), rows=tuple(rows), notes=tuple(notes))
    return Group(*causes, rich_table(table, details=details, first_out=_FIRST_OUT))


def _intervals_note(cells: Iterable[str]) -> list[str]:
    """What the signs of these cells' intervals mean."""
    shown = "\n".join(cells)
    if "\N{PLUS-MINUS SIGN}" in shown:
        return ["\N{PLUS-MINUS SIGN}: half of the 95 % interval; brackets have its ends."]
    return ["Brackets: the 95 % interval."] if re.search(r"\[\S+ to \S+\]", shown) else []


def row_name(arm: str, dataset: str | None) -> str:
    """The row name of an arm, or of one of its datasets."""
    return arm if dataset is None else f"{arm}: {dataset or 'no dataset named'}"


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
    relevant = [test for test in tests if test.left in against]
    rows = [
        _Arm(
            name=arm.name,
            scores=scores[arm.name],
            marks={test.metric: MARK for test in relevant if test.significant and test.right == arm.name},
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
        if any(row.marks for row in rows):
            kinds = "; ".join(dict.fromkeys(test.test for test in tests))
            others = arms[0].name if len(against) == 1 else "the first arm on the same dataset"
            corrected = f"p < 0.05 after Holm's correction over the tests of the same value ({kinds})"
            notes.append(f"{MARK} differs from {others}: {corrected}.")
        notes += if_failed_notes(relevant)
    notes += [f"{arm.name}: {ORACLE}." for arm in rows if arm.scores.read_golds]
    notes += [note for arm in rows for note in judge_notes(arm.name, arm.scores)]
    notes += [f"Warning: {odd}" for odd in oddities({arm.name: arm.scores for arm in rows})]
    return Table(
        title="Scores",
        columns=("arm", *(column.heading for column in columns)),
        rows=tuple((Cell(text=arm.name), *(column.cell(arm) for column in columns)) for arm in rows),
        notes=tuple(notes),
        file_only=tuple(column.heading for column in columns if column.place == "file"),
    )


def dataset_table(arms: Sequence[ArmValues], tests: Sequence[PairedTest]) -> Table | None:
    """Correct answers with datasets as columns and arms as rows, as papers print them; None for one dataset.

    ``tests``: paired tests within datasets, for marks of differences from the first arm.
    """
    datasets = list(dict.fromkeys(name or "" for arm in arms for name in arm.questions.values()))
    if len(datasets) < 2:
        return None
    rows: list[TableRow] = []
    for arm in arms:
        row: TableRow = {"arm": arm.name}
        for dataset in datasets:
            of = of_dataset(arm, dataset)
            differs = any(
                test.significant and (test.left, test.right, test.dataset or "") == (arms[0].name, arm.name, dataset)
                for test in tests
                if test.metric in (of.first_metric, "correct")
            )
            heading = f"{dataset or 'no dataset named'} ({heading_of(of.first_metric)}) %"
            row[heading] = percent_cell(of.mean("correct"), MARK if differs else "")
        rows.append(row | {"all %": percent_cell(arm.mean("correct"))})
    notes = ["Correct by the first metric of each dataset's task, with 95 % intervals. all: questions pooled."]
    if any(cell.mark for row in rows for cell in row.values() if isinstance(cell, Cell)):
        notes.append(f"{MARK} differs from {arms[0].name}: p < 0.05 after Holm's correction over datasets and pairs.")
    return table_of("Correct by dataset", rows, notes)


def wrong_answers_table(scores: Mapping[str, Scores], results: Sequence[Results] = ()) -> Table | None:
    """Listed wrong answers: a row for each round of each arm, and one for its final answers; None if none are listed.

    ``results`` give the arms' models, for a column.
    """
    models = {
        arm.name: ", ".join(dict.fromkeys(model.rpartition("/")[2] for model in arm.config.models.values()))
        for arm in results
        if arm.config is not None
    }
    columns = {"adopted %": "adopted", "right %": "unmisled", "resisted %": "resisted", "given up %": "given_up"}
    rows: list[TableRow] = []
    for name, found in scores.items():
        own: TableRow = {"run": name, **({"model": models.get(name, "")} if models else {})}
        adopted = found.by_round.get("adopted", ())
        for place, each in enumerate(adopted):
            values = {heading: found.by_round.get(value, ()) for heading, value in columns.items()}
            figures = {heading: percent_cell(value[place] if value else None) for heading, value in values.items()}
            rows.append({**own, "round": str(place + 1), "n": count_cell(each.n) if each else NO_FIGURE, **figures})
        if adopted and (trapped := found.debate.get("trapped")) is not None:
            last: TableRow = {"round": "final", "n": count_cell(trapped.n), "adopted %": percent_cell(trapped)}
            rows.append({**own, **last, "all golds %": percent_cell(found.metrics.get(ALL_GOLDS))})
    notes = (
        "adopted: share of debaters whose answer is one. right: share whose answer is right. resisted: of the debaters "
        "that held none and were shown one (in round 1 by the passages, later by a debater whose stance they read), "
        "the share that still holds none. given up: of those that held one in the round before, the share that no "
        "longer does.",
        "final: the answer of the debate. all golds: it names every gold answer and no wrong one, as RAMDocs' owners "
        "ask. A debate that has ended keeps its last adopted and right. With 95 % intervals over questions.",
    )
    return table_of("Wrong answers that the dataset lists", rows, notes) if rows else None


# One row per stage

_USAGE = {
    "calls": "calls",
    "paid": "paid",
    "failed": "failed",
    "retried": "retries",
    "bound by a schema": "bound",
    "prompt tokens": "prompt_tokens",
    "cached": "cached_tokens",
    "distinct": "distinct_tokens",
    "completion tokens": "completion_tokens",
    "reasoning": "reasoning_tokens",
    "estimated": "estimated",
    "cut prompts": "server_cut",
    "not UTF-8": "not_utf8",
}
"""Heading -> field of the usage."""


def stage_table(scores: Mapping[str, Scores]) -> Table:
    """A row for each stage of each run: how its replies could be read, its calls and tokens, and its cost if known."""
    stages = [(name, stage, each) for name, each in scores.items() for stage in {**each.usage, **each.parse_failures}]
    columns: list[tuple[str, list[Cell]]] = []
    lost = [each.parse_failures.get(stage) for _, stage, each in stages]
    columns.append(("readable %", [NO_FIGURE if each is None else percent_cell(1 - each.value) for each in lost]))
    for status in dict.fromkeys(status for _, stage, each in stages for status in each.readings.get(stage, ())):
        shares = [each.readings.get(stage, {}).get(status) for _, stage, each in stages]
        columns.append((f"{status} %", [percent_cell(each.value if each else None) for each in shares]))
    for heading, name in _USAGE.items():
        counts = [getattr(each.usage.get(stage, StageUsage()), name) for _, stage, each in stages]
        columns.append((heading, [count_cell(each) if each or heading == "calls" else NO_FIGURE for each in counts]))
    costs = [each.spending.cost.get(stage) if each.spending else None for _, stage, each in stages]
    columns.append(("cost", [score_cell(each, digits=",.4f") for each in costs]))
    rows: list[TableRow] = [{"run": name, "stage": stage} for name, stage, _ in stages]
    for heading, cells in columns:
        if any(cell is not NO_FIGURE for cell in cells):
            for row, cell in zip(rows, cells, strict=True):
                row[heading] = cell
    note = (
        "readable: share of the replies that hold a value of the requested kind or decline to give one. cached: as the "
        "server reported. distinct: prompt tokens that no earlier prompt of the debate began with."
    )
    return table_of("Replies, calls and tokens by stage", rows, [note])


def _tokens(used: StageUsage) -> str:
    completion = f"{used.completion_tokens:,} completion ({used.reasoning_tokens:,} reasoning)"
    return f"{count_of(used.calls, 'call')}, {used.prompt_tokens:,} prompt + {completion} tokens"


def score_details(scores: Scores) -> str:
    """The scores of a run that tables leave out, one line each."""
    by = [("Cons", scores.cons_judge, scores.cons_matcher)]
    by.append(("Co2 (correct by the task's first metric)", scores.co2_judge, scores.co2_matcher))
    if scores.co2_judge_grader or scores.co2_matcher_grader:
        by.append(("Co2 by the grader", scores.co2_judge_grader, scores.co2_matcher_grader))
    lines = [
        *(f"{printable(name)} {value_cell(name, each).whole}, n = {each.n}" for name, each in scores.metrics.items()),
        *(f"{printable(stage)}: {_tokens(used)}" for stage, used in scores.usage.items()),
        *(f"{name} by the judge {interval(judge)}, by the matcher {interval(matcher)}" for name, judge, matcher in by),
        *_repeated(scores),
        f"ended by: {', '.join(f'{name} {count}' for name, count in scores.stop_reasons.items()) or 'nothing'}",
        f"degraded {scores.degraded}, with a partial pool {scores.partial_pools}, "
        f"with a shortened prompt {scores.shortened}",
        *_other_measures(scores),
    ]
    if scores.shadow is not None:
        lines += [scores.shadow.sentence, *filter(None, [scores.shadow.price]), *gate_lines(scores.shadow)]
        lines += filter(None, [changed_note([scores.shadow])])
    if scores.read_golds:
        lines.insert(0, f"{ORACLE} ({scores.read_golds} of {scores.transcripts} debates)")
    if scores.failed and scores.correct_if_failed:
        low, high = scores.correct_if_failed
        lines.append(f"correct if all failed questions were wrong {100 * low:.1f}, if all were right {100 * high:.1f}")
    if scores.mean_rounds is not None:
        lines.append(f"rounds {score_cell(scores.mean_rounds, digits='.2f').whole}")
    if "grade" in scores.parse_failures:
        missing = grades_missing(scores)
        lines.append(f"grade: missing {interval(scores.parse_failures['grade'])} %{f': {missing}' if missing else ''}")
    lines += filter(None, [prompt_line(scores)])
    if scores.spending is not None and scores.spending.cost:
        lines.append(f"cost {sum(scores.spending.cost.values()):,.4f}")
    if scores.spending is not None and scores.spending.unpriced:
        lines.append(f"without a price, excluded from the cost: {printable(', '.join(scores.spending.unpriced))}")
    return "\n".join(lines)


def _repeated(scores: Scores) -> Iterator[str]:
    found = []
    for name, spread in scores.repeats.items():
        mean, sd = value_cell(name, spread.over_repeats()), value_cell(name, spread.sd)
        found.append(f"{printable(name)} {mean.text} ({mean.interval}; sd {sd.text})")
    if found:
        repeats = max(spread.repeats for spread in scores.repeats.values())
        yield f"over {repeats} repeats, for these questions: {', '.join(found)}"


def _other_measures(scores: Scores) -> Iterator[str]:
    """Measures of debates, rounds and the whole run, without intervals and without changes by debater."""

    def amount(name: str, found: Estimate | None) -> str:
        return (percent_cell(found) if is_share(name) else score_cell(found, digits=".2f")).text

    def joined(values: Mapping[str, str]) -> str:
        return ", ".join(f"{printable(name.replace('_', ' '))} {value}" for name, value in values.items())

    if scores.corpus:
        yield f"as one corpus: {joined({name: f'{100 * value:.1f}' for name, value in scores.corpus.items()})}"
    if scores.debate:
        yield f"of the debates: {joined({name: amount(name, found) for name, found in scores.debate.items()})}"
    by_round = {
        name: " > ".join(amount(name, found) for found in values)
        for name, values in scores.by_round.items()
        if not name.startswith("changed_")
    }
    if len(next(iter(scores.by_round.values()), ())) > 1 or "cons" in by_round:
        yield f"round by round: {joined(by_round)}"


# Plan and result


def spending_table(
    plans: Sequence[Planned], scores: Mapping[str, Scores], paid: Mapping[tuple[str, str], Paid], prices: Prices
) -> Table:
    """Planned and real calls, new calls and tokens of each arm, and cost if there are prices.

    ``scores``: name -> scores of the arms that have started. ``paid``: usage in the call store, without services.
    """
    made = {name: found.total for name, found in scores.items()}
    rows = []
    for plan in plans:
        bills = [(model, bill) for (payer, model), bill in paid.items() if payer == plan.name]
        unknown = not bills and plan.name in made and made[plan.name].paid  # the call store of its transcripts is gone
        called = sum(bill.calls for _, bill in bills)
        tokens = sum(bill.usage.prompt_tokens + bill.usage.completion_tokens for _, bill in bills)
        costs = [cost(bill.usage, price) for model, bill in bills if (price := price_of(model, prices))]
        ends = (plan.least, plan.most)
        row: TableRow = {
            "arm": plan.name,
            "calls planned": _planned(*(load.calls for load in ends)),
            "calls": count_cell(made[plan.name].calls if plan.name in made else called),
            "new calls planned": _planned(*(load.paid for load in ends)),
            "new calls": NO_FIGURE if unknown else count_cell(called),
            "tokens planned": _planned(*(load.prompt_tokens + load.completion_tokens for load in ends)),
            "tokens": NO_FIGURE if unknown else count_cell(tokens),
        }
        if prices:
            row["cost"] = Cell(text=f"{sum(costs):,.4f}", value=sum(costs)) if costs else NO_FIGURE
        rows.append(row)
    note = (
        "Planned: from debates that end as early as possible to debates that use all rounds, without failed calls; "
        "tokens are estimates for new calls. A call that several arms make is new only in the first of them. "
        "Identical replies can make more calls shared. Searches and answer scorers are not counted."
    )
    if POOLS in {plan.name for plan in plans}:
        note += f" {POOLS}: queries and rerankings, made once for all arms; the calls of an arm include its own."
    return table_of("Planned and made", rows, [note])


def _planned(least: float, most: float) -> Cell:
    return Cell(text=planned_range(least, most), low=least, high=most)


# Notes and advice


def incomplete_notes(scores: Mapping[str, Scores]) -> list[str]:
    """How much of each incomplete run is done. The rows of one run, one for each dataset, share a note."""
    rows: dict[str, list[str]] = {}
    for name, found in scores.items():
        if found.incomplete:
            rows.setdefault(found.incomplete, []).append(name)
    return [f"{', '.join(names)}: {text}." for text, names in rows.items()]


def all_failed(scores: Scores) -> bool:
    """Whether every debate of a run failed, so that it has no score."""
    return 0 < scores.failed == scores.transcripts


_NAMED_REASONS = 3


def cause(name: str, scores: Scores) -> str:
    """Why all debates of a run failed, the most frequent reasons first."""
    reasons = [f"{count:,} x {reason}" for reason, count in scores.failures.items()]
    more = f"; {len(reasons) - _NAMED_REASONS} more reasons" if len(reasons) > _NAMED_REASONS else ""
    return one_line(f"{name}: all {scores.failed:,} debates failed: {'; '.join(reasons[:_NAMED_REASONS])}{more}")


_UNREAD_NOTE = "unread: the final text holds no marked answer, only gives back its prompt, or was cut off"


def _unread_note(scores: Iterable[Scores]) -> str:
    return f"{_UNREAD_NOTE}; it is wrong." if any(each.correct for each in scores) else f"{_UNREAD_NOTE}."


def unread(scores: Scores) -> int:
    """Number of debates without an answer whose final text cannot be read."""
    return sum(scores.unread.values())


def cut_note(scores: Scores, max_tokens: int | None = None) -> str | None:
    """How many replies were cut off before they said anything that can be read, and what to do; None if none was."""
    if not scores.cut:
        return None
    limit = "max_tokens" if max_tokens is None else count_of(max_tokens, "token")
    stages = ", ".join(f"{printable(stage)} {count}" for stage, count in scores.cut.items())
    replies = count_of(sum(scores.cut.values()), "reply was", "replies were")
    return f"{replies} cut off at {limit} and cannot be read ({stages}); --set max_tokens=N"


def bound_note(scores: Scores) -> str | None:
    """How many calls of each stage were bound by a JSON schema; None if none was."""
    bound = {stage: used for stage, used in scores.usage.items() if used.bound}
    stages = ", ".join(f"{printable(stage)} {used.bound:,} of {used.calls:,}" for stage, used in bound.items())
    return f"bound by a JSON schema: {stages} calls" if bound else None


def grades_missing(scores: Scores) -> str:
    """The number of answers without a grade and the bounds of the grader's mean; empty if all have one."""
    if not scores.ungraded or scores.grader_if_ungraded is None:
        return ""
    bounds = "{:.1f} % (all wrong) and {:.1f} % (all right)".format(*(100 * each for each in scores.grader_if_ungraded))
    what = count_of(scores.ungraded, "answer has no grade and is", "answers have no grade and are")
    return f"{what} excluded from the grader's mean; with them it is between {bounds}"


def prompt_line(scores: Scores) -> str | None:
    """Prompt tokens sent, distinct within each debate, and cached; None if no server counted any."""
    total = scores.total
    if not total.prompt_tokens or total.estimated >= total.calls:
        return None
    sent, distinct, cached = total.prompt_tokens, total.distinct_tokens, total.cached_tokens
    saved = scores.spending.saved if scores.spending is not None else 0.0
    parts = [
        f"{sent:,} sent",
        *([f"{distinct:,} distinct"] if distinct else []),
        f"{cached:,} reported as cached ({cached / sent:.0%})",
        *([f"which saved {saved:,.4f}"] if saved else []),
    ]
    return f"prompt tokens: {', '.join(parts)}"


_WASTE = 0.3
"""Share of the prompt tokens, neither distinct nor cached, from which advice pays."""


def prefix_advice(total: StageUsage, prefix: Prefix, with_slots: Collection[str] = ()) -> str | None:
    """What would make a server read less again; None if that would be little, or if it is not known to cache.

    ``with_slots`` are the models whose servers keep prompts in slots.
    """
    again = total.prompt_tokens - total.distinct_tokens - total.cached_tokens
    if not total.distinct_tokens or not total.cached_tokens or again < _WASTE * total.prompt_tokens:
        return None
    waste = f"{again:,} prompt tokens were read again"
    if with_slots:
        return f"{waste}: serve {', '.join(sorted(with_slots))} with one slot, or set --concurrency to its slots"
    return None if prefix == "on" else f"{waste}: set --prefix on, so that calls that begin alike wait for the first"


def readable_note(name: str, scores: Scores) -> str | None:
    """The readable share of an arm's replies by stage, and the median length of its answers; None without replies."""
    if not scores.readable:
        return None
    shares = ", ".join(f"{printable(stage)} {percent_cell(share).text} %" for stage, share in scores.readable.items())
    words = ""
    if scores.answer_words is not None:
        words = f"; the median answer has {scores.answer_words:g} word{'' if scores.answer_words == 1 else 's'}"
    share = scores.debate.get("copied")
    copied = ""
    if share and share.value:
        copied = f"; {percent_cell(share).text} % of replies to others are in others' words"
    return f"{name}: readable replies: {shares}{words}{copied}."


_UNEQUAL = 0.05
"""A larger difference between the readable shares of two arms is part of the finding."""


def readable_difference(scores: Mapping[str, Scores]) -> str:
    """The stages that two arms were read unequally in, in one sentence; empty if there are none."""
    found = []
    for stage in dict.fromkeys(stage for each in scores.values() for stage in each.readable):
        shares = {name: each.readable[stage].value for name, each in scores.items() if stage in each.readable}
        low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        if shares[high] - shares[low] > _UNEQUAL + 1e-9:
            figures = f"{100 * shares[low]:.1f} % in {low}, {100 * shares[high]:.1f} % in {high}"
            found.append(f"{stage} {figures}")
    return f"Replies were not equally readable: {'; '.join(found)}." if found else ""


def judge_notes(name: str, scores: Scores) -> Iterator[str]:
    """How often the judge and the summarizer of an arm differ from the task's matcher."""
    found = scores.judge
    false_same = found.same_of_different + found.same_of_missing
    if found.same or found.different:
        yield (
            f"{name}: the judge said SAME {_times(found.same)}, in {false_same:,} of them about answers that the "
            f"matcher finds different ({found.same_of_different:,}) or missing ({found.same_of_missing:,})"
            f"{_per_debate(scores, 'false_same')}; DIFFERENT {_times(found.different)}, in "
            f"{found.different_of_same:,} of them about answers that it finds the same"
            f"{_per_debate(scores, 'false_different')}."
        )
    if found.summaries:
        yield (
            f"{name}: in {found.new_summaries:,} of {found.summaries:,} summaries the final answer is none of the "
            f"debaters'{_per_debate(scores, 'new_summary')}."
        )


def _times(count: int) -> str:
    return count_of(count, "time")


def _per_debate(scores: Scores, name: str) -> str:
    """The share over questions with its interval."""
    share = scores.debate.get(name)
    return f", {percent_cell(share).text} % of them per question ({percent_cell(share).interval})" if share else ""


_SENTENCES = 0.1, 0.8
"""EM at most this, and ``match`` at least this: answers that are right, but not in the form that EM counts."""
_MOST_UNREAD = 0.1


def oddities(scores: Mapping[str, Scores]) -> Iterator[str]:
    """What in the scores of arms suggests that something is off, one sentence each."""
    for name, each in scores.items():
        em, match = each.metrics.get("em"), each.metrics.get("match")
        if em and match and em.value <= _SENTENCES[0] and match.value >= _SENTENCES[1]:
            yield (
                f"{name}: EM is {percent_cell(em).text} % where match is {percent_cell(match).text} %. The answers are "
                "right but are not the bare golds: ask for fewer words, or compare by match."
            )
        lost = {stage: 1 - share.value for stage, share in each.readable.items() if 1 - share.value > _MOST_UNREAD}
        if lost:
            stages = ", ".join(f"{100 * share:.0f} % of {stage}" for stage, share in lost.items())
            yield f"{name}: more than a tenth of the replies cannot be read ({stages}); look at some of them."
        elif (unread := sum(each.unread.values())) > _MOST_UNREAD * (each.transcripts - each.failed):
            counts = f"{unread:,} of {each.transcripts:,}"
            yield f"{name}: {counts} final answers cannot be read; look at some of them."
    if len(scores) > 1:
        first, *others = ({name: mean.value for name, mean in each.metrics.items()} for each in scores.values())
        if first and all(other == first for other in others):
            yield "All arms have the same scores by every measure: check that they differ in what you mean to compare."
