"""Scores of arms as tables and text: one row per arm, one per stage of its calls, and what limits the trust in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from madke._util.terminal import printable
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
    plain_table,
    score_cell,
    table_of,
    value_cell,
)
from madke.scoring.arms import ArmValues, Results, of_dataset
from madke.scoring.metrics import (
    BUILT_IN_METRICS,
    GRADER,
    common_metric,
    heading_of,
    heading_of_correct,
    is_share,
)
from madke.scoring.paired import PairedTest, paired_tests
from madke.scoring.scored import arm_of
from madke.scoring.scores import Scores
from madke.scoring.shadow import gate_lines
from madke.scoring.statistics import DIFFICULTY, Estimate

# One row per arm

_IF_ANY = ("abst.", "deferred", "unread", "failed", "cut prompts")
"""Counts that have a column only if one of them is above 0."""
_FILE_ONLY = ("paid", "questions", "debates", "answered", "answer words", "ungraded %", "incomplete")
_CONSISTENCY = {"Cons %": "cons", "Co2 %": "co2", "Co2 by grader %": "co2_grader"}
"""Heading -> what the judge and the matcher give a share of: ``cons_judge``, ``cons_matcher`` ..."""
_NOTES = {
    "effective votes": f"effective votes: how many independent votes the votes for an answer were worth. {DIFFICULTY}",
    "unread": "unread: the final text has no readable answer, only gives back its prompt, or was cut off; it is wrong "
    "where the question has a gold answer.",
    "cut prompts": "cut prompts: calls whose prompt the server cut to its context window without an error; enlarge the "
    "window (num_ctx in Ollama).",
    **dict.fromkeys(
        _CONSISTENCY, "Cons and Co2: by the judge's last verdict, or (m) by the task's matcher if not all have one."
    ),
}
"""Heading -> note of tables that have this column."""


def _row(name: str, scores: Scores, marks: Mapping[str, str], correct: str, metrics: Iterable[str]) -> TableRow:
    """The figures of one arm. ``correct``: heading of the share of right answers; ``metrics`` of all arms."""
    total = scores.total if scores.usage else None  # predictions from files have no usage
    row: TableRow = {
        "arm": name,
        "n": _questions(scores),
        correct: percent_cell(scores.correct, marks.get(scores.measure, "") or marks.get("correct", "")),
        "effective votes": score_cell(scores.votes, digits=".2f"),
        "abst.": count_cell(scores.abstained),
        "deferred": count_cell(scores.deferred),
        "unread": count_cell(unread(scores)),
        "failed": count_cell(scores.failed),
        "cut prompts": count_cell(scores.total.server_cut),
    }
    for metric in metrics:
        heading = f"{heading_of(metric)} %" if is_share(metric) else metric
        row[heading] = value_cell(metric, scores.metrics.get(metric), marks.get(metric, ""))
    for heading, value in _CONSISTENCY.items():
        kind, _, by = value.partition("_")
        judge, matcher = (getattr(scores, "_".join(filter(None, (kind, who, by)))) for who in ("judge", "matcher"))
        row[heading] = percent_cell(judge) if judge or not matcher else percent_cell(matcher, " m")
    row["rounds"] = score_cell(scores.mean_rounds, digits=".2f")
    row |= {what: count_cell(getattr(total, what)) if total else NO_FIGURE for what in ("calls", "paid", "tokens")}
    answered = scores.transcripts - scores.abstained - unread(scores) - scores.failed - scores.deferred
    return row | {
        "questions": count_cell(scores.questions),
        "debates": count_cell(scores.transcripts),
        "answered": count_cell(answered),
        "answer words": score_cell(scores.answer_words),
        "ungraded %": percent_cell(scores.parse_failures.get("grade")),
        "incomplete": scores.incomplete or NO_FIGURE,
    }


def _questions(scores: Scores) -> Cell:
    done = (scores.incomplete or "").partition(" (")[0]
    if done.startswith(f"{scores.transcripts:,} of "):  # the row holds the whole run
        return Cell(text=done, value=scores.questions)
    repeats, more = divmod(scores.transcripts, scores.questions or 1)
    times = f" ({scores.transcripts} debates)" if more else f" x {repeats}" if repeats > 1 else ""
    return Cell(text=f"{scores.questions}{times}", value=scores.questions)


def score_table(scores: Mapping[str, Scores], marks: Mapping[str, Mapping[str, str]] | None = None) -> Table:
    """One row per arm: correctness, consistency and usage, without empty columns. Notes say what limits the figures.

    ``marks``: arm -> value -> mark of its test. If all tasks have the same first metric, it has no separate column,
    because ``correct`` is named after it.
    """
    first = common_metric(each.measure for each in scores.values())
    measured = dict.fromkeys(name for each in scores.values() for name in each.metrics)
    known = dict.fromkeys(name for name in (*BUILT_IN_METRICS, GRADER, *measured) if name in measured)
    metrics = [name for name in known if name != first or not is_share(name)]
    correct = f"{heading_of_correct(first)} %"
    rows = [_row(name, each, (marks or {}).get(name, {}), correct, metrics) for name, each in scores.items()]
    for heading in [*rows[0]] if rows else []:
        cells = [row[heading] for row in rows]
        if heading != correct and all(
            cell == NO_FIGURE or (heading in _IF_ANY and isinstance(cell, Cell) and not cell.value) for cell in cells
        ):
            for row in rows:
                del row[heading]
    columns = rows[0] if rows else {}
    notes = [
        *incomplete_notes(scores),
        *dict.fromkeys(note for heading, note in _NOTES.items() if heading in columns),
        *(
            f"{name}: on the scorer's scale, not in percent; over the n questions with an answer."
            for name in metrics
            if not is_share(name)
        ),
    ]
    for name, each in scores.items():
        said = [ORACLE if each.read_golds else "", grades_missing(each), bound_note(each)]
        if each.correct and each.correct.n < each.questions and not each.failed:
            said.append(f"correct is over {count_of(each.correct.n, 'question')} with a gold answer")
        notes += [f"{name}: {text}." for text in said if text]
        notes += filter(None, [readable_note(name, each)])
        notes += judge_notes(name, each)
    if any(each.datasets > 1 for each in scores.values()):
        notes.append("Several datasets are pooled as one sample; intervals do not generalise to other datasets.")
    notes += [f"Warning: {odd}" for odd in oddities(scores)]
    return replace(table_of("Scores", rows, notes), file_only=_FILE_ONLY)


def scores_on_terminal(scores: Mapping[str, Scores], *, details: bool = False, cut_notes: bool = True) -> str:
    """The score table on a terminal, where only correct, votes and scorers have their interval.

    An arm without a finished debate has no row; if all failed, the reasons are above the table. ``details``: exact
    intervals. ``cut_notes``: name replies that were cut off.
    """
    causes = [cause(name, each) for name, each in scores.items() if all_failed(each)]
    rest = {name: each for name, each in scores.items() if each.transcripts > each.failed}
    if not rest:
        return "\n".join([*causes, *incomplete_notes(scores)])
    table = score_table(rest).visible()
    correct = next(n for n, heading in enumerate(table.columns) if heading.startswith("correct"))
    shares = {n for n, heading in enumerate(table.columns) if heading.endswith(" %") or heading == "rounds"} - {correct}
    rows = [
        tuple(replace(cell, interval="") if n in shares else cell for n, cell in enumerate(row)) for row in table.rows
    ]
    headings = [each.removesuffix(" %") if n in shares else each for n, each in enumerate(table.columns)]
    headings[0] = "run"
    notes = [*table.notes]
    if cut_notes:
        notes += [f"{name}: {note}." for name, each in rest.items() if (note := cut_note(each))]
    if not details:
        notes += _intervals_note(cell.with_interval for row in rows for cell in row)
    shown = Table(title="", columns=tuple(headings), rows=tuple(rows), notes=tuple(notes))
    return "\n".join([*causes, plain_table(shown, details=details)])


def _intervals_note(cells: Iterable[str]) -> list[str]:
    """What the signs of these cells' intervals mean."""
    shown = "\n".join(cells)
    if "\N{PLUS-MINUS SIGN}" in shown:
        return ["\N{PLUS-MINUS SIGN}: half of the 95 % interval; brackets have its ends."]
    return ["Brackets: the 95 % interval."] if re.search(r"\[\S+ to \S+\]", shown) else []


