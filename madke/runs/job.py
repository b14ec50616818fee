"""One run, from what was asked for to its transcripts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from madke.core.chat import ChatModel
from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.data import Given
from madke.engine.debate import debate
from madke.llm import CallStore, Limited, Limiter, Stored, close
from madke.llm.limiter import SLOW_START
from madke.runs.batch import Play, run_batch
from madke.runs.budget import Budget
from madke.runs.cast import guarded, has_endpoint, open_models
from madke.runs.config import RunConfig
from madke.runs.directory import RunDirectory
from madke.runs.meter import HOPELESS, Meter, Metered
from madke.runs.pools import RunPools, depth
from madke.runs.run_json import RunFiles, read_config, tokens_of_sessions
from madke.runs.services import LiveSearch, QualityEstimator, estimating, searching
from madke.runs.stopping import drained, until_stopped
from madke.runs.transcripts import FAILED_AGAIN, Again
from madke.tasks import get_task
from madke.variants import Variant
from madke.workers import Engine

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


def configured(
    variant: Variant, specs: Mapping[str, str | None], fields: Mapping[str, Any], *, given: bool = False
) -> tuple[Variant, dict[str, str | None]]:
    """A variant over these sources, with fields of its protocol set; and the sources that this leaves.

    Args:
        variant: As it was loaded.
        specs: Source name -> specification.
        fields: For :meth:`madke.variants.Variant.with_settings`; they may name other sources.
        given: The first round comes from outside.

    Raises:
        UserError: The protocol cannot be so.
    """
    variant = variant.with_sources(list(specs)).with_settings({**fields, "given": True} if given else fields)
    return variant, {name: specs.get(name) for name in variant.protocol.sources}


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How a run is done. Nothing here changes a result."""

    concurrency: int = 16
    """Questions, and model calls, under way at once."""
    rpm: int | None = None
    tpm: int | None = None
    replay: bool = False
    again: Again = FAILED_AGAIN
    """Which questions with an outcome are debated again."""
    calls: Path | None = None
    """The call store; None for the run's own. The arms of an experiment share one."""
    payer: str = ""
    """Names the run among those that share the store."""
    budget: Budget | None = None
    engine: Engine = "local"
    """Where models are asked: from this process, or from the nodes of a Ray cluster."""
    address: str | None = None
    """The cluster's, see :func:`madke.workers.open_workers`."""
    deadline: float | None = None
    """Until when calls begin, in seconds of :func:`time.monotonic`; None: until all is done."""


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
        The counters; ``meter.stopped`` says what ended the run early, ``meter.left_over`` how many questions have no
        outcome for that.

    Raises:
        UserError: The directory belongs to another run; a pool, a model, a source or the call store cannot be used.
        Interrupted: A signal stopped the run; all that had ended is kept.
    """
    started = datetime.now(UTC)
    pending = directory.pending(job.questions, job.repeats, again=effort.again)
    # A replay makes no call, nor does a run that has nothing left to do: no weights are loaded, no key is needed.
    named_only = effort.replay or not pending
    budget = None if effort.replay else effort.budget
    if budget is not None:
        budget.check(job.models.values())
    with _models(job, effort, named_only=named_only) as models:
        estimator = QualityEstimator(job.estimator, replay=named_only) if job.estimator is not None else None
        pool_file = pools()
        live = _live_search(directory, job, sources, replay=effort.replay)
        run_pools = RunPools(pool_file, job.variant.protocol.knowledge, job.questions, _known(directory, job))
        files = RunFiles(calls=effort.calls or directory.path / "calls.sqlite", pools=pool_file)
        directory.begin(_config(job, models, run_pools, live), files)
        # What runs on this machine is nobody else's: there is nothing to find out by a slow start.
        start = SLOW_START if any(map(has_endpoint, job.models.values())) else effort.concurrency
        limiter = Limiter(effort.concurrency, effort.rpm, effort.tpm, start=start)
        # Searches and estimates are no model calls, but a run that stops waits for them too.
        services = Limiter(effort.concurrency, start=effort.concurrency)
        meter = Meter(
            total=len(job.questions) * job.repeats,
            budget=budget,
            limiter=limiter,
            hopeless=max(HOPELESS, 2 * effort.concurrency),
        )
        with CallStore(files.calls) as store:
            if budget is not None and pending and not budget.tokens:
                _catch_up(budget, store, directory)
            # Where a limit is reached before anything begins, no outcome is given up for one that will not come.
            again = Again(failed=False) if meter.stopped else effort.again
            if meter.stopped:
                pending = directory.pending(job.questions, job.repeats, again=again)
            directory.resume(again=again)
            meter.resumed = len(directory.done)
            calls = _Calls(effort=effort, store=store, meter=meter, limiter=limiter, services=services)
            debated = _player(job, calls, models, run_pools, live, estimator, directory)
            drain = partial(drained, limiter, services)

            async def played() -> None:
                batch = run_batch(
                    pending,
                    debated,
                    directory=directory,
                    meter=meter,
                    workers=effort.concurrency,
                    drain=partial(drain, told=False),
                )
                seconds = None if effort.deadline is None else effort.deadline - time.monotonic()
                try:
                    async with watch(meter):
                        if not await until_stopped(batch, drain, seconds=seconds):
                            meter.ended = meter.ended or "--deadline"
                finally:
                    for model in set(models.values()):
                        await close(model)

            try:
                asyncio.run(played())
                run_pools.check()
            except BaseException as error:
                meter.ended = "interrupted" if isinstance(error, KeyboardInterrupt) else "an error"
                with suppress(UserError):  # the disk is full, say: what happened first is what counts
                    _end(directory, meter, started, pending)
                raise
            _end(directory, meter, started, pending)
    return meter


@contextmanager
def _models(job: Job, effort: Effort, *, named_only: bool) -> Iterator[Mapping[str, ChatModel]]:
    """Who plays which role, here or on the nodes of a cluster."""
    if effort.engine == "ray" and not named_only:
        from madke.runs.ray_cast import ray_models

        with ray_models(
            job.models, base_url=job.base_url, address=effort.address, concurrency=effort.concurrency
        ) as models:
            yield models
    else:
        yield open_models(job.models, base_url=job.base_url, replay=named_only)


def _catch_up(budget: Budget, store: CallStore, directory: RunDirectory) -> None:
    """Count what was paid before a kill, by this run and by those that share the store."""
    for (_, model), paid in store.paid().items():
        budget.pay(model, paid.usage)
    # A store may have lost calls; what commands counted is not less for that.
    budget.tokens = max(budget.tokens, tokens_of_sessions(directory.path))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Calls:
    """What stands around every call of a run: the store, the meter, retries and the limiters."""

    effort: Effort
    store: CallStore
    meter: Meter
    limiter: Limiter
    """Of model calls."""
    services: Limiter
    """Of searches and estimates."""

    def cast(self, models: Mapping[str, ChatModel]) -> dict[str, ChatModel]:
        """Role -> model, guarded."""
        return guarded(
            models,
            limiter=self.limiter,
            store=self.store,
            replay=self.effort.replay,
            meter=self.meter,
            payer=self.effort.payer,
        )

    def service(self, service: ChatModel) -> ChatModel:
        """A search or an estimator, guarded."""
        metered = Metered(Limited(service, self.services), self.meter, service=True)
        return Stored(metered, self.store, replay=self.effort.replay, payer=self.effort.payer)


def _player(
    job: Job,
    calls: _Calls,
    models: Mapping[str, ChatModel],
    pools: RunPools,
    live: LiveSearch | None,
    estimator: QualityEstimator | None,
    directory: RunDirectory,
) -> Play:
    """Debates one question."""
    knowledge = job.variant.protocol.knowledge
    cast = calls.cast(models)
    retrieve = searching(calls.service(live), knowledge) if live and knowledge else None
    estimate = estimating(calls.service(estimator)) if estimator else None

    async def debated(question: Question, repeat: int) -> Transcript:
        directory.check_lock()
        return await debate(
            question,
            job.variant.protocol,
            cast,
            pools.of(question),
            task=get_task(question.task),
            prompts=job.variant,
            repeat=repeat,
            seed=job.seed,
            given=job.given.of(question.id, repeat) if job.given else (),
            retrieve=retrieve,
            estimate=estimate,
        )

    return debated


def _end(directory: RunDirectory, meter: Meter, started: datetime, pending: Sequence[tuple[Question, int]]) -> None:
    left = [(question.id, repeat) for question, repeat in pending if (question.id, repeat) not in directory.done]
    meter.left_over = len(left)
    if meter.calls or meter.done or left:
        directory.end(meter.session(started), left)


def _known(directory: RunDirectory, job: Job) -> RunConfig | None:
    """What the directory holds, if that is a run of the same questions."""
    known = read_config(directory.path) if directory.begun else None
    return known if known is not None and known.data_sha256 == job.data_sha256 else None


def _config(job: Job, models: Mapping[str, ChatModel], run_pools: RunPools, live: LiveSearch | None) -> RunConfig:
    return RunConfig(
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
