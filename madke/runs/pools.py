"""The pools of a run: read on demand, or built once."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from madke.core.chat import ChatModel
from madke.core.errors import UserError
from madke.core.events import Event, Listener, PoolProgress, PoolsReady, silent
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, SourceCounts
from madke.core.question import Question
from madke.engine.settings import Knowledge
from madke.models.services import AnswerScorer, answer_scoring
from madke.retrieval.pools.building import LiveSearch, depth, in_search_thread, retrieve_pools, searching
from madke.retrieval.pools.pool_file import (
    PoolLines,
    PoolRecord,
    missing_pools,
    pool_of,
    pool_records,
    sources_in,
)
from madke.runs.directory import RunDirectory
from madke.runs.record import RunRecord, question_hash, run_files
from madke.runs.spec import RunSpec


def debate_services(
    wrap: Callable[[ChatModel], ChatModel],
    live: LiveSearch | None,
    answer_scorer: AnswerScorer | None,
    knowledge: Knowledge | None,
) -> dict[str, Any]:
    """``retrieve`` and ``score_answers`` of a debate; ``wrap`` puts a service behind the call pipeline."""
    services: dict[str, Any] = {}
    if live is not None and knowledge is not None:
        services["retrieve"] = searching(wrap(live), knowledge)
    if answer_scorer is not None:
        services["score_answers"] = answer_scoring(wrap(answer_scorer))
    return services


class RunPools:
    """The pool of each question under one protocol's knowledge settings, read from the file on demand.

    Each question must have a line in the file. Lines are not checked again if the run ``known`` has the same ones.
    """

    def __init__(
        self,
        file: Path | None,
        knowledge: Knowledge | None,
        questions: Sequence[Question],
        known: RunRecord | None = None,
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


def recorded_pools(directory: Path, spec: RunRecord | None) -> Callable[[str], PoolRecord | None]:
    """From a question's id to its pool as the run's debates read it; None if the file is gone or the line has changed.

    UserError if the pool file cannot be read.
    """
    frozen = spec.pools if spec else {}
    file = run_files(directory).pools if frozen else None
    if file is None or not file.is_file():
        return lambda id_: None
    lines = PoolLines(file, frozen)
    return lambda id_: lines.record(id_) if lines.hashes.get(id_) == frozen.get(id_) else None


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
            yield record

    served = sources_in(of_questions())
    if left:
        advice = "use the same --limit, or build it from the same data"
        raise UserError(f"has no pool for question {next(iter(left))!r}; {advice}", file=file)
    for source in knowledge.sources:
        if source not in served:
            raise UserError(f"holds nothing from source {source!r}, only from {', '.join(sorted(served))}", file=file)
    return {source: served[source] for source in knowledge.sources}


_log = logging.getLogger(__name__)


async def own_pools(
    spec: RunSpec,
    directory: RunDirectory,
    tell: Listener = silent,
    *,
    replay: bool,
) -> Path:
    """The run's own pool file, after missing pools are retrieved; UserError if a source or the file fails."""
    knowledge, file = spec.protocol.knowledge, directory.path / "pools.jsonl"
    assert knowledge is not None
    if directory.begun and not file.exists():
        raise UserError("holds a run without its own pools; pass its pool file with --pools", file=directory.path)
    if replay:
        return file
    if not directory.begun:
        # Pools without a run come from one that was stopped early; their origin is unknown.
        file.unlink(missing_ok=True)
    counts: Mapping[str, SourceCounts] = {}
    with missing_pools(file, spec.questions) as (missing, more):
        if missing:
            listen = from_thread(tell)
            k, progress = depth(knowledge), partial(pool_progress, listen)
            counts = await in_search_thread(
                lambda stopped: retrieve_pools(
                    missing, spec.sources(listen), k, more, progress=progress, stopped=stopped
                )
            )
    for name, count in counts.items():
        if count.failed:
            _log.warning("source %s failed for %d of %d questions: %s", name, count.failed, count.asked, count.reason)
    if counts:
        tell(PoolsReady(found=counts))
    return file


def pool_progress(listen: Listener, done: int, total: int) -> None:
    """Send the progress of a search for pools."""
    listen(PoolProgress(done=done, total=total))


def from_thread(listen: Listener) -> Listener:
    """A listener for another thread, which passes events to ``listen`` in this event loop."""
    loop = asyncio.get_running_loop()

    def forward(event: Event) -> None:
        loop.call_soon_threadsafe(lambda: listen(event))

    return forward
