"""One run, from what was asked for to its transcripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from madke.core.chat import ChatModel
from madke.core.knowledge import Source
from madke.core.question import Question
from madke.data import Given
from madke.llm import CallStore, Limiter, Stored, close
from madke.runs.batch import run_batch
from madke.runs.budget import Budget
from madke.runs.cast import guarded, open_models
from madke.runs.config import RunConfig
from madke.runs.directory import RunDirectory, RunFiles, read_config
from madke.runs.meter import Meter, Metered
from madke.runs.pools import RunPools, depth
from madke.runs.services import LiveSearch, QualityEstimator, estimating, searching
from madke.variants import Variant

Watch = Callable[[Meter], AbstractAsyncContextManager[None]]
"""Shows a meter while a run goes on."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a run does: everything that can change its results."""

    data: str
    """The dataset's file name, for people."""
    data_sha256: str
    dataset: str | None = None
    """The published form that the file was read as; None for our own."""
    task: str | None = None
    sample_seed: int | None = None
    questions: Sequence[Question]
    variant: Variant
    models: Mapping[str, str]
    """Role -> model name, as ``--model`` takes it."""
    base_url: str | None = None
    source_specs: Mapping[str, str | None]
    given: Given | None = None
    estimator: str | None = None
    seed: int | None
    repeats: int = 1


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How a run is done. Nothing here changes a result."""

    concurrency: int = 16
    """Questions, and model calls, under way at once."""
    rpm: int | None = None
    tpm: int | None = None
    replay: bool = False
    retry_failed: bool = True
    calls: Path | None = None
    """The call store; None for the run's own. The arms of an experiment share one."""
    payer: str = ""
    """Names the run among those that share the store."""
    budget: Budget | None = None


def play(
    job: Job,
    directory: RunDirectory,
    pools: Callable[[], Path | None],
    effort: Effort,
    *,
    sources: Callable[[], Sequence[Source]] = tuple,
    watch: Watch = lambda meter: nullcontext(),
) -> Meter:
    """Debate every question that the directory does not hold yet.

    Args:
        job: What is debated, and how.
        directory: An entered directory; it begins here.
        pools: Finds or builds the pool file, once models are open; None without knowledge.
        effort: With how much effort.
        sources: Opens the sources that debaters search, where they may.
        watch: See :data:`Watch`.

    Returns:
        The counters; ``meter.left_over`` says how many questions the budget kept from beginning.

    Raises:
        UserError: The directory belongs to another run; a pool, a model, a source or the call store cannot be used.
    """
    knowledge = job.variant.protocol.knowledge
    # A replay makes no call, so nothing is paid.
    budget = None if effort.replay else effort.budget
    if budget is not None:
        budget.check(job.models.values())
    models = open_models(job.models, base_url=job.base_url, replay=effort.replay)
    estimator = QualityEstimator(job.estimator, replay=effort.replay) if job.estimator is not None else None
    pool_file = pools()
    run_pools = RunPools(pool_file, knowledge, job.questions)
    live = _live_search(directory, job, sources, replay=effort.replay)
    config = RunConfig(
        data=job.data,
        data_sha256=job.data_sha256,
        dataset=job.dataset,
        task=job.task,
        sample_seed=job.sample_seed,
        questions=tuple(question.id for question in job.questions),
        variant=job.variant.name,
        protocol=job.variant.protocol,
        prompts_sha256=job.variant.fingerprint(),
        models={role: model.name for role, model in models.items()},
        sources=run_pools.sources,
        source_specs=job.source_specs,
        pools_sha256=run_pools.sha256,
        searched=live.served_by if live else {},
        given_sha256=job.given.sha256 if job.given else None,
        estimator=job.estimator,
        seed=job.seed,
        repeats=job.repeats,
    )
    calls = effort.calls or directory.path / "calls.sqlite"
    directory.begin(config, RunFiles(calls=calls, pools=pool_file), retry_failed=effort.retry_failed)
    meter = Meter(total=len(job.questions) * job.repeats, resumed=len(directory.done), budget=budget)
    with CallStore(calls) as store:
        if budget is not None and not budget.spent:
            # What was paid before a kill, by this run and by those that share the store.
            for (_, model), paid in store.paid().items():
                budget.pay(model, paid.usage)

        def kept(service: ChatModel) -> ChatModel:
            return Stored(Metered(service, meter), store, replay=effort.replay, payer=effort.payer)

        batch = run_batch(
            job.questions,
            job.variant.protocol,
            guarded(
                models,
                limiter=Limiter(effort.concurrency, effort.rpm, effort.tpm),
                store=store,
                replay=effort.replay,
                meter=meter,
                payer=effort.payer,
            ),
            run_pools.of,
            prompts=job.variant,
            directory=directory,
            meter=meter,
            workers=effort.concurrency,
            repeats=job.repeats,
            seed=job.seed,
            given=job.given,
            retrieve=searching(kept(live), knowledge) if live and knowledge else None,
            estimate=estimating(kept(estimator)) if estimator else None,
        )

        async def watched() -> None:
            try:
                async with watch(meter):
                    await batch
            finally:
                for model in set(models.values()):
                    await close(model)

        asyncio.run(watched())
    return meter


def _live_search(
    directory: RunDirectory, job: Job, sources: Callable[[], Sequence[Source]], *, replay: bool
) -> LiveSearch | None:
    """Who makes the searches of debaters, where they may search.

    A replay opens no source: what they were is what its run says.
    """
    knowledge = job.variant.protocol.knowledge
    if knowledge is None or not knowledge.requery:
        return None
    opened = [] if replay else sources()
    served_by = read_config(directory.path).searched if replay else {s.name: s.description for s in opened}
    return LiveSearch(served_by, opened, depth(knowledge))