def row_name(arm: str, dataset: str | None) -> str:
    """The row name of an arm, or of one of its datasets."""
    return arm if dataset is None else f"{arm}: {dataset or 'no dataset named'}"


def scores_with_tests(results: Sequence[Results], scores: Mapping[str, Mapping[str | None, Scores]]) -> Table:
    """The scores of arms, one row per arm and dataset (None: all datasets), with tests against the first arm.

    Each comparable value is tested on shared questions. Holm's correction is over the tests of the same value in this
    table; ``madke compare`` tests more pairs.
    """
    first: dict[str | None, ArmValues] = {}
    named: dict[str, Scores] = {}
    pairs = []
    for arm in map(arm_of, results):
        for dataset, each in scores[arm.name].items():
            row = replace(of_dataset(arm, dataset), name=row_name(arm.name, dataset))
            named[row.name] = each
            if dataset in first:
                pairs.append((first[dataset], row))
            first.setdefault(dataset, row)
    return marked_scores(named, paired_tests(pairs), [arm.name for arm in first.values()])


def marked_scores(scores: Mapping[str, Scores], tests: Sequence[PairedTest], against: Sequence[str] = ()) -> Table:
    """The score table with marks for significant differences from the first arm, or from the arms in ``against``."""
    against = against or [*scores][:1]
    relevant = [test for test in tests if test.left in against]
    marks: dict[str, dict[str, str]] = {}
    for test in relevant:
        if test.significant:
            marks.setdefault(test.right, {})[test.metric] = MARK
    table = score_table(scores, marks)
    notes = [
        "Intervals: 95 %, over questions; repeats of a question are averaged first. "
        "Rates: Wilson; other means: bootstrap.",
        "Failed debates are left out of all means. Abstained ones count as wrong.",
        *table.notes,
    ]
    if any(cell.mark == MARK for row in table.rows for cell in row):
        kinds = "; ".join(dict.fromkeys(test.test for test in tests))
        others = against[0] if len(against) == 1 else "the first arm on the same dataset"
        corrected = f"p < 0.05 after Holm's correction over the tests of the same value ({kinds})"
        notes.append(f"{MARK} differs from {others}: {corrected}.")
    return replace(table, notes=(*notes, *if_failed_notes(relevant)))


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
    by = [
        ("Cons", scores.cons_judge, scores.cons_matcher),
        ("Co2 (correct by the task's first metric)", scores.co2_judge, scores.co2_matcher),
        ("Co2 by the grader", scores.co2_judge_grader, scores.co2_matcher_grader),
    ]
    lines = [
        *(
            f"{name} by the judge {interval(one)}, by the matcher {interval(two)}"
            for name, one, two in by
            if one or two
        ),
        *(f"{printable(stage)}: {_tokens(used)}" for stage, used in scores.usage.items()),
        f"ended by: {', '.join(f'{name} {count}' for name, count in scores.stop_reasons.items()) or 'nothing'}",
        f"degraded {scores.degraded}, with a partial pool {scores.partial_pools}, "
        f"with a shortened prompt {scores.shortened}",
        *_other_measures(scores),
    ]
    if scores.shadow is not None:
        lines += [scores.shadow.sentence, *filter(None, [scores.shadow.price]), *gate_lines(scores.shadow)]
    if scores.read_golds:
        lines.insert(0, f"{ORACLE} ({scores.read_golds} of {scores.transcripts} debates)")
    if scores.failed and scores.correct_if_failed:
        low, high = scores.correct_if_failed
        lines.append(f"correct if all failed questions were wrong {100 * low:.1f}, if all were right {100 * high:.1f}")
    if scores.spending is not None and scores.spending.unpriced:
        lines.append(f"without a price, excluded from the cost: {printable(', '.join(scores.spending.unpriced))}")
    return "\n".join(lines)


