"""Several pool files as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.files import replacing
from madke.knowledge.pools import PoolRecord, read_pools, record_to_json, sources_in


def merge_pools(files: Sequence[Path], questions: Sequence[Question], out: Path) -> None:
    """Write a pool file with everything that several files hold for some questions, whole or not at all.

    Args:
        files: The pool files, at least one. A source may stand in one of them only.
        questions: Each must stand in every file, with the same text.
        out: The file to write.

    Raises:
        UserError: A file is wrong or lacks a question, two hold the same source, or ``out`` cannot be written.
    """
    asked = {question.id for question in questions}
    held = [read_pools(file, only=asked) for file in files]
    holder: dict[str, Path] = {}
    for file, records in zip(files, held, strict=True):
        for source in sources_in(records.values()):
            if source in holder:
                raise UserError(f"holds source {source!r}, and so does {holder[source]}; leave out one", file=file)
            holder[source] = file
    with replacing(out) as merged:
        for question in questions:
            parts = []
            for file, records in zip(files, held, strict=True):
                record = records.get(question.id)
                if record is None or record.question != question.question:
                    raise UserError(f"has no pool for question {question.id!r}, or for another text of it", file=file)
                parts.append(record)
            merged.write(record_to_json(_merged(parts)) + b"\n")


def _merged(parts: Sequence[PoolRecord]) -> PoolRecord:
    return PoolRecord(
        id=parts[0].id,
        question=parts[0].question,
        passages=tuple(passage for part in parts for passage in part.passages),
        partial={source: reason for part in parts for source, reason in part.partial.items()},
        sources={source: served_by for part in parts for source, served_by in part.sources.items()},
    )
