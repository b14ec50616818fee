"""Tables for terminals and pages."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from madke._util.terminal import printable, table_text
from madke.scoring.metrics import is_share
from madke.scoring.statistics import Estimate

ORACLE = "analysis: reads the gold answers"
"""Label of debates whose order used the gold answers."""

MARK = "*"
"""Marks a figure that differs significantly from the first arm's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    """Words or a figure, without interval and mark. It may be untrusted, so renderers must escape it."""
    interval: str = ""
    """The interval of the figure, as text."""
    value: float | None = None
    """The figure, in the unit of the column heading. None for words and missing figures."""
    low: float | None = None
    """Lower end of the 95 % interval, or of a range without a value, in the same unit."""
    high: float | None = None
    mark: str = ""
    """Printed after the text and explained in a note of the table."""

    @property
    def with_interval(self) -> str:
        """The text with its interval: ``50.0 ±0.2`` if both halves are equal as shown, else ``0.0 [0 to 35]``."""
        if not self.interval or self.value is None or self.low is None or self.high is None:
            return self.text
        half = (self.high - self.low) / 2
        below, above, middle = (_rounded(each) for each in (self.value - self.low, self.high - self.value, half))
        if below == above:
            return f"{self.text} \N{PLUS-MINUS SIGN}{middle}"
        sign = "+" if self.text[:1] in ("+", "-") else ""
        digits = 0 if half >= 1 else len(self.text.partition(".")[2])
        return f"{self.text} [{self.low:{sign}z,.{digits}f} to {self.high:{sign}z,.{digits}f}]"

    @property
    def whole(self) -> str:
        """The text, with its interval in brackets if there is one."""
        return f"{self.text} ({self.interval})" if self.interval else self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table. Each row has one cell per column."""

    title: str
    columns: tuple[str, ...]
    """Distinct headings, with units."""
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """Explanations for readers, one sentence each."""
    file_only: tuple[str, ...] = ()
    """Headings of columns that only CSV and Parquet files have."""

    def visible(self) -> Table:
        """The table without the columns that only files have."""
        kept = [n for n, heading in enumerate(self.columns) if heading not in self.file_only]
        rows = tuple(tuple(row[n] for n in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[n] for n in kept), rows=rows, file_only=())

    def best(self, column: int) -> str:
        """The highest share of a column as it is printed; empty if there is none, or all are equal."""
        cells = [row[column] for row in self.rows if row[column].value is not None]
        if not cells or not self.columns[column].endswith("%"):
            return ""
        best = max(cells, key=lambda cell: cell.value or 0.0).text
        return best if any(cell.text != best for cell in cells) else ""

    def has_figures(self, column: int) -> bool:
        """Whether the column with this index has figures or ranges, which are right-aligned."""
        return any(row[column].value is not None or row[column].low is not None for row in self.rows)


def _rounded(half: float) -> str:
    """Half of an interval as it is shown."""
    return f"{half:,.0f}" if half >= 1 else f"{half:.1g}"


NO_FIGURE = Cell(text="-")
"""A figure that is unknown or does not apply. Files have an empty cell."""


TableRow = dict[str, Cell | str]
"""Heading -> figure or words."""


def table_of(title: str, rows: Sequence[TableRow], notes: Sequence[str] = ()) -> Table:
    """A table from its rows. A missing cell is :data:`NO_FIGURE`."""
    columns = tuple(dict.fromkeys(heading for row in rows for heading in row))
    cells = ([row.get(heading, NO_FIGURE) for heading in columns] for row in rows)
    filled = (tuple(Cell(text=each) if isinstance(each, str) else each for each in row) for row in cells)
    return Table(title=title, columns=columns, rows=tuple(filled), notes=tuple(notes))


def count_cell(n: int) -> Cell:
    """A count."""
    return Cell(text=f"{n:,}", value=n)


def score_cell(found: Estimate | float | None, mark: str = "", digits: str = "z.4g", times: int = 1) -> Cell:
    """A figure, ``times`` a number, with its interval if known; :data:`NO_FIGURE` for None."""
    if found is None:
        return NO_FIGURE
    if not isinstance(found, Estimate):
        return Cell(text=f"{times * found:{digits}}", value=times * found, mark=mark)
    value, low, high = (times * each for each in (found.value, found.low, found.high))
    within = f"{low:{digits}} to {high:{digits}}"
    return Cell(text=f"{value:{digits}}", interval=within, value=value, low=low, high=high, mark=mark)


def percent_cell(found: Estimate | float | None, mark: str = "", sign: str = "") -> Cell:
    """A share in percent with one decimal. ``sign``: as in a format specification."""
    return score_cell(found, mark, f"{sign}z.1f", times=100)


def value_cell(name: str, found: Estimate | float | None, mark: str = "", sign: str = "") -> Cell:
    """A figure of the value of this name: in percent if it is a share, otherwise in its own unit."""
    return percent_cell(found, mark, sign) if is_share(name) else score_cell(found, mark, f"{sign}z.4g")


def interval(found: Estimate | None) -> str:
    """The mean in percent with its 95 % interval; a dash for None."""
    return percent_cell(found).whole


def p_value(p: float) -> str:
    """A p value as papers print it."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def one_line(text: str) -> str:
    """Untrusted text on one line, so that it cannot imitate other lines."""
    return " ".join(printable(text).split())


def plain_table(table: Table, without: Container[str] = (), *, details: bool = False, width: int | None = None) -> str:
    """A table as text that fits a terminal, with short intervals.

    ``without``: headings to leave out, with the notes that start with them. ``details``: with exact intervals.
    """
    kept = [n for n, heading in enumerate(table.columns) if heading not in without]
    return table_text(
        [one_line(table.columns[n]) for n in kept],
        [
            [one_line(row[n].whole if details else row[n].with_interval) + row[n].mark for n in kept]
            for row in table.rows
        ],
        figures={one_line(table.columns[n]) for n in kept if table.has_figures(n)},
        title=one_line(table.title),
        notes=[one_line(note) for note in table.notes if note.partition(":")[0] not in without],
        width=width,
    )


def _on_terminal(cell: Cell, *, details: bool) -> str:
    return one_line(cell.whole if details else cell.with_interval) + cell.mark