def _other_measures(scores: Scores) -> Iterator[str]:
    """Measures of debates, rounds and the whole run, without intervals and without changes by debater."""

    def amount(name: str, found: Estimate | None) -> str:
        return (percent_cell(found) if is_share(name) else score_cell(found, digits=".2f")).text

    def joined(values: Mapping[str, str]) -> str:
        return ", ".join(f"{printable(name.replace('_', ' '))} {value}" for name, value in values.items())

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
    """The number of answers without a grade; empty if all have one."""
    what = count_of(scores.ungraded, "answer has no grade and is", "answers have no grade and are")
    return f"{what} excluded from the grader's mean" if scores.ungraded else ""


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
"""Advice is given from this share of prompt tokens that are neither distinct nor cached."""


def prefix_advice(total: StageUsage, with_slots: Collection[str] = ()) -> str | None:
    """How to make a server recompute fewer prompt tokens; None if little would be saved or nothing is cached.

    ``with_slots`` are the models whose servers keep prompts in slots.
    """
    again = total.prompt_tokens - total.distinct_tokens - total.cached_tokens
    if not total.distinct_tokens or not total.cached_tokens or again < _WASTE * total.prompt_tokens:
        return None
    waste = f"{again:,} prompt tokens were computed again"
    if with_slots:
        return f"{waste}: serve {', '.join(sorted(with_slots))} with one slot, or set --concurrency to its slots"
    return f"{waste}: calls that begin alike wait for the first at an entry of models.yaml with prefix: on"


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
"""The finding names larger differences between the readable shares of two arms."""


