"""Files for other programs: tables as CSV, Parquet and LaTeX; every answer as JSON Lines, CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import IO, Any

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.files import replacing
from madke.report.tables import NOTHING, Cell, Table, csv_cell
from madke.scoring.arms import Results
from madke.scoring.debate_rows import correct
from madke.terminal import printable

_Column = tuple[str, Sequence[str | float | None]]


def write_table(table: Table, path: Path) -> None:
    """Write a table; the file appears whole or not at all.

    Args:
        table: Any.
        path: ``.csv`` (UTF-8, no byte order mark), ``.parquet`` or ``.tex``.

    Raises:
        UserError: Another ending, the file cannot be written, or pyarrow is missing for Parquet.
    """
    forms: dict[str, Callable[[Table], bytes]] = {
        ".csv": lambda table: table_csv(table).encode(),
        ".parquet": _parquet,
        ".tex": lambda table: table_latex(table).encode(),
    }
    if path.suffix not in forms:
        raise UserError("is no kind of table that can be written; expected .csv, .parquet or .tex", file=path)
    content = forms[path.suffix](table)
    with replacing(path) as file:
        file.write(content)


def table_csv(table: Table) -> str:
    """The table as CSV, with a heading and CRLF at the ends of lines (RFC 4180).

    A column of figures holds plain numbers, without rounding, and is followed by ``low``, ``high`` and ``mark`` of its
    heading where it has intervals and marks. What is missing is an empty cell. Words are made safe for spreadsheets by
    ``csv_cell``. Notes are not in it.
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

    Columns that stand aside are left out, and intervals stand small below their figures: the scores of six metrics fit
    160 mm. Everything is escaped, so that text of others is shown and never run.
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
        yield (
            " & ".join(rf"{{\scriptsize {_latex_interval(low_high)}}}" if low_high else "" for _, low_high in parts)
            + r" \\"
        )
        yield r"\addlinespace"


def _latex_interval(interval: str) -> str:
    """With a dash, but where signs would be taken for another."""
    return latex(interval if "+" in interval or "-" in interval else interval.replace(" to ", "--"))


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
    data = pyarrow.table(
        [pyarrow.array(cells, pyarrow.string() if _words(cells) else None) for _, cells in columns],
        names=[heading for heading, _ in columns],
        metadata={"title": table.title, "notes": "\n".join(table.notes)},
    )
    file = io.BytesIO()
    parquet.write_table(data, file)
    return file.getvalue()


def _words(cells: Sequence[str | float | None]) -> bool:
    return not any(isinstance(cell, (int, float)) for cell in cells)


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


_GROUP = 1000
"""Rows of a Parquet file that are held at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What one arm answered to one question, in one repeat."""

    arm: str
    id: str
    repeat: int
    question: str
    gold: tuple[str, ...]
    answer: str | None
    """None where it abstained or failed."""
    status: str
    """``ok``, ``abstained`` or ``failed``."""
    correct: float | None
    """The task's first metric, 0 .. 1; None for a failed question or one without golds."""


def write_answers(results: Sequence[Results], path: Path) -> None:
    """Write what arms answered, one after the other and a row each question and repeat; whole or not at all.

    Args:
        results: The arms. Their transcripts are read one by one.
        path: ``.jsonl``, ``.csv`` (UTF-8, golds joined by `` | ``, safe for spreadsheets) or ``.parquet``.

    Raises:
        UserError: Another ending, the file cannot be written, or pyarrow is missing for Parquet.
    """
    write = {".jsonl": _answers_jsonl, ".csv": _answers_csv, ".parquet": _answers_parquet}.get(path.suffix)
    if write is None:
        raise UserError("is no kind of file for answers; expected .jsonl, .csv or .parquet", file=path)
    with replacing(path) as file:
        write((_answered(arm.name, transcript) for arm in results for transcript in arm.transcripts()), file)


def _answered(arm: str, transcript: Transcript) -> Answered:
    return Answered(
        arm=arm,
        id=transcript.id,
        repeat=transcript.repeat,
        question=transcript.question,
        gold=transcript.answers,
        answer=transcript.answer,
        status=transcript.status,
        correct=correct(transcript),
    )


def _answers_jsonl(rows: Iterator[Answered], file: IO[bytes]) -> None:
    for row in rows:
        file.write(json.dumps(asdict(row), ensure_ascii=False).encode() + b"\n")


def _answers_csv(rows: Iterator[Answered], file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    names = [field.name for field in fields(Answered)]
    writer.writerow(names)
    for row in rows:
        cells = {**asdict(row), "gold": " | ".join(row.gold)}
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in map(cells.get, names)])
    text.flush()
    text.detach()


def _answers_parquet(rows: Iterator[Answered], file: IO[bytes]) -> None:
    pyarrow, parquet = _pyarrow()
    text, number = pyarrow.string(), pyarrow.float64()
    types = {"repeat": pyarrow.int64(), "gold": pyarrow.list_(text), "correct": number}
    schema = pyarrow.schema([(field.name, types.get(field.name, text)) for field in fields(Answered)])
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, _GROUP)):
            writer.write_table(pyarrow.Table.from_pylist([asdict(row) for row in group], schema=schema))
