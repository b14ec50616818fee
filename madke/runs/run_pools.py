"""The pools of a run: read from a pool file, or built once in the run directory and frozen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import from_json

from madke._util.files import atomic_write, numbered_lines, opened
from madke.core.errors import UserError
from madke.core.events import Event, Listener, PoolProgress, PoolsReady, silent
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, SourceCounts
from madke.core.question import Question
from madke.engine.protocol import Knowledge
from madke.pools.building import build_pools, depth
from madke.pools.loading import pool_of
from madke.pools.pool_file import PoolRecord, pool_records, record_from_json, sources_in
from madke.runs.spec import RunSpec, question_hash, short_hash

if TYPE_CHECKING:
    from madke.runs.directory import RunDirectory
    from madke.runs.job import Job

_log = logging.getLogger(__name__)

MORE = "pools.more.jsonl"
"""Temporary file for pools that are being built."""


class RunPools:
    """The pool of each question under one protocol's knowledge settings, read from the file on demand.

    Each question must have a line in the file. Lines are not checked again if the run ``known`` has the same ones.
    """

    def __init__(
        self,
        file: Path | None,
        knowledge: Knowledge | None,
        questions: Sequence[Question],
        known: RunSpec | None = None,
    ) -> None:
        self.sources: Mapping[str, str] = {}
        """Source in use -> its description when the pools were built."""
        self.hashes: Mapping[str, str] = {}
        """Question id -> hash of its line."""
        self._file = file
        self._knowledge = knowledge
        if file is None or knowledge is None:
            return
        self._lines = PoolLines(file, {question.id for question in questions})
        self.hashes = self._lines.hashes
        if (
            known is not None
            and all(known.questions.get(q.id) == question_hash(q) for q in questions)
            and all(known.pools.get(id_) == found for id_, found in self.hashes.items())
            and len(self.hashes) == len(questions)
            and set(known.sources) == set(knowledge.sources)
        ):
            self.sources = known.sources
        else:
            self.sources = _checked(file, knowledge, questions)

    def of(self, question: Question) -> KnowledgePool:
        """The question's numbered pool; UserError if its line in the file has changed since the run began."""
        if self._file is None or self._knowledge is None:
            return EMPTY_POOL
        record = self._lines.record(question.id)
        if record is None:
            why = "was replaced or changed during the run, and no debate used the new version"
            todo = "restore the old version and run the same command again, or choose another --out"
            raise UserError(f"{why}; {todo}", file=self._file)
        return pool_of(record, self._knowledge)


class PoolLines:
    """The lines of a pool file for some questions or all, read on demand; UserError if the file cannot be read."""

    def __init__(self, file: Path, ids: Container[str] | None = None) -> None:
        self._file = file
        lines = lines_of(file, ids)
        self._unpacked: bytes | None = None
        if file.suffix == ".gz":  # it has no random access
            with opened(file) as whole:
                self._unpacked = whole.read()
        self.hashes = {id_: found for id_, (found, _) in lines.items()}
        """Question id -> hash of its line."""
        self._starts = {id_: start for id_, (_, start) in lines.items()}

    def record(self, id_: str) -> PoolRecord | None:
        """The record of a question; None if the file has none, or if its line has changed since."""
        if id_ not in self._starts:
            return None
        try:
            with self._file.open("rb") if self._unpacked is None else BytesIO(self._unpacked) as lines:
                lines.seek(self._starts[id_])
                line = lines.readline()
        except OSError:
            return None
        return record_from_json(line) if short_hash(line.strip()) == self.hashes[id_] else None

    def append(self, id_: str, line: bytes) -> None:
        """Add the line of a question to the file."""
        with self._file.open("ab") as file:
            self._starts[id_], self.hashes[id_] = file.tell(), short_hash(line)
            file.write(line + b"\n")