def readable_difference(scores: Mapping[str, Scores]) -> str:
    """The stages in which two arms have unequal readable shares, in one sentence; empty if there are none."""
    found = []
    for stage in dict.fromkeys(stage for each in scores.values() for stage in each.readable):
        shares = {name: each.readable[stage].value for name, each in scores.items() if stage in each.readable}
        low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        if shares[high] - shares[low] > _UNEQUAL + 1e-9:
            figures = f"{100 * shares[low]:.1f} % in {low}, {100 * shares[high]:.1f} % in {high}"
            found.append(f"{stage} {figures}")
    return f"Replies were not equally readable: {'; '.join(found)}." if found else ""


def judge_notes(name: str, scores: Scores) -> Iterator[str]:
    """How often the judge and the summarizer of an arm are wrong by the task's matcher, over questions."""
    wrong = {
        "false_same": "of the judge's verdicts SAME are wrong by the task's matcher",
        "false_different": "of the judge's verdicts DIFFERENT are wrong by the task's matcher",
        "new_summary": "of the summaries give an answer that no debater gave",
    }
    found = {what: share for value, what in wrong.items() if (share := scores.debate.get(value)) is not None}
    for what, share in found.items():
        cell = percent_cell(share)
        yield f"{name}: {cell.text} % {what} (95 % {cell.interval}; {count_of(share.n, 'question')})."


_SENTENCES = 0.1, 0.8
"""EM at most this, and ``match`` at least this: answers that are right, but not in the form that EM counts."""
_MOST_UNREAD = 0.1


def oddities(scores: Mapping[str, Scores]) -> Iterator[str]:
    """Signs in the scores of arms that something is wrong, one sentence each."""
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
