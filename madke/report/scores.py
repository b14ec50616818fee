"""Scores of arms as tables and text: one row per arm, one per stage of its calls, and what limits the trust in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from madke._util.terminal import printable
from madke.core.errors import count_of
from madke.core.transcript import StageUsage
from madke.report.comparison import if_failed_notes
from madke.report.tables import (
    MARK,
    NO_FIGURE,
    ORACLE,
    Cell,
    Table,
    TableRow,
    count_cell,
    one_line,
    percent_cell,
    plain_table,
    score_cell,
    table_of,
    value_cell,
)
from madke.scoring.arms import ArmValues, of_dataset
from madke.scoring.gates import gate_lines
from madke.scoring.metrics import BUILT_IN_METRICS, GRADER, common_metric, heading_of, heading_of_correct, is_share
from madke.scoring.paired import PairedTest
from madke.scoring.scores import Scores
from madke.scoring.statistics import DIFFICULTY, Estimate

# One row per arm

_IF_ANY = ("abst.", "deferred", "unread", "failed", "cut prompts")
"""Counts that have a column only if one of them is above 0."""
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
        *(note for name, each in scores.items() for note in _limits(name, each)),
    ]
    if any(each.datasets > 1 for each in scores.values()):
        notes.append("Several datasets are pooled as one sample; intervals do not generalise to other datasets.")
    return table_of("Scores", rows, [*notes, *(f"Warning: {odd}" for odd in oddities(scores))])


def _row(name: str, scores: Scores, marks: Mapping[str, str], correct: str, metrics: Iterable[str]) -> TableRow:
    """The figures of one arm. ``correct``: heading of the share of right answers; ``metrics`` of all arms."""
    total = scores.total if scores.usage else None  # predictions from files have no usage
    row: TableRow = {
        "arm": name,
        "done": (scores.incomplete or "").partition(" (")[0] or NO_FIGURE,
        "n": count_cell(scores.questions),
        correct: percent_cell(scores.correct, marks.get(scores.measure, "") or marks.get("correct", "")),
        "effective votes": score_cell(scores.votes, digits=".2f"),
        "abst.": count_cell(scores.abstained),
        "deferred": count_cell(scores.deferred),
        "unread": count_cell(sum(scores.unread.values())),
        "failed": count_cell(scores.failed),
        "cut prompts": count_cell(scores.total.server_cut),
    }
    for metric in metrics:
        heading = f"{heading_of(metric)} %" if is_share(metric) else metric
        row[heading] = value_cell(metric, scores.metrics.get(metric), marks.get(metric, ""))
    for heading, value in _CONSISTENCY.items():
        kind, _, by = value.partition("_")
        judge, matcher = (scores.debate.get("_".join(filter(None, (kind, who, by)))) for who in ("judge", "matcher"))
        row[heading] = percent_cell(judge) if judge or not matcher else percent_cell(matcher, " m")
    row["rounds"] = score_cell(scores.mean_rounds, digits=".2f")
    row |= {what: count_cell(getattr(total, what)) if total else NO_FIGURE for what in ("calls", "tokens")}
    spent = sum(scores.spending.cost.values()) if scores.spending and scores.spending.cost else None
    return row | {"cost": score_cell(spent, digits=",.4f")}


def _limits(name: str, scores: Scores) -> Iterator[str]:
    """What limits the figures of an arm, and how well its replies could be read."""
    if scores.read_golds:
        yield f"{name}: {ORACLE}."
    if scores.ungraded:
        what = count_of(scores.ungraded, "answer has no grade and is", "answers have no grade and are")
        yield f"{name}: {what} excluded from the grader's mean."
    if scores.correct and scores.correct.n < scores.questions and not scores.failed:
        yield f"{name}: correct is over {count_of(scores.correct.n, 'question')} with a gold answer."
    if scores.readable:
        shares = ", ".join(f"{printable(stage)} {percent_cell(x).text} %" for stage, x in scores.readable.items())
        length = "" if scores.answer_words is None else f"; median words of an answer: {scores.answer_words:g}"
        copied = scores.debate.get("copied")
        others = f"; {percent_cell(copied).text} % of replies to others are in others' words" if copied else ""
        yield f"{name}: readable replies: {shares}{length}{others if copied and copied.value else ''}."
    yield from judge_notes(name, scores)


def scores_on_terminal(scores: Mapping[str, Scores], *, details: bool = False, cut_notes: bool = True) -> str:
    """The score table on a terminal, where only correct, votes and scorers have their interval.

    An arm without a finished debate has no row; if all failed, the reasons are above the table. ``details``: exact
    intervals. ``cut_notes``: name replies that were cut off.
    """
    causes = [cause(name, each) for name, each in scores.items() if all_failed(each)]
    rest = {name: each for name, each in scores.items() if each.transcripts > each.failed}
    if not rest:
        return "\n".join([*causes, *incomplete_notes(scores)])
    table = score_table(rest)
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
    if not details and any(cell.interval for row in rows for cell in row):
        notes.append("\N{PLUS-MINUS SIGN}: half of the 95 % interval; brackets have its ends.")
    shown = Table(title="", columns=tuple(headings), rows=tuple(rows), notes=tuple(notes))
    return "\n".join([*causes, plain_table(shown, details=details)])


def row_name(arm: str, dataset: str | None) -> str:
    """The row name of an arm, or of one of its datasets."""
    return arm if dataset is None else f"{arm}: {dataset or 'no dataset named'}"


def marked_scores(scores: Mapping[str, Scores], tests: Sequence[PairedTest]) -> Table:
    """The score table with marks for significant differences from the first arm."""
    first = next(iter(scores), "")
    relevant = [test for test in tests if test.left == first]
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
    if marks:
        kinds = "; ".join(dict.fromkeys(test.test for test in tests))
        corrected = f"p < 0.05 after Holm's correction over the tests of the same value ({kinds})"
        notes.append(f"{MARK} differs from {first}: {corrected}.")
    return replace(table, notes=(*notes, *if_failed_notes(relevant)))


def dataset_table(arms: Sequence[ArmValues], tests: Sequence[PairedTest]) -> Table | None:
    """Correct answers with datasets as columns and arms as rows, as papers print them; None for one dataset.

    ``tests``: paired tests within datasets, for marks of differences from the first arm.
    """
    datasets = list(dict.fromkeys(name or "" for arm in arms for name in arm.questions.values()))
    if len(datasets) < 2:
        return None
    differ = {
        (test.right, test.dataset or "")
        for test in tests
        if test.significant and test.left == arms[0].name and test.metric in (arms[0].first_metric, "correct")
    }
    rows: list[TableRow] = []
    for arm in arms:
        row: TableRow = {"arm": arm.name}
        for dataset in datasets:
            of = of_dataset(arm, dataset)
            heading = f"{dataset or 'no dataset named'} ({heading_of(of.first_metric)}) %"
            row[heading] = percent_cell(of.mean("correct"), MARK if (arm.name, dataset) in differ else "")
        rows.append(row | {"all %": percent_cell(arm.mean("correct"))})
    notes = ["Correct by the first metric of each dataset's task, with 95 % intervals. all: questions pooled."]
    if differ:
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
    rows: list[TableRow] = []
    for name, each in scores.items():
        for stage in {**each.usage, **each.parse_failures}:
            lost, used = each.parse_failures.get(stage), each.usage.get(stage, StageUsage())
            row: TableRow = {"run": name, "stage": stage}
            row["readable %"] = percent_cell(1 - lost.value if lost else None)
            for heading, field in _USAGE.items():
                count = getattr(used, field)
                row[heading] = count_cell(count) if count or heading == "calls" else NO_FIGURE
            row["cost"] = score_cell(each.spending.cost.get(stage) if each.spending else None, digits=",.4f")
            rows.append(row)
    empty = {heading for row in rows for heading in row} - {h for row in rows for h, x in row.items() if x != NO_FIGURE}
    note = (
        "readable: share of the replies that hold a value of the requested kind or decline to give one. cached: as the "
        "server reported. distinct: prompt tokens that no earlier prompt of the debate began with."
    )
    kept: list[TableRow] = [{h: x for h, x in row.items() if h not in empty} for row in rows]
    return table_of("Replies, calls and tokens by stage", kept, [note])


def score_details(scores: Scores) -> str:
    """The scores of a run that tables leave out, one line each."""
    value = scores.debate.get
    by = [
        ("Cons", value("cons_judge"), value("cons_matcher")),
        ("Co2 (correct by the task's first metric)", value("co2_judge"), value("co2_matcher")),
        ("Co2 by the grader", value("co2_judge_grader"), value("co2_matcher_grader")),
    ]
    lines = [f"{ORACLE} ({scores.read_golds} of {scores.transcripts} debates)"] if scores.read_golds else []
    lines += [
        f"{name} by the judge {percent_cell(one).whole}, by the matcher {percent_cell(two).whole}"
        for name, one, two in by
        if one or two
    ]
    for stage, used in scores.usage.items():
        completion = f"{used.completion_tokens:,} completion ({used.reasoning_tokens:,} reasoning)"
        calls = f"{count_of(used.calls, 'call')}, {used.prompt_tokens:,} prompt"
        lines.append(f"{printable(stage)}: {calls} + {completion} tokens")
    lines += [
        f"ended by: {', '.join(f'{name} {count}' for name, count in scores.stop_reasons.items()) or 'nothing'}",
        f"degraded {scores.degraded}, with a partial pool {scores.partial_pools}, "
        f"with a shortened prompt {scores.shortened}",
        *_other_measures(scores),
    ]
    if scores.shadow is not None:
        lines += [scores.shadow.sentence, *filter(None, [scores.shadow.price]), *gate_lines(scores.shadow)]
    if scores.failed and scores.correct_if_failed:
        low, high = scores.correct_if_failed
        lines.append(f"correct if all failed questions were wrong {100 * low:.1f}, if all were right {100 * high:.1f}")
    if scores.spending is not None and scores.spending.unpriced:
        lines.append(f"without a price, excluded from the cost: {printable(', '.join(scores.spending.unpriced))}")
    return "\n".join(lines)


def _other_measures(scores: Scores) -> Iterator[str]:
    """Measures of debates, rounds and the whole run, without intervals."""

    def amount(name: str, estimate: Estimate | None) -> str:
        return (percent_cell(estimate) if is_share(name) else score_cell(estimate, digits=".2f")).text

    by_round = {name: " > ".join(amount(name, found) for found in values) for name, values in scores.by_round.items()}
    several = len(next(iter(scores.by_round.values()), ())) > 1 or "cons" in by_round
    others = {name: found for name, found in scores.debate.items() if not name.startswith(("cons_", "co2_"))}
    lines = {
        "of the debates": {name: amount(name, found) for name, found in others.items()},
        "round by round": by_round if several else {},
    }
    for what, values in lines.items():
        if values:
            named = (f"{printable(name.replace('_', ' '))} {value}" for name, value in values.items())
            yield f"{what}: {', '.join(named)}"


# Notes and advice


def incomplete_notes(scores: Mapping[str, Scores]) -> list[str]:
    """How much of each incomplete run is done. The rows of one run, one for each dataset, share a note."""
    rows: dict[str, list[str]] = {}
    for name, arm_scores in scores.items():
        if arm_scores.incomplete:
            rows.setdefault(arm_scores.incomplete, []).append(name)
    return [f"{', '.join(names)}: {text}." for text, names in rows.items()]


def all_failed(scores: Scores) -> bool:
    """Whether every debate of a run failed, so that it has no score."""
    return 0 < scores.failed == scores.transcripts


_MAX_REASONS = 3


def cause(name: str, scores: Scores) -> str:
    """Why all debates of a run failed, the most frequent reasons first."""
    reasons = [f"{count:,} x {reason}" for reason, count in scores.failures.items()]
    more = f"; {len(reasons) - _MAX_REASONS} more reasons" if len(reasons) > _MAX_REASONS else ""
    return one_line(f"{name}: all {scores.failed:,} debates failed: {'; '.join(reasons[:_MAX_REASONS])}{more}")


def cut_note(scores: Scores, max_tokens: int | None = None) -> str | None:
    """How many replies were cut off before they said anything that can be read, and what to do; None if none was."""
    if not scores.cut:
        return None
    limit = "max_tokens" if max_tokens is None else count_of(max_tokens, "token")
    stages = ", ".join(f"{printable(stage)} {count}" for stage, count in scores.cut.items())
    replies = count_of(sum(scores.cut.values()), "reply was", "replies were")
    return f"{replies} cut off at {limit} and cannot be read ({stages}); --set max_tokens=N"


_MAX_READABLE_GAP = 0.05
"""The finding names larger differences between the readable shares of two arms."""


def readable_difference(scores: Mapping[str, Scores]) -> str:
    """The stages in which two arms have unequal readable shares, in one sentence; empty if there are none."""
    notes = []
    for stage in dict.fromkeys(stage for each in scores.values() for stage in each.readable):
        shares = {name: each.readable[stage].value for name, each in scores.items() if stage in each.readable}
        low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        if shares[high] - shares[low] > _MAX_READABLE_GAP + 1e-9:
            notes.append(f"{stage} {100 * shares[low]:.1f} % in {low}, {100 * shares[high]:.1f} % in {high}")
    return f"Replies were not equally readable: {'; '.join(notes)}." if notes else ""


def judge_notes(name: str, scores: Scores) -> Iterator[str]:
    """How often the judge and the summarizer of an arm are wrong by the task's matcher, over questions."""
    wrong = {"false_same": "verdicts SAME", "false_different": "verdicts DIFFERENT", "new_summary": "new summaries"}
    rates = {what: share for value, what in wrong.items() if (share := scores.debate.get(value)) is not None}
    shares = {what: (percent_cell(share), share.n) for what, share in rates.items()}
    parts = [f"{what} {cell.text} % (95 % {cell.interval}, n = {n})" for what, (cell, n) in shares.items()]
    if parts:
        yield f"{name}: wrong by the task's matcher: {'; '.join(parts)}."


