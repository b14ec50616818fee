"""Every answer as a line of a file, for other programs and for people: predictions out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.files import replacing
from madke.report.tables import csv_cell
from madke.runs.results import Results
from madke.scoring.rows import correct

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
    write = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}.get(path.suffix)
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


def _jsonl(rows: Iterator[Answered], file: IO[bytes]) -> None:
    for row in rows:
        file.write(json.dumps(asdict(row), ensure_ascii=False).encode() + b"\n")


def _csv(rows: Iterator[Answered], file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    names = [field.name for field in fields(Answered)]
    writer.writerow(names)
    for row in rows:
        cells = {**asdict(row), "gold": " | ".join(row.gold)}
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in map(cells.get, names)])
    text.flush()
    text.detach()


def _parquet(rows: Iterator[Answered], file: IO[bytes]) -> None:
    from itertools import islice

    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError("Parquet needs pyarrow: pip install 'madke[report]', or choose .csv or .jsonl") from None
    text, number = pyarrow.string(), pyarrow.float64()
    types = {"repeat": pyarrow.int64(), "gold": pyarrow.list_(text), "correct": number}
    schema = pyarrow.schema([(field.name, types.get(field.name, text)) for field in fields(Answered)])
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, _GROUP)):
            writer.write_table(pyarrow.Table.from_pylist([asdict(row) for row in group], schema=schema))
