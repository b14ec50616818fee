"""The pools of a run: from a pool file, or built into the run directory once and frozen there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from madke.core.errors import UserError
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, Source
from madke.core.question import Question
from madke.engine.protocol import Knowledge
from madke.files import fingerprint
from madke.knowledge.pools import Found, PoolRecord, build_pools, load_pool, read_pools, sources_in

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
    """The pool of each question under one protocol's knowledge settings.

    Args:
        file: A pool file; None for a protocol without knowledge.
        knowledge: The protocol's settings.
        questions: Each must have a record in the file.

    Raises:
        UserError: The file is wrong, lacks a question, or holds nothing of a source that is asked for.
    """

    def __init__(self, file: Path | None, knowledge: Knowledge | None, questions: Sequence[Question]) -> None:
        self.sha256 = fingerprint(file) if file else None
        self.sources: Mapping[str, str] = {}
        """Chosen source -> what served it when the pools were built."""
        self._knowledge = knowledge
        self._records: Mapping[str, PoolRecord] = (
            read_pools(file, only={question.id for question in questions}) if file else {}
        )
        if file is None or knowledge is None:
            return
        for question in questions:
            record = self._records.get(question.id)
            if record is None:
                raise UserError(f"has no pool for question {question.id!r}; build it from the same data", file=file)
            if record.question != question.question:
                found = f"its pool for {question.id!r} was built for {record.question!r}, not {question.question!r}"
                raise UserError(found, file=file)
        asked = sources_in(self._records.values())
        for source in knowledge.sources:
            if source not in asked:
                raise UserError(
                    f"holds nothing from source {source!r}, only from {', '.join(sorted(asked))}", file=file
                )
        self.sources = {source: asked[source] for source in knowledge.sources}

    def of(self, question: Question) -> KnowledgePool:
        """The question's pool: chosen sources merged or fused, duplicates removed, capped and numbered."""
        if self._knowledge is None:
            return EMPTY_POOL
        return pool_of(self._records[question.id], self._knowledge)


def build_run_pools(
    file: Path,
    questions: Sequence[Question],
    knowledge: Knowledge,
    sources: Sequence[Source],
    progress: Callable[[int, int], None],
) -> dict[str, Found]:
    """Retrieve a run's own pools into ``file``, and count what each source found.

    Raises:
        UserError: A source cannot work, or the file cannot be written.
    """
    return build_pools(questions, sources, depth(knowledge), file, progress=progress)