_SENTENCES = 0.1, 0.8
"""EM at most this, and ``match`` at least this: answers that are right, but not in the form that EM counts."""
_MAX_UNREAD = 0.1


def oddities(scores: Mapping[str, Scores]) -> Iterator[str]:
    """Signs in the scores of arms that something is wrong, one sentence each."""
    for name, each in scores.items():
        em, match = each.metrics.get("em"), each.metrics.get("match")
        if em and match and em.value <= _SENTENCES[0] and match.value >= _SENTENCES[1]:
            yield (
                f"{name}: EM is {percent_cell(em).text} % where match is {percent_cell(match).text} %. The answers are "
                "right but are not the bare golds: ask for fewer words, or compare by match."
            )
        lost = {stage: 1 - share.value for stage, share in each.readable.items() if 1 - share.value > _MAX_UNREAD}
        if lost:
            stages = ", ".join(f"{100 * share:.0f} % of {stage}" for stage, share in lost.items())
            yield f"{name}: more than a tenth of the replies cannot be read ({stages}); look at some of them."
        elif (unread := sum(each.unread.values())) > _MAX_UNREAD * (each.transcripts - each.failed):
            counts = f"{unread:,} of {each.transcripts:,}"
            yield f"{name}: {counts} final answers cannot be read; look at some of them."
    if len(scores) > 1:
        first, *others = ({name: mean.value for name, mean in each.metrics.items()} for each in scores.values())
        if first and all(other == first for other in others):
            yield "All arms have the same scores by every measure: check that they differ in what you mean to compare."
