"""Tables: their cells, and how they look on terminals, in CSV files and in LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from madke._util.files import atomic_write
from madke._util.terminal import printable, table_text
from madke.core.errors import UserError
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
        halves = (self.value - self.low, self.high - self.value, half)
        below, above, middle = (f"{each:,.0f}" if each >= 1 else f"{each:.1g}" for each in halves)
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


def score_cell(estimate: Estimate | float | None, mark: str = "", digits: str = "z.4g", times: int = 1) -> Cell:
    """A figure, ``times`` a number, with its interval if known; :data:`NO_FIGURE` for None."""
    if estimate is None:
        return NO_FIGURE
    if not isinstance(estimate, Estimate):
        return Cell(text=f"{times * estimate:{digits}}", value=times * estimate, mark=mark)
    value, low, high = (times * each for each in (estimate.value, estimate.low, estimate.high))
    within = f"{low:{digits}} to {high:{digits}}"
    return Cell(text=f"{value:{digits}}", interval=within, value=value, low=low, high=high, mark=mark)


def percent_cell(estimate: Estimate | float | None, mark: str = "", sign: str = "") -> Cell:
    """A share in percent with one decimal. ``sign``: as in a format specification."""
    return score_cell(estimate, mark, f"{sign}z.1f", times=100)


def value_cell(name: str, estimate: Estimate | float | None, mark: str = "", sign: str = "") -> Cell:
    """A figure of the value of this name: in percent if it is a share, otherwise in its own unit."""
    return percent_cell(estimate, mark, sign) if is_share(name) else score_cell(estimate, mark, f"{sign}z.4g")


def p_value(p: float) -> str:
    """A p value as papers print it."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def equals(p: float) -> str:
    """A p value behind its name: ``= 0.030`` or ``< 0.0001``."""
    shown = p_value(p)
    return shown if shown.startswith("<") else f"= {shown}"


def one_line(text: str) -> str:
    """Untrusted text on one line, so that it cannot imitate other lines."""
    return " ".join(printable(text).split())


def plain_table(table: Table, *, details: bool = False, width: int | None = None) -> str:
    """A table as text that fits a terminal, with short intervals. ``details``: with exact intervals."""
    headings = [one_line(heading) for heading in table.columns]
    return table_text(
        headings,
        [[one_line(cell.whole if details else cell.with_interval) + cell.mark for cell in row] for row in table.rows],
        figures={heading for n, heading in enumerate(headings) if table.has_figures(n)},
        title=one_line(table.title),
        notes=[one_line(note) for note in table.notes],
        width=width,
    )


# Files

TABLE_FILES = (".csv", ".tex")


def check_ending(path: Path, endings: Sequence[str]) -> None:
    """UserError if the file's name has none of these endings."""
    if path.suffix not in endings:
        raise UserError(f"expected a file name ending in {' or '.join(endings)}", file=path)


def write_table(table: Table, path: Path) -> None:
    """Write a table as ``.csv`` (UTF-8) or ``.tex``, atomically. UserError: another suffix, or it cannot be written."""
    check_ending(path, TABLE_FILES)
    with atomic_write(path) as file:
        file.write((table_csv(table) if path.suffix == ".csv" else table_latex(table)).encode())


# The last four are full-width forms, which spreadsheets of some locales treat the same.
_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_cell(text: str) -> str:
    """Untrusted text for a spreadsheet: printable, with an apostrophe before anything that looks like a formula.

    A formula starts with ``=``, ``+``, ``-``, ``@``, a tab or a newline and is not a number (OWASP, "CSV Injection").
    """
    clean = printable(text)
    return f"'{clean}" if clean.startswith(_STARTS_FORMULA) and not _NUMBER.fullmatch(clean) else clean


def table_csv(table: Table) -> str:
    """The table as CSV with headings and CRLF line ends (RFC 4180), without notes.

    Columns of figures have unrounded numbers. Columns ``HEADING low``, ``HEADING high`` and ``HEADING mark`` follow if
    there are intervals and marks. A missing figure is an empty cell.
    """
    columns = _columns(table)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(map(csv_cell, columns))
    for row in zip(*columns.values(), strict=True):
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in row])
    return file.getvalue()


def _columns(table: Table) -> Mapping[str, Sequence[str | float | None]]:
    """All columns by heading: words, or figures followed by intervals and marks. A missing value is None."""
    columns: dict[str, Sequence[str | float | None]] = {}
    for n, heading in enumerate(table.columns):
        cells: list[Cell] = [row[n] for row in table.rows]
        if all(cell.value is None for cell in cells):
            columns[heading] = [None if cell == NO_FIGURE else cell.text for cell in cells]
            continue
        columns[heading] = [cell.value for cell in cells]
        if any(cell.low is not None for cell in cells):
            columns[f"{heading} low"] = [cell.low for cell in cells]
            columns[f"{heading} high"] = [cell.high for cell in cells]
        if any(cell.mark for cell in cells):
            columns[f"{heading} mark"] = [cell.mark.strip() for cell in cells]
    return columns


def table_latex(table: Table) -> str:
    """The table as LaTeX for a paper that loads booktabs, with the title as caption and notes below.

    The highest share of a column is bold. Intervals are in small type below their figures. All text is escaped.
    """
    places = range(len(table.columns))
    best = [table.best(n) for n in places]
    lines = [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{2pt}",
        rf"\caption{{{latex(table.title)}}}",
        rf"\begin{{tabular}}{{{''.join('r' if table.has_figures(n) else 'l' for n in places)}}}",
        r"\toprule",
        " & ".join(map(latex, table.columns)) + r" \\",
        r"\midrule",
        *(line for row in table.rows for line in _latex_row(row, best)),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {latex(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(row: Sequence[Cell], best: Sequence[str]) -> Iterator[str]:
    texts = (latex(f"{cell.text}{cell.mark}") for cell in row)
    bold = (bool(top) and cell.text == top for cell, top in zip(row, best, strict=True))
    yield " & ".join(rf"\textbf{{{text}}}" if is_best else text for text, is_best in zip(texts, bold, strict=True)) + (
        r" \\"
    )
    within = [cell.interval for cell in row]
    if any(within):
        # With a dash, unless a sign could be mistaken for one.
        ranges = (each if "+" in each or "-" in each else each.replace(" to ", "--") for each in within)
        yield " & ".join(rf"{{\scriptsize {latex(each)}}}" if each else "" for each in ranges) + r" \\"
        yield r"\addlinespace"


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{special: f"\\{special}" for special in "&%$#_"},
}
_SPECIALS = re.compile("[" + re.escape("".join(_SPECIAL)) + "]")


def latex(text: str) -> str:
    """The text escaped for LaTeX, on one line."""
    escaped = _SPECIALS.sub(lambda match: _SPECIAL[match[0]], one_line(text))
    # LaTeX would read a row that starts so as an argument of the \\ before it.
    return f"{{{escaped}}}" if escaped.startswith(("[", "*")) else escaped
