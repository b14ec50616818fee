"""Tables and answers as files: CSV, Parquet, LaTeX and JSON lines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from madke._util.assets import require
from madke._util.files import atomic_write
from madke._util.parquet import REAL, TEXT, TEXTS, WHOLE, write_rows
from madke._util.terminal import printable
from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.report.debate_text import agreement_in
from madke.report.tables import NO_FIGURE, Cell, Table, one_line
from madke.scoring.arms import Results
from madke.scoring.debate_rows import correct

TABLE_FILES, ANSWER_FILES = (".csv", ".parquet", ".tex"), (".jsonl", ".csv", ".parquet")


def check_ending(path: Path, endings: Sequence[str]) -> None:
    """UserError if the file's name has none of these endings."""
    if path.suffix not in endings:
        raise UserError(f"expected a file name ending in {' or '.join(endings)}", file=path)


# The last four are full-width forms, which spreadsheets of some locales treat the same.
_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_cell(text: str) -> str:
    """Untrusted text for a spreadsheet: printable, with an apostrophe before anything that looks like a formula.

    A formula starts with ``=``, ``+``, ``-``, ``@``, a tab or a newline and is not a number (OWASP, "CSV Injection").
    """
    clean = printable(text)
    return f"'{clean}" if clean.startswith(_STARTS_FORMULA) and not _NUMBER.fullmatch(clean) else clean


# Tables


def write_table(table: Table, path: Path) -> None:
    """Write a table as ``.csv`` (UTF-8), ``.parquet`` or ``.tex``, atomically.

    UserError: another suffix, the file cannot be written, or pyarrow is missing for Parquet.
    """
    check_ending(path, TABLE_FILES)
    with atomic_write(path) as file:
        if path.suffix == ".parquet":
            _write_parquet(table, file)
        else:
            file.write((table_csv(table) if path.suffix == ".csv" else table_latex(table)).encode())


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


def _write_parquet(table: Table, file: IO[bytes]) -> None:
    require("Parquet files need", "report", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    metadata = {"title": table.title, "notes": "\n".join(table.notes)}
    parquet.write_table(pyarrow.table(dict(_columns(table)), metadata=metadata), file)


def _columns(table: Table) -> Mapping[str, Sequence[str | float | None]]:
    """All columns by heading: words, or figures followed by intervals and marks. A missing value is None."""
    found: dict[str, Sequence[str | float | None]] = {}
    for n, heading in enumerate(table.columns):
        cells: list[Cell] = [row[n] for row in table.rows]
        if all(cell.value is None for cell in cells):
            found[heading] = [None if cell == NO_FIGURE else cell.text for cell in cells]
            continue
        found[heading] = [cell.value for cell in cells]
        if any(cell.low is not None for cell in cells):
            found[f"{heading} low"] = [cell.low for cell in cells]
            found[f"{heading} high"] = [cell.high for cell in cells]
        if any(cell.mark for cell in cells):
            found[f"{heading} mark"] = [cell.mark.strip() for cell in cells]
    return found


def table_latex(table: Table) -> str:
    """The table as LaTeX for a paper that loads booktabs, with the title as caption and notes below.

    The highest share of a column is bold. Intervals are in small type below their figures. All text is escaped.
    """
    table = table.visible()
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
    escaped = _SPECIALS.sub(lambda found: _SPECIAL[found[0]], one_line(text))
    # LaTeX would read a row that starts so as an argument of the \\ before it.
    return f"{{{escaped}}}" if escaped.startswith(("[", "*")) else escaped


# Answers

_ANSWER_COLUMNS = {
    "arm": TEXT,
    "id": TEXT,
    "repeat": WHOLE,
    "question": TEXT,
    "gold": TEXTS,
    "answer": TEXT,
    "status": TEXT,
    "correct": REAL,
    "agreement": TEXT,
    "agreed_by": TEXT,
    "supporters": TEXTS,
    "dissent": TEXTS,
    "cited": TEXTS,
}


def write_answers(results: Sequence[Results], path: Path) -> None:
    """Write the answers of arms, one row per question and repeat, atomically.

    A row has ``arm``, ``id``, ``repeat``, ``question``, ``gold``, ``answer`` (none for abstained and failed questions),
    ``status`` and ``correct`` (the task's first metric; none for a failed question or one without golds). Of its end it
    has ``agreement`` (consensus, split, single), ``agreed_by``, the debaters for the answer (``supporters``) and those
    against it (``dissent``), and the passages that may be cited for it (``cited``: source and key). Formats are
    ``.jsonl``, ``.csv`` (lists joined by `` | ``, safe for spreadsheets) and ``.parquet``.
    UserError: another suffix, the file cannot be written, or pyarrow is missing for Parquet.
    """
    check_ending(path, ANSWER_FILES)
    rows = _answer_rows(results)
    with atomic_write(path) as file:
        if path.suffix == ".parquet":
            write_rows(file, _ANSWER_COLUMNS, rows)
        elif path.suffix == ".jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
        else:
            _answers_csv(rows, file)


def _answer_rows(results: Iterable[Results]) -> Iterator[dict[str, Any]]:
    for arm in results:
        for t in arm.transcripts():
            row = {"arm": arm.name, "id": t.id, "repeat": t.repeat, "question": t.question, "gold": t.answers}
            yield row | {"answer": t.answer, "status": t.status, "correct": correct(t)} | _end(t)


def _end(transcript: Transcript) -> dict[str, Any]:
    agreement = agreement_in(transcript)
    if agreement is None:
        return {"agreement": None, "agreed_by": None, "supporters": (), "dissent": (), "cited": ()}
    entries = {entry.n: f"{entry.source} {entry.key}" for entry in transcript.pool}
    supporters = [name for each in agreement.positions for name in each.supporters if name not in agreement.dissent]
    return {
        "agreement": agreement.outcome,
        "agreed_by": agreement.by,
        "supporters": tuple(supporters),
        "dissent": agreement.dissent,
        "cited": tuple(entries[n] for n in agreement.cited if n in entries),
    }


def _answers_csv(rows: Iterator[dict[str, Any]], file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(_ANSWER_COLUMNS)
    for row in rows:
        cells = (" | ".join(cell) if isinstance(cell, tuple) else cell for cell in row.values())
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    text.flush()
    text.detach()
