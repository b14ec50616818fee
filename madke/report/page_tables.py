"""Tables and the chart of the report page: figures that lead to debates, best values, headings with meanings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import urlencode

from madke.report.explanations import explanation, name_of
from madke.report.page_data import OUTCOMES
from madke.report.tables import NOTHING, Cell, Table, percent_cell
from madke.scoring.scores import Scores


@dataclass(frozen=True, kw_only=True, slots=True)
class PageCell:
    """A cell of a table on the page. Its texts may be untrusted."""

    text: str
    interval: str = ""
    mark: str = ""
    best: bool = False
    href: str = ""
    """Address of the debates behind the figure; empty if there are none."""
    opens: str = ""
    """What ``href`` leads to, in words."""
    order: float | None = None
    """Figure that the table is sorted by. Words are sorted by their text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageColumn:
    """A heading of a table on the page."""

    heading: str
    meaning: str
    words: bool
    """Whether the column has no figures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageTable:
    """A table of the page. The first column names the row."""

    title: str
    columns: tuple[PageColumn, ...]
    rows: tuple[tuple[PageCell, ...], ...]
    notes: tuple[str, ...]

    @property
    def stacked(self) -> bool:
        """Whether a phone shows each row as a list, because a table of words has no narrow columns."""
        return all(column.words for column in self.columns)


def page_table(table: Table, runs: Collection[str], first: str) -> PageTable:
    """A table for the page. The words that a row starts with are one name, so that no figure loses its name.

    ``first``: heading of the metric that decides which debates are right.
    """
    places = range(len(table.columns))
    words = [not table.has_figures(n) and any(row[n] is not NOTHING for row in table.rows) for n in places]
    named = 1 if all(words) else max(1, sum(1 for _ in takewhile(bool, words)))
    joined = " \N{MIDDLE DOT} ".join
    meanings = " ".join(dict.fromkeys(map(explanation, table.columns[:named])))
    columns = [PageColumn(heading=joined(table.columns[:named]), meaning=meanings, words=True)]
    for heading, only_words in [*zip(table.columns, words, strict=True)][named:]:
        columns.append(PageColumn(heading=heading, meaning=explanation(heading), words=only_words))
    best = [_best(table, n) if named == 1 else "" for n in places]
    rows = []
    for row in table.rows:
        texts = [cell.text for cell in row[:named]]
        of_row = [text for text in texts if text in runs]
        decisive = f"{first} %" in texts or "correct %" in texts
        figures = [*zip(table.columns, row, best, strict=True)][named:]
        name = PageCell(text=joined(texts).replace(" %", "\N{NO-BREAK SPACE}%"), mark=row[0].mark)
        rows.append((name, *(_cell(*each, of_row, decisive) for each in figures)))
    notes = [*table.notes]
    if any(cell.href for row in rows for cell in row):
        notes.append(
            "Each figure opens its debates." + (" Bold: the highest value of the column." if any(best) else "")
        )
    return PageTable(title=table.title, columns=tuple(columns), rows=tuple(rows), notes=tuple(notes))


def _best(table: Table, column: int) -> str:
    """The highest share of a column as it is printed; empty if there is none, or all are equal."""
    cells = [row[column] for row in table.rows if row[column].value is not None]
    if not cells or not table.columns[column].endswith("%") or table.columns[column].startswith("unparsed"):
        return ""
    best = max(cells, key=lambda cell: cell.value or 0.0).figure_and_interval[0]
    return best if any(cell.figure_and_interval[0] != best for cell in cells) else ""


_BEHIND = {"correct": "right", "Co2": "right", "Cons": "divided", "failed": "failed", "abst.": "abstained"}
_BEHIND |= dict.fromkeys(("difference", "p", "p (Holm)", "effect"), "differ")
"""Heading -> outcome of the debates that its figures lead to. The others lead to all debates."""


def _cell(heading: str, cell: Cell, best: str, runs: Sequence[str], decisive: bool = False) -> PageCell:
    figure, within = cell.figure_and_interval
    href, opens = _debates(heading, cell, runs, decisive) if runs and cell.value is not None else ("", "")
    return PageCell(
        text=figure,
        interval=within,
        mark=cell.mark,
        best=bool(best) and figure == best,
        href=href,
        opens=opens,
        order=cell.low if cell.value is None else cell.value,
    )


def _debates(heading: str, cell: Cell, runs: Sequence[str], decisive: bool) -> tuple[str, str]:
    """Address and description of the debates behind a figure of one run or of a pair."""
    outcome = _BEHIND.get(name_of(heading), "")
    if heading == "of second":
        return debates_of(runs[1])
    if heading in ("only first", "only second"):
        if not cell.value:
            return "", ""
        if not decisive:  # the list knows which debates are right by the first metric only
            return debates_of(*runs, outcome="differ")
        right, other = runs if heading == "only first" else reversed(runs)
        parts = [("show", "all"), ("cell", f"right:{right}"), ("cell", f"missed:{other}")]
        return f"#debates?{urlencode(parts)}", f"Questions that {right} has right and {other} has not"
    if outcome and cell.value == (100 if outcome == "divided" else 0):  # no debate has this outcome
        return debates_of(*runs) if cell.low is not None else ("", "")
    return debates_of(*runs, outcome=outcome)


def debates_of(run: str, other: str = "", *, outcome: str = "") -> tuple[str, str]:
    """Address of a run's debates in the list, next to those of another run, and what it opens in words."""
    parts = {"run": run, "with": other, "outcome": outcome}
    kind = "those that differ" if outcome == "differ" else OUTCOMES.get(outcome, "")
    words = f"Debates of {run}{f' and {other}' if other else ''}{f': {kind}' if kind else ''}"
    return f"#debates?{urlencode({name: part for name, part in parts.items() if part})}", words


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """The share of right answers of one run."""

    name: PageCell
    figure: PageCell
    share: Cell
    note: str
    """What limits the figure: an incomplete run, failed debates."""


def bars(scores: Mapping[str, Scores]) -> Iterator[Bar]:
    """The chart: one bar with an interval per run."""
    for name, found in scores.items():
        failed = f"{found.failed:,} of {found.transcripts:,} debates failed" if found.failed else ""
        note = "; ".join(filter(None, ((found.incomplete or "").partition(" (")[0], failed)))
        share = percent_cell(found.correct)
        href, opens = debates_of(name)
        figure = _cell("correct %", share, "", [name])
        yield Bar(name=PageCell(text=name, href=href, opens=opens), figure=figure, share=share, note=note)
