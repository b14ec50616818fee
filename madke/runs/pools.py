"""The pools of a run: from a pool file, or built into the run directory once and frozen there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from madke.core.errors import UserError
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, Source
from madke.core.question import Question
from madke.engine.protocol import Knowledge
from madke.files import fingerprint
from madke.knowledge.pool_file import PoolLines, PoolRecord, pool_records, sources_in
from madke.knowledge.pools import SourceCounts, build_pools, load_pool
from madke.runs.config import RunConfig

RETRIEVED = 10
"""Passages that are asked of each source (or ``per_source``, if that is more): spares for removed duplicates."""


def depth(knowledge: Knowledge) -> int:
    """How many passages each source is asked for."""
    return max([RETRIEVED, *(knowledge.count(source) for source in knowledge.sources)])


def pool_of(record: PoolRecord, knowledge: Knowledge, *, sources: Sequence[str] | None = None) -> KnowledgePool:
    """The pool of one question under a protocol's settings; of these ``sources`` alone where they are given."""
    return load_pool(
        record,
        sources=knowledge.sources if sources is None else sources,
        per_source=knowledge.per_source,
        fusion=knowledge.fusion,
        weights=knowledge.weights,
        most=knowledge.most,
    )


class RunPools:
    """The pool of each question under one protocol's knowledge settings, read from the file when it is asked for.

    Args:
        file: A pool file; None for a protocol without knowledge.
        knowledge: The protocol's settings.
        questions: Each must have a record in the file.
        known: The configuration of a run of the same questions: where its pool file had the same bytes, they are not
            checked again.

    Raises:
        UserError: The file is wrong, lacks a question, or holds nothing of a source that is asked for.
    """

    def __init__(
        self,
        file: Path | None,
        knowledge: Knowledge | None,
        questions: Sequence[Question],
        known: RunConfig | None = None,
    ) -> None:
        self._state = _state(file)
        self.sha256 = fingerprint(file) if file else None
        self.sources: Mapping[str, str] = {}
        """Chosen source -> what served it when the pools were built."""
        self._file = file
        self._knowledge = knowledge
        self._questions = questions
        self._starts: Mapping[str, int] | None = None
        self._lines: PoolLines | None = None
        if file is None or knowledge is None:
            return
        if known is not None and known.pools_sha256 == self.sha256 and set(known.sources) == set(knowledge.sources):
            self.sources = known.sources
        else:
            self.sources, self._starts = _checked(file, knowledge, questions)

    def of(self, question: Question) -> KnowledgePool:
        """The question's pool: chosen sources merged or fused, duplicates removed, capped and numbered."""
        if self._file is None or self._knowledge is None:
            return EMPTY_POOL
        if self._lines is None:
            self._lines = PoolLines(self._file, {question.id for question in self._questions}, self._starts)
        record = self._lines[question.id]
        self.check()
        return pool_of(record, self._knowledge)

    def check(self) -> None:
        """Check that the file still is what it was; it is read again only where it may have changed.

        Raises:
            UserError: It was replaced or changed. No pool was read from the new file.
        """
        if self._file is None or (state := _state(self._file)) == self._state:
            return
        if fingerprint(self._file) != self.sha256:
            raise UserError(
                f"was replaced or changed while this run read it. All debates so far used the file with SHA-256 "
                f"{self.sha256}; put it back and give the same command again, or choose another --out",
                file=self._file,
            )
        self._state = state


def _state(file: Path | None) -> tuple[int, ...] | None:
    """What changes with the content of a file, or when it is replaced."""
    try:
        found = file.stat() if file else None
    except OSError:
        return None
    return found and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _checked(file: Path, knowledge: Knowledge, questions: Sequence[Question]) -> tuple[dict[str, str], dict[str, int]]:
    """Chosen source -> what served it, and question id -> where its line begins; all lines are looked at."""
    left = {question.id: question.question for question in questions}
    starts: dict[str, int] = {}

    def of_questions() -> Iterator[PoolRecord]:
        for start, record in pool_records(file):
            question = left.pop(record.id, None)
            if question is None:
                continue
            if record.question != question:
                found = f"its pool for {record.id!r} was built for {record.question!r}, not {question!r}"
                raise UserError(found, file=file)
            starts[record.id] = start
            yield record

    asked = sources_in(of_questions())
    if left:
        raise UserError(f"has no pool for question {next(iter(left))!r}; build it from the same data", file=file)
    for source in knowledge.sources:
        if source not in asked:
            raise UserError(f"holds nothing from source {source!r}, only from {', '.join(sorted(asked))}", file=file)
    return {source: asked[source] for source in knowledge.sources}, starts


def build_run_pools(
    file: Path,
    questions: Sequence[Question],
    knowledge: Knowledge,
    sources: Sequence[Source],
    progress: Callable[[int, int], None],
) -> dict[str, SourceCounts]:
    """Retrieve a run's own pools into ``file``, and count what each source found.

    Raises:
        UserError: A source cannot work, or the file cannot be written.
    """
    return build_pools(questions, sources, depth(knowledge), file, progress=progress)
