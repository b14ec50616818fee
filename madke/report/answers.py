"""The answers of runs as one table: JSON lines, CSV or Parquet. docs/extend.md explains its columns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from madke._util.assets import require
from madke._util.files import atomic_write
from madke.core.transcript import Transcript
from madke.report.tables import check_ending, csv_cell
from madke.scoring.arms import Results
from madke.scoring.debate_rows import correct

_COUNTS = (
    "calls", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens",
)  # fmt: skip

COLUMNS = (
    "run", "id", "repeat", "dataset", "question", "task", "choices", "gold", "answer", "status", "reading", "correct",
    "agreement", "agreed_by", "supporters", "dissent", "cited", "stop_reason", "final_by", "rounds", *_COUNTS,
    "seconds",
)  # fmt: skip
_TYPES = {
    **dict.fromkeys(("choices", "gold", "supporters", "dissent", "cited"), "texts"),
    **dict.fromkeys(("repeat", "rounds", *_COUNTS), "int64"),
    **dict.fromkeys(("correct", "seconds"), "float64"),
}
"""Column -> type in Parquet, if it is not text."""

ANSWER_FILES = (".jsonl", ".csv", ".parquet")


def write_answers(results: Iterable[Results], path: Path) -> int:
    """Write the answers of runs, one row per question and repeat, atomically; returns their number.

    In ``.csv`` files, lists are joined by `` | ``, and text is safe for spreadsheets.
    UserError: another suffix, the file cannot be written, or pyarrow is missing for Parquet.
    """
    check_ending(path, ANSWER_FILES)
    rows = [row for arm in results for row in answer_rows(arm)]
    with atomic_write(path) as file:
        if path.suffix == ".parquet":
            _write_parquet(rows, file)
        elif path.suffix == ".jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
        else:
            _write_csv(rows, file)
    return len(rows)


def answer_rows(arm: Results) -> Iterator[dict[str, Any]]:
    """A row for each question and repeat of a run.

    ``correct`` is the task's first metric; None for a failed question or one without gold answers. ``supporters`` are
    the debaters for the answer, ``cited`` the passages that may be cited for it (source and key).
    """
    for t in arm.transcripts():
        row = {"run": arm.name, "id": t.id, "repeat": t.repeat, "dataset": t.dataset, "question": t.question}
        row |= {"task": t.task, "choices": t.choices, "gold": t.answers, "answer": t.answer, "status": t.status}
        row |= {"reading": t.reading, "correct": correct(t), **_end(t), "stop_reason": t.stop_reason}
        row |= {"final_by": t.final.by, "rounds": len(t.rounds)}
        yield row | {name: getattr(t.total, name) for name in (*_COUNTS, "seconds")}


def _end(transcript: Transcript) -> dict[str, Any]:
    agreement = transcript.agreement
    if agreement is None:
        return {"agreement": None, "agreed_by": None, "supporters": (), "dissent": (), "cited": ()}
    entries = {entry.n: f"{entry.source} {entry.key}" for entry in transcript.pool}
    supporters = (name for each in agreement.positions for name in each.supporters)
    return {
        "agreement": agreement.outcome,
        "agreed_by": agreement.by,
        "supporters": tuple(name for name in supporters if name not in agreement.dissent),
        "dissent": agreement.dissent,
        "cited": tuple(entries[n] for n in agreement.cited if n in entries),
    }


def _write_parquet(rows: Sequence[dict[str, Any]], file: IO[bytes]) -> None:
    require("Parquet files need", "report", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    types = {"texts": pyarrow.list_(pyarrow.string())}
    schema = [(name, types.get(kind := _TYPES.get(name, "string"), kind)) for name in COLUMNS]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(schema)), file)


def _write_csv(rows: Sequence[dict[str, Any]], file: IO[bytes]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        cells = (" | ".join(cell) if isinstance(cell, tuple) else cell for cell in row.values())
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    file.write(text.getvalue().encode())
