"""Logs of any tool next to each other: paired differences, in one table and a sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist, fmean, pvariance

from madke.core.errors import UserError, count_of
from madke.report.tables import NO_FIGURE, Cell, Table, TableRow, count_cell, p_value, percent_cell, table_of
from madke.scoring.logs import Log
from madke.scoring.paired import PairedTest, compared, equal_within, further_questions, holm
from madke.scoring.statistics import estimate

_ALL_PAIRS = 6
"""Number of logs of which every pair is compared; of more, each with the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPair:
    """Two logs on the questions that both have."""

    test: PairedTest
    """``left`` and ``right`` are the names; ``p_holm`` is corrected over all pairs."""
    unpaired_p: float
    """Of the z-test of two means that ignores that the questions are the same, for comparison."""
    equal: bool
    """Whether the difference is within the margin for sure."""
    margin: float
    more: int | None
    """Further questions that would show a difference of this size; None for no difference."""
    unshared: int
    """Questions that only one of the two has."""

    def sentence(self) -> str:
        """What was found."""
        test, found = self.test, self.test.difference
        shown = f"95 % {100 * found.low:+.1f} to {100 * found.high:+.1f}, p {_equal(test.p_holm)}, n = {test.n:,}"
        points, margin = f"{100 * abs(found.value):.1f} points", f"{100 * self.margin:g} points"
        better, worse = (test.right, test.left) if found.value > 0 else (test.left, test.right)
        equal = f"{test.right} and {test.left} are equal within {margin}"
        if test.p_holm < 0.05:
            within = f" They are equal within {margin}." if self.equal else ""
            return f"{better} is better than {worse} by {points} ({shown}).{within}"
        if self.equal:
            return f"{equal} ({shown})."
        if self.more is None:
            return f"No difference was found between {test.right} and {test.left} ({shown})."
        return (
            f"No difference was found: {better} is ahead of {worse} by {points} ({shown}). To show a difference of "
            f"this size needs n = {self.more:,} more."
        )


def compare_logs(logs: Sequence[Log], margin: float) -> list[LogPair]:
    """The pairs of logs: all of up to six, else each with the first. UserError if two share no question."""
    pairs = list(combinations(logs, 2)) if len(logs) <= _ALL_PAIRS else [(logs[0], each) for each in logs[1:]]
    found = [_pair(left, right, margin) for left, right in pairs]
    corrected = holm([each.test.p for each in found])
    return [replace(each, test=replace(each.test, p_holm=p)) for each, p in zip(found, corrected, strict=True)]


def _pair(left: Log, right: Log, margin: float) -> LogPair:
    shared = [id_ for id_ in left.right if id_ in right.right]
    if not shared:
        here, there = next(iter(right.right)), next(iter(left.right))
        why = f"shares no question with {left.path}: its first id is {here!r}, there it is {there!r}"
        raise UserError(why, file=right.path)
    one, two = ([log.right[id_] for id_ in shared] for log in (left, right))
    test = replace(compared(one, two), left=left.name, right=right.name)
    return LogPair(
        test=test,
        unpaired_p=_unpaired(one, two),
        equal=equal_within(test.difference, margin),
        margin=margin,
        more=further_questions(test),
        unshared=len(left.right) + len(right.right) - 2 * len(shared),
    )


def _unpaired(one: Sequence[float], two: Sequence[float]) -> float:
    """Two-sided p of the z-test with the standard errors of two independent means (n - 1), as lm-eval reports them."""
    if len(one) < 2:
        return 1.0
    error = math.sqrt(sum(pvariance(each) / (len(each) - 1) for each in (one, two)))
    size = abs(fmean(two) - fmean(one))
    return 2 * NormalDist().cdf(-size / error) if error else float(size == 0)


def logs_table(logs: Sequence[Log]) -> Table:
    """One row per log: right answers, questions, and what the log tells of its cost."""
    rows: list[TableRow] = []
    for log in logs:
        row: TableRow = {
            "log": log.name,
            "right %": percent_cell(estimate([*log.right.values()])),
            "questions": count_cell(len(log.right)),
        }
        for what in ("calls", "tokens"):
            if any(what in each.cost for each in logs):
                row[what] = count_cell(round(log.cost[what])) if what in log.cost else NO_FIGURE
        if any("cost" in each.cost for each in logs):
            spent = log.cost.get("cost")
            row["cost"] = NO_FIGURE if spent is None else Cell(text=f"{spent:,.4g}", value=spent)
        rows.append(row)
    return table_of("", rows)


def pairs_table(pairs: Sequence[LogPair]) -> Table:
    """One row per pair: the difference with its interval, the test, and how many questions more would show it."""
    rows: list[TableRow] = []
    for pair in pairs:
        test = pair.test
        rows.append(
            {
                "pair": f"{test.right} - {test.left}",
                "points": percent_cell(test.difference, sign="+"),
                "n": count_cell(test.n),
                "p": Cell(text=p_value(test.p_holm), value=test.p_holm),
                "unpaired p": Cell(text=p_value(pair.unpaired_p), value=pair.unpaired_p),
                "more": NO_FIGURE if pair.more is None or test.p_holm < 0.05 else count_cell(pair.more),
                f"equal within {100 * pair.margin:g}": "yes" if pair.equal else "not shown",
            }
        )
    notes = [
        "p: McNemar's exact test for right or wrong, else a paired permutation test; Holm-corrected.",
        "unpaired p: the z-test of two means, which ignores that both answered the same questions.",
        "more: further questions that would show a difference of this size (80 % power).",
    ]
    left_out = sum(pair.unshared for pair in pairs)
    if left_out:
        notes.append(f"{count_of(left_out, 'question')} in only one log of a pair, not compared.")
    return table_of("", rows, notes)


def _equal(p: float) -> str:
    shown = p_value(p)
    return shown if shown.startswith("<") else f"= {shown}"
