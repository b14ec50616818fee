"""The batch runner: workers over questions, every outcome written when it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from madke.concurrency import together
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.data import Given
from madke.engine.debate import debate
from madke.engine.protocol import Protocol
from madke.engine.scene import Cast, Estimate, Prompts, Retrieve
from madke.runs.directory import RunDirectory
from madke.runs.meter import Meter
from madke.tasks import get_task


async def run_batch(
    questions: Sequence[Question],
    protocol: Protocol,
    cast: Cast,
    pool_of: Callable[[Question], KnowledgePool],
    *,
    prompts: Prompts,
    directory: RunDirectory,
    meter: Meter,
    workers: int,
    repeats: int = 1,
    seed: int | None = None,
    given: Given | None = None,
    retrieve: Retrieve | None = None,
    estimate: Estimate | None = None,
) -> None:
    """Debate every question that the directory does not hold yet.

    Args:
        questions: The dataset.
        protocol: How each is debated.
        cast: A model for each role.
        pool_of: The knowledge pool of a question.
        prompts: The variant's templates.
        directory: Where transcripts go; its ``done`` questions are skipped.
        meter: Its counts of questions are updated here; those of calls by a :class:`madke.runs.meter.Metered` cast.
            When its budget is exhausted no further question begins.
        workers: Questions under way at once. At most one state per worker is in memory.
        repeats: How often each question is debated, with other samples.
        seed: The run's sampling seed.
        given: The first rounds that come from outside; None where debaters speak them.
        retrieve: Who searches where debaters may.
        estimate: The quality estimator of a protocol that needs one.

    Raises:
        UserError: The directory or the call store cannot be written any more. What had finished is in them.
    """

    def pending() -> Iterator[tuple[Question, int]]:
        for repeat in range(repeats):
            for question in questions:
                if (question.id, repeat) not in directory.done:
                    yield question, repeat

    # One iterator shared by all workers: each takes the next question when it is free.
    left = pending()

    async def work() -> None:
        for question, repeat in left:
            if meter.budget is not None and meter.budget.exhausted:
                meter.left_over += 1
                continue
            transcript = await debate(
                question,
                protocol,
                cast,
                pool_of(question),
                task=get_task(question.task),
                prompts=prompts,
                repeat=repeat,
                seed=seed,
                given=given.of(question.id, repeat) if given else (),
                retrieve=retrieve,
                estimate=estimate,
            )
            directory.write(transcript)
            meter.done += 1
            meter.failed += transcript.status == "failed"

    await together(work() for _ in range(workers))
