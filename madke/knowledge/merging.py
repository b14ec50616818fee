"""Several pool files as one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.files import replacing
from madke.knowledge.pool_file import PoolRecord, read_pools, record_to_json, sources_in

_NAMED = 3
"""How many questions without a pool a message names."""


def merge_pools(
    files: Sequence[Path], questions: Sequence[Question], out: Path, *, sources: Collection[str] = ()
) -> None:
    """Write a pool file with everything that several files hold for some questions, whole or not at all.

    A file may hold the pools of some of the questions only, those of one dataset for instance. A question has the
    records of its id and its text; a question ``NAME/ID`` (two datasets have an ``ID``) also those of ``ID`` and its
    text.

    Args:
        files: The pool files, at least one. Two may hold the same source, but not for the same question.
        questions: Each must stand in one of them.
        out: The file to write.
        sources: Those that must have been asked for each question, whatever they found.

    Raises:
        UserError: A file is wrong, two hold the same source for a question, a question has no pool or lacks a source,
            or ``out`` cannot be written.
    """
    ids = {id_ for question in questions for id_ in _ids(question)}
    held = [read_pools(file, only=ids) for file in files]
    # Files written by hand may leave out what was asked and found nothing.
    of_file = [sources_in(records.values()) for records in held]
    merged: list[PoolRecord] = []
    lacking: dict[str, list[str]] = {}
    for question in questions:
        parts: list[PoolRecord] = []
        holder: dict[str, Path] = {}
        for file, records, all_sources in zip(files, held, of_file, strict=True):
            if (record := _record_of(question, records)) is None:
                continue
            parts.append(record)
            for source in sources_in([record]) if record.sources else all_sources:
                if source in holder:
                    found = f"holds source {source!r} for question {question.id!r}, and so does {holder[source]}"
                    raise UserError(f"{found}; leave out one", file=file)
                holder[source] = file
        for source in sources if parts else [""]:
            if source not in holder:
                lacking.setdefault(source, []).append(question.id)
        merged.append(_merged(question, parts))
    for source, without in lacking.items():
        raise _refusal(source, without, files)
    with replacing(out) as file_out:
        file_out.writelines(record_to_json(record) + b"\n" for record in merged)


def _ids(question: Question) -> tuple[str, str]:
    """Under which ids a pool of the question may stand."""
    return question.id, question.id.partition("/")[2]


def _record_of(question: Question, records: Mapping[str, PoolRecord]) -> PoolRecord | None:
    found = (records.get(id_) for id_ in _ids(question))
    return next((record for record in found if record is not None and record.question == question.question), None)


def _merged(question: Question, parts: Sequence[PoolRecord]) -> PoolRecord:
    return PoolRecord(
        id=question.id,
        question=question.question,
        passages=tuple(passage for part in parts for passage in part.passages),
        partial={source: reason for part in parts for source, reason in part.partial.items()},
        sources={source: served_by for part in parts for source, served_by in part.sources.items()},
    )


def _refusal(source: str, without: Sequence[str], files: Sequence[Path]) -> UserError:
    named = ", ".join(map(repr, without[:_NAMED])) + (", ..." if len(without) > _NAMED else "")
    what = f"nothing of source {source!r}" if source else "no pool, or one of another text only,"
    return UserError(
        f"the pool files ({', '.join(map(str, files))}) hold {what} for {len(without)} questions: {named}; "
        "build pools from the same data"
    )