def lines_of(file: Path, ids: Container[str] | None) -> dict[str, tuple[str, int]]:
    """Question id -> hash and offset of its line in a pool file, for these questions or all, if it is readable."""
    found = {}
    start = 0
    for _, line in numbered_lines(file):
        with suppress(ValueError, TypeError, KeyError):
            id_ = str(from_json(line)["id"])
            if ids is None or id_ in ids:
                found[id_] = (short_hash(line.strip()), start)
        start += len(line)
    return found


def _checked(file: Path, knowledge: Knowledge, questions: Sequence[Question]) -> dict[str, str]:
    """Check all lines; returns source in use -> its description."""
    left = {question.id: question.question for question in questions}

    def of_questions() -> Iterator[PoolRecord]:
        for _, record in pool_records(file):
            question = left.pop(record.id, None)
            if question is None:
                continue
            if record.question != question:
                why = f"its pool for {record.id!r} was built for {record.question!r}, not {question!r}"
                raise UserError(why, file=file)
            if knowledge.staged:
                try:
                    pool_of(record, knowledge)
                except UserError as error:
                    raise UserError(str(error), file=file) from None
            yield record

    served = sources_in(of_questions())
    if left:
        advice = "use the same --limit, or build it from the same data"
        raise UserError(f"has no pool for question {next(iter(left))!r}; {advice}", file=file)
    for source in knowledge.sources:
        if source not in served:
            raise UserError(f"holds nothing from source {source!r}, only from {', '.join(sorted(served))}", file=file)
    return {source: served[source] for source in knowledge.sources}


async def own_pools(
    job: Job,
    directory: RunDirectory,
    tell: Listener = silent,
    *,
    replay: bool,
    stage: Callable[[Path], Awaitable[None]] | None = None,
) -> Path:
    """The run's own pool file, after missing pools are retrieved; UserError if a source or the file fails.

    ``stage`` adds query stages and rerankings to a file of pools.
    """
    knowledge, file = job.protocol.knowledge, directory.path / "pools.jsonl"
    assert knowledge is not None
    if directory.begun and not file.exists():
        raise UserError("holds a run without its own pools; pass its pool file with --pools", file=directory.path)
    if replay:
        return file
    if not directory.begun:
        # Pools without a run come from one that was stopped early; their origin is unknown.
        file.unlink(missing_ok=True)
    counts: Mapping[str, SourceCounts] = {}
    with missing_pools(file, job.questions) as (missing, more):
        if missing:
            listen = from_thread(tell)
            k, progress = depth(knowledge), partial(pool_progress, listen)
            counts = await asyncio.to_thread(
                lambda: build_pools(missing, job.sources(listen), k, more, progress=progress)
            )
            if stage is not None:
                await stage(more)
    for name, count in counts.items():
        if count.failed:
            _log.warning("source %s failed for %d of %d questions: %s", name, count.failed, count.asked, count.reason)
    if counts:
        tell(PoolsReady(found=counts))
    return file


@contextmanager
def missing_pools(file: Path, questions: Sequence[Question]) -> Iterator[tuple[list[Question], Path]]:
    """The questions that a pool file lacks, and where to write their pools; the file gets them after the block."""
    held = lines_of(file, None) if file.exists() else {}
    missing, more = [question for question in questions if question.id not in held], file.with_name(MORE)
    yield missing, more
    if missing:
        with atomic_write(file) as whole:
            whole.write(file.read_bytes() if file.exists() else b"")
            whole.write(more.read_bytes())
        more.unlink()


def pool_progress(listen: Listener, done: int, total: int) -> None:
    """Send the progress of a search for pools."""
    listen(PoolProgress(done=done, total=total))


def from_thread(listen: Listener) -> Listener:
    """A listener for another thread, which passes events to ``listen`` in this event loop."""
    loop = asyncio.get_running_loop()

    def forward(event: Event) -> None:
        loop.call_soon_threadsafe(lambda: listen(event))

    return forward
