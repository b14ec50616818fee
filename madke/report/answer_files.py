"""Files of all answers: JSON lines, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from madke._util.files import atomic_write
from madke.core.transcript import Transcript
from madke.report.debate_text import agreement_in
from madke.report.tables import ANSWER_FILES, arrow, check_ending, csv_cell
from madke.scoring.arms import Results
from madke.scoring.debate_rows import correct

_AnswerRow = dict[str, Any]
_ANSWER_COLUMNS = (
    "arm", "id", "repeat", "question", "gold", "answer", "status", "correct", "agreement", "agreed_by", "supporters",
    "dissent", "cited",
)  # fmt: skip
_LISTS = ("gold", "supporters", "dissent", "cited")


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
    write = {".jsonl": _answers_jsonl, ".csv": _answers_csv, ".parquet": _answers_parquet}[path.suffix]
    with atomic_write(path) as file:
        write(_answer_rows(results), file)


def _answer_rows(results: Iterable[Results]) -> Iterator[_AnswerRow]:
    for arm in results:
        for t in arm.transcripts():
            row = {"arm": arm.name, "id": t.id, "repeat": t.repeat, "question": t.question, "gold": t.answers}
            yield row | {"answer": t.answer, "status": t.status, "correct": correct(t)} | _end(t)


def _end(transcript: Transcript) -> _AnswerRow:
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


def _answers_jsonl(rows: Iterator[_AnswerRow], file: IO[bytes]) -> None:
    file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def _answers_csv(rows: Iterator[_AnswerRow], file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(_ANSWER_COLUMNS)
    for row in rows:
        cells = (row | {name: " | ".join(row[name]) for name in _LISTS}).values()
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    text.flush()
    text.detach()


def _answers_parquet(rows: Iterator[_AnswerRow], file: IO[bytes]) -> None:
    pyarrow, parquet = arrow()
    text = pyarrow.string()
    types = dict.fromkeys(_ANSWER_COLUMNS, text)
    types |= {
        "repeat": pyarrow.int64(),
        **dict.fromkeys(_LISTS, pyarrow.list_(text)),
        "correct": pyarrow.float64(),
    }
    schema = pyarrow.schema(types)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, 1000)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
