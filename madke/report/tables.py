"""Tables for terminals, pages and files (CSV, Parquet, LaTeX)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

from madke._util.assets import require
from madke._util.files import write_file
from madke._util.terminal import FittedTable, printable
from madke.core.errors import UserError
from madke.scoring.statistics import Estimate
from madke.scoring.value_units import is_share

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
    aside: tuple[str, ...] = ()
    """Headings of secondary columns: a separate table on pages, left out of papers."""

    def split(self) -> tuple[Table, Table | None]:
        """The table without secondary columns, and a table of the first and the secondary columns, if any."""
        secondary = [heading in self.aside for heading in self.columns]

        def selected(which: Sequence[bool], notes: tuple[str, ...]) -> Table:
            rows = tuple(tuple(compress(row, which)) for row in self.rows)
            return Table(title=self.title, columns=tuple(compress(self.columns, which)), rows=rows, notes=notes)

        rest = selected([True, *secondary[1:]], ()) if any(secondary) else None
        return selected([not one for one in secondary], self.notes), rest

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


def rich_table(
    table: Table, without: Container[str] = (), *, details: bool = False, first_out: Sequence[str] = ()
) -> FittedTable:
    """A table that fits a terminal, with short intervals.

    ``without``: headings to leave out, with the notes that start with them. ``details``: with exact intervals.
    ``first_out``: headings to leave out first where the table is too wide.
    """
    kept = [n for n, heading in enumerate(table.columns) if heading not in without]
    return FittedTable(
        [one_line(table.columns[n]) for n in kept],
        [[_on_terminals(row[n], details=details) for n in kept] for row in table.rows],
        figures={one_line(table.columns[n]) for n in kept if table.has_figures(n)},
        title=one_line(table.title),
        notes=[one_line(note) for note in table.notes if note.partition(":")[0] not in without],
        first_out=first_out,
    )


def _on_terminals(cell: Cell, *, details: bool) -> str:
    text = cell.whole if details else cell.with_interval
    return "\n".join(map(one_line, text.split("\n"))) + cell.mark


# The last four are full-width forms, which spreadsheets of some locales treat the same.
_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_cell(text: str) -> str:
    """Untrusted text for a spreadsheet: printable, with an apostrophe before anything that looks like a formula.

    A formula starts with ``=``, ``+``, ``-``, ``@``, a tab or a newline and is not a number (OWASP, "CSV Injection").
    """
    clean = printable(text)
    return f"'{clean}" if clean.startswith(_STARTS_FORMULA) and not _NUMBER.fullmatch(clean) else clean


_Column = tuple[str, Sequence[str | float | None]]

TABLE_FILES, ANSWER_FILES = (".csv", ".parquet", ".tex"), (".jsonl", ".csv", ".parquet")


def check_ending(path: Path, endings: Sequence[str]) -> None:
    """UserError if the file's name has none of these endings."""
    if path.suffix not in endings:
        raise UserError(f"expected a file name ending in {' or '.join(endings)}", file=path)


def write_table(table: Table, path: Path) -> None:
    """Write a table as ``.csv`` (UTF-8), ``.parquet`` or ``.tex``, atomically.

    UserError: another suffix, the file cannot be written, or pyarrow is missing for Parquet.
    """
    check_ending(path, TABLE_FILES)
    texts = {".csv": table_csv, ".tex": table_latex}
    write_file(path, texts[path.suffix](table).encode() if path.suffix in texts else _parquet(table))


def table_csv(table: Table) -> str:
    """The table as CSV with headings and CRLF line ends (RFC 4180), without notes.

    Columns of figures have unrounded numbers. Columns ``HEADING low``, ``HEADING high`` and ``HEADING mark`` follow if
    there are intervals and marks. A missing figure is an empty cell.
    """
    columns = _columns(table)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([csv_cell(heading) for heading, _ in columns])
    for row in zip(*(cells for _, cells in columns), strict=True):
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in row])
    return file.getvalue()


def table_latex(table: Table) -> str:
    """The table as LaTeX for a paper that loads booktabs, with the title as caption and notes below.

    Secondary columns are left out. Intervals are in small type below their figures. All text is escaped.
    """
    table, _ = table.split()
    figures = [table.has_figures(n) for n in range(len(table.columns))]
    lines = [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{2pt}",
        rf"\caption{{{latex(table.title)}}}",
        rf"\begin{{tabular}}{{{''.join('r' if figure else 'l' for figure in figures)}}}",
        r"\toprule",
        " & ".join(map(latex, table.columns)) + r" \\",
        r"\midrule",
        *(line for row in table.rows for line in _latex_row(row)),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {latex(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(row: Sequence[Cell]) -> Iterator[str]:
    yield " & ".join(latex(f"{cell.text}{cell.mark}") for cell in row) + r" \\"
    within = [cell.interval for cell in row]
    if any(within):
        # With a dash, unless a sign could be mistaken for one.
        ranges = (each if "+" in each or "-" in each else each.replace(" to ", "--") for each in within)
        small = (rf"{{\scriptsize {latex(each)}}}" if each else "" for each in ranges)
        yield " & ".join(small) + r" \\"
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
    escaped = _SPECIALS.sub(lambda found: _SPECIAL[found[0]], one_line(text))
    # LaTeX would read a row that starts so as an argument of the \\ before it.
    return f"{{{escaped}}}" if escaped.startswith(("[", "*")) else escaped


def _parquet(table: Table) -> bytes:
    pyarrow, parquet = arrow()
    columns = _columns(table)

    def array(cells: Sequence[str | float | None]) -> Any:
        figures = any(isinstance(cell, int | float) for cell in cells)
        return pyarrow.array(cells, None if figures else pyarrow.string())

    data = pyarrow.table(
        [array(cells) for _, cells in columns],
        names=[heading for heading, _ in columns],
        metadata={"title": table.title, "notes": "\n".join(table.notes)},
    )
    file = io.BytesIO()
    parquet.write_table(data, file)
    return file.getvalue()


def _columns(table: Table) -> list[_Column]:
    """All columns with headings: words, or figures followed by intervals and marks. A missing value is None."""
    found: list[_Column] = []
    for n, heading in enumerate(table.columns):
        cells: list[Cell] = [row[n] for row in table.rows]
        if all(cell.value is None for cell in cells):
            found.append((heading, [None if cell is NO_FIGURE else cell.text for cell in cells]))
            continue
        found.append((heading, [cell.value for cell in cells]))
        if any(cell.low is not None for cell in cells):
            found.append((f"{heading} low", [cell.low for cell in cells]))
            found.append((f"{heading} high", [cell.high for cell in cells]))
        if any(cell.mark for cell in cells):
            found.append((f"{heading} mark", [cell.mark.strip() for cell in cells]))
    return found


def arrow() -> tuple[Any, Any]:
    """The modules ``pyarrow`` and ``pyarrow.parquet``; UserError if they are missing."""
    require("Parquet files need", "report", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    return pyarrow, parquet
