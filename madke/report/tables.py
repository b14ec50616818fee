"""Tables that know nothing of where they are shown: a terminal, a page, a paper, a spreadsheet."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

from madke.scoring.debate_rows import GRADER
from madke.scoring.metrics import METRICS
from madke.scoring.statistics import Estimate
from madke.terminal import printable

if TYPE_CHECKING:
    import rich.table


ORACLE = "analysis: reads the gold answers"
"""Said wherever a debate whose order read the gold answers is reported."""

MARK = "*"
"""Follows a figure that differs significantly from the first arm's."""

HEADINGS = {
    "em": "EM",
    "f1": "F1",
    "match": "match",
    "label_accuracy": "label",
    "choice_accuracy": "choice",
    "math_equivalence": "math",
    "chrf": "chrF",
    "bleu": "BLEU",
    "grader": "grader",
}
"""Metrics with a short name, in the order of their columns; others stand behind them, under their own names."""


def in_percent(name: str) -> bool:
    """Whether a value is a share, shown in percent; what scorers outside say is on scales of their own."""
    return name in METRICS or name in ("correct", GRADER) or name.startswith(("cons_", "co2_"))


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


def count_cell(n: int) -> Cell:
    """A number of things."""
    return Cell(text=f"{n:,}", value=n)


def percent_cell(found: Estimate | None, mark: str = "") -> Cell:
    """A share in percent, with its interval; :data:`NOTHING` where there is none."""
    if found is None:
        return NOTHING
    return Cell(text=interval(found), value=100 * found.value, low=100 * found.low, high=100 * found.high, mark=mark)


def score_cell(found: Estimate | float | None, mark: str = "", digits: str = ".4g") -> Cell:
    """A figure in its own unit, with its interval where it has one; :data:`NOTHING` where there is none."""
    if found is None:
        return NOTHING
    if not isinstance(found, Estimate):
        return Cell(text=f"{found:{digits}}", value=found, mark=mark)
    text = f"{found.value:{digits}} ({found.low:{digits}} to {found.high:{digits}})"
    return Cell(text=text, value=found.value, low=found.low, high=found.high, mark=mark)


def percent(found: Estimate | None) -> str:
    """The mean in percent, one decimal; a dash where there is none."""
    return "-" if found is None else f"{100 * found.value:.1f}"


def interval(found: Estimate | None) -> str:
    """The mean in percent with its 95 % interval."""
    if found is None:
        return "-"
    return f"{100 * found.value:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def one_line(text: str) -> str:
    """Text of others on one line, so that it cannot pass for a line of ours."""
    return " ".join(printable(text).split())


def rich_table(table: Table, without: Container[str] = ()) -> rich.table.Table:
    """A table for a terminal; figures stand to the right, notes below.

    Args:
        table: Any.
        without: Headings of columns that are left out, for want of room, with the notes that begin with them.
    """
    from rich import box
    from rich.table import Table as Shown
    from rich.text import Text

    shown = Shown(
        title=one_line(table.title) or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        caption="\n".join(one_line(note) for note in table.notes if note.partition(":")[0] not in without),
        caption_justify="left",
    )
    kept = [n for n, heading in enumerate(table.columns) if heading not in without]
    for n in kept:
        shown.add_column(
            Text(one_line(table.columns[n])), justify="right" if table.has_figures(n) else "left", overflow="fold"
        )
    for row in table.rows:
        lines = ([*map(one_line, row[n].text.split("\n")), ""] for n in kept)
        shown.add_row(*(Text("\n".join(each[:-1]) + row[n].mark) for n, each in zip(kept, lines, strict=True)))
    return shown


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
