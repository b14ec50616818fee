"""Tables for a terminal, a page, and as files (CSV, Parquet, LaTeX); every answer as a file."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from madke.core.errors import UserError
from madke.files import atomic_write
from madke.scoring.arms import Results
from madke.scoring.debate_rows import GRADER, correct
from madke.scoring.metrics import METRICS
from madke.scoring.statistics import Estimate
from madke.terminal import printable

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
        """The text in two lines: a figure, and its interval, empty if it has none."""
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


def value_cell(name: str, found: Estimate | None, mark: str = "") -> Cell:
    """A value's mean: in percent where its name is that of a share, else in its own unit."""
    return (percent_cell if in_percent(name) else score_cell)(found, mark)


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


def rich_table(table: Table, without: Container[str] = ()) -> RichTable:
    """A table for a terminal, ``without`` columns of these headings and notes that begin with them."""
    shown = RichTable(
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

    A formula starts with ``=``, ``+``, ``-``, ``@``, a tab or a newline and is no number (OWASP, "CSV Injection").
    """
    clean = printable(text)
    return f"'{clean}" if clean.startswith(_STARTS_FORMULA) and not _NUMBER.fullmatch(clean) else clean


# Files

_Column = tuple[str, Sequence[str | float | None]]


def write_table(table: Table, path: Path) -> None:
    """Write a table as ``.csv`` (UTF-8), ``.parquet`` or ``.tex``, whole or not at all.

    UserError: another ending, the file cannot be written, or pyarrow is missing for Parquet.
    """
    forms: dict[str, Callable[[Table], bytes]] = {
        ".csv": lambda table: table_csv(table).encode(),
        ".parquet": _parquet,
        ".tex": lambda table: table_latex(table).encode(),
    }
    if path.suffix not in forms:
        raise UserError("is no kind of table that can be written; expected .csv, .parquet or .tex", file=path)
    content = forms[path.suffix](table)
    with atomic_write(path) as file:
        file.write(content)


def table_csv(table: Table) -> str:
    """The table as CSV, with a heading and CRLF at the ends of lines (RFC 4180).

    A column of figures holds plain numbers, without rounding, and is followed by ``low``, ``high`` and ``mark`` of its
    heading where it has intervals and marks. What is missing is an empty cell. Notes are not in it.
    """
    columns = _columns(table)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([csv_cell(heading) for heading, _ in columns])
    for row in zip(*(cells for _, cells in columns), strict=True):
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in row])
    return file.getvalue()


def table_latex(table: Table) -> str:
    """The table for a paper that loads booktabs: figures to the right, the title as caption, notes below.

    Columns that stand aside are left out, and intervals stand small below their figures. Everything is escaped.
    """
    table, _ = table.in_two()
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
    """A line of the figures, and one of their intervals, where there are any, with a little space below."""
    parts = [cell.figure_and_interval for cell in row]
    yield " & ".join(latex(f"{figure}{cell.mark}") for (figure, _), cell in zip(parts, row, strict=True)) + r" \\"
    if any(interval for _, interval in parts):
        # With a dash, unless signs would be taken for another.
        ranges = (each if "+" in each or "-" in each else each.replace(" to ", "--") for _, each in parts)
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
    """The text for LaTeX, on one line."""
    line = " ".join(printable(text).split())
    escaped = _SPECIALS.sub(lambda found: _SPECIAL[found[0]], line)
    # A row that begins so would be taken for an argument, or the star, of the \\ before it.
    return f"{{{escaped}}}" if escaped.startswith(("[", "*")) else escaped


def _parquet(table: Table) -> bytes:
    pyarrow, parquet = _pyarrow()
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
    """Every column by its heading: words, or plain figures followed by their intervals and marks; None is missing."""
    found: list[_Column] = []
    for n, heading in enumerate(table.columns):
        cells: list[Cell] = [row[n] for row in table.rows]
        if all(cell.value is None for cell in cells):
            found.append((heading, [None if cell is NOTHING else cell.text for cell in cells]))
            continue
        found.append((heading, [cell.value for cell in cells]))
        if any(cell.low is not None for cell in cells):
            found.append((f"{heading} low", [cell.low for cell in cells]))
            found.append((f"{heading} high", [cell.high for cell in cells]))
        if any(cell.mark for cell in cells):
            found.append((f"{heading} mark", [cell.mark.strip() for cell in cells]))
    return found


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError("Parquet needs pyarrow: pip install 'madke[report]', or choose .csv") from None
    return pyarrow, parquet


# Every answer

_Answered = dict[str, Any]


def write_answers(results: Sequence[Results], path: Path) -> None:
    """Write what arms answered, one after the other and a row each question and repeat; whole or not at all.

    A row has ``arm``, ``id``, ``repeat``, ``question``, ``gold``, ``answer`` (none where it abstained or failed),
    ``status`` and ``correct`` (the task's first metric; none for a failed question or one without golds). ``.jsonl``,
    ``.csv`` (golds joined by `` | ``, safe for spreadsheets) or ``.parquet``.

    Raises:
        UserError: Another ending, the file cannot be written, or pyarrow is missing for Parquet.
    """
    write = {".jsonl": _answers_jsonl, ".csv": _answers_csv, ".parquet": _answers_parquet}.get(path.suffix)
    if write is None:
        raise UserError("is no kind of file for answers; expected .jsonl, .csv or .parquet", file=path)
    with atomic_write(path) as file:
        write(_answered(results), file)


def _answered(results: Iterable[Results]) -> Iterator[_Answered]:
    for arm in results:
        for t in arm.transcripts():
            row = {"arm": arm.name, "id": t.id, "repeat": t.repeat, "question": t.question, "gold": t.answers}
            yield row | {"answer": t.answer, "status": t.status, "correct": correct(t)}


def _answers_jsonl(rows: Iterator[_Answered], file: IO[bytes]) -> None:
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def _answers_csv(rows: Iterator[_Answered], file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(["arm", "id", "repeat", "question", "gold", "answer", "status", "correct"])
    for row in rows:
        cells = (row | {"gold": " | ".join(row["gold"])}).values()
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    text.flush()
    text.detach()


def _answers_parquet(rows: Iterator[_Answered], file: IO[bytes]) -> None:
    pyarrow, parquet = _pyarrow()
    text = pyarrow.string()
    types = dict.fromkeys(("arm", "id", "repeat", "question", "gold", "answer", "status", "correct"), text)
    types |= {"repeat": pyarrow.int64(), "gold": pyarrow.list_(text), "correct": pyarrow.float64()}
    schema = pyarrow.schema(types)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, 1000)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
