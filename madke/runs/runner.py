"""The batch runner: a spec and a directory, from the first pool to the last transcript."""

import asyncio
import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from madke.core.chat import ChatModel
from madke.core.errors import UserError
from madke.core.events import Listener, PoolReady, never_raising, silent
from madke.core.question import Question
from madke.engine.debate import hold_debate
from madke.models.batches import MOST_AT_ONCE, in_batches
from madke.models.limiter import Limits, allow_connections
from madke.models.pipeline import CallPipeline
from madke.models.services import AnswerScorer
from madke.models.store import CallStore
from madke.retrieval.pools.building import LiveSearch, depth
from madke.runs.directory import RunDirectory
from madke.runs.meter import MAX_FAILED_IN_A_ROW, Account, Meter, account
from madke.runs.pools import RunPools, debate_services, own_pools
from madke.runs.record import RunFiles, RunRecord, read_run, tokens_of_sessions
from madke.runs.request import RunOptions
from madke.runs.spec import RunSpec
from madke.runs.stopping import drained, until_limit, until_stopped

COLLECTING = (20_000, 20, 20)
"""Thresholds of the garbage collector: debates leave few cycles, and collecting takes a tenth of a run."""


async def execute(
    spec: RunSpec,
    path: Path,
    options: RunOptions,
    *,
    shared: Account | None = None,
    listen: Listener | None = None,
    signals: bool = False,
) -> Meter:
    """Debate the questions of a run that are not finished yet. ``path``: the run directory.

    Without a pool file the run builds its own. ``shared``: the account of several runs. With ``signals``, SIGINT,
    SIGTERM and SIGHUP raise :class:`madke.runs.stopping.Interrupted`, without losing a call.

    Returns:
        The counters. ``meter.stopped`` says why the run ended early; ``meter.left_over`` is the number of questions
        that have no outcome as a result.
    """
    with RunDirectory(path, replay=options.replay) as directory:
        return await _execute(spec, directory, options, shared, listen, signals=signals)


async def _execute(
    spec: RunSpec,
    directory: RunDirectory,
    options: RunOptions,
    shared: Account | None,
    listen: Listener | None,
    *,
    signals: bool,
) -> Meter:
    tell = never_raising(listen or silent)
    allow_connections(options.concurrency)
    own = shared or account(options)
    calls = own.calls or directory.path / "calls.sqlite"
    knowledge, repeats = spec.protocol.knowledge, spec.record.repeats
    pending = directory.pending(spec.questions, repeats, options)
    # A replay and a finished run need no weights and no keys.
    no_calls = options.replay or not pending
    if not options.replay:
        own.budget.check(spec.record.models.values())
    with _models(spec, options, no_calls=no_calls) as models, ExitStack() as opened:
        if "human" in spec.record.models.values():
            options = replace(options, concurrency=1)  # a person follows one debate at a time
        answer_scorer = AnswerScorer(spec.record.answer_scorer, replay=no_calls) if spec.record.answer_scorer else None
        pools = None if knowledge is None else spec.pools
        if knowledge is not None and pools is None:
            pools = await own_pools(spec, directory, tell, replay=options.replay)
        before = read_run(directory.path) if directory.begun else None
        found = RunPools(pools, knowledge, spec.questions, before)
        live = live_search(spec, before, tell, replay=options.replay)
        record = spec.record.model_copy(
            update={
                "models": {role: model.name for role, model in models.items()},
                "sources": found.sources,
                "pools": found.hashes,
                "searched": live.served_by if live else {},
            }
        )
        directory.begin(record, models.values(), RunFiles(calls=calls, pools=pools), work=bool(pending))
        asked = models
        if options.batch is not None and not no_calls:
            # All questions start at once, so that a wave is one batch.
            asked = in_batches(models, options.batch, directory.path, own.budget.allow_batch)
            options = replace(options, concurrency=MOST_AT_ONCE)
        store, limits = opened.enter_context(CallStore(calls)), Limits(options.concurrency)
        meter = Meter(
            total=len(spec.questions) * repeats,
            budget=None if options.replay else own.budget,
            limits=limits,
            max_failed=max(MAX_FAILED_IN_A_ROW, 2 * options.concurrency),
        )
        pipeline = CallPipeline(
            limits=limits,
            meter=meter,
            store=store,
            replay=options.replay,
            payer=own.payer,
            note_model=directory.note_model,
        )
        cast = {role: pipeline.model(model) for role, model in asked.items()}
        services = debate_services(pipeline.service, live, answer_scorer, knowledge)

        async def debate(pair: tuple[Question, int]) -> None:
            question, repeat = pair
            directory.check_lock()
            pool = found.of(question)
            tell(PoolReady(question=question.id, repeat=repeat, pool=pool))
            transcript = await hold_debate(spec.scene(question, cast, pool, repeat=repeat, listen=tell, **services))
            if directory.write(transcript):
                meter.done += 1
                meter.failed += transcript.status == "failed"

        if meter.budget is not None and pending:
            meter.budget.catch_up(store, tokens_of_sessions(directory.path))
        if meter.stopped:
            # A limit is reached before the start, so a retried question would lose its outcome.
            pending = directory.pending(spec.questions, repeats, options, retry=False)
        directory.resume(options, retry=not meter.stopped)
        meter.resumed = len(directory.done)
        drain = partial(drained, limits)
        workers = min(options.concurrency, max(1, len(pending)))
        batch = until_limit(meter, pending, debate, workers=workers, drain=partial(drain, log=False))
        with _session(directory, meter, pending), _collecting_seldom():
            async with meter.told_to(tell):
                try:
                    if not await until_stopped(batch, drain, seconds=own.seconds, signals=signals):
                        meter.ended = meter.ended or "--deadline"
                finally:
                    await spec.close_models(asked)
    return meter


@contextmanager
def _session(directory: RunDirectory, meter: Meter, pending: Sequence[tuple[Question, int]]) -> Iterator[None]:
    """On every exit, complete the session in the directory."""

    def end() -> None:
        keys = [(question.id, repeat) for question, repeat in pending]
        left = [key for key in keys if key not in directory.done]
        meter.left_over = len(left)
        directory.end(meter.session() if meter.calls or meter.done or left else None, left)

    try:
        yield
    except BaseException as error:
        meter.ended = "interrupted" if isinstance(error, KeyboardInterrupt | asyncio.CancelledError) else "an error"
        with suppress(UserError):  # such as a full disk: report the first error
            end()
        raise
    end()


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    usual = gc.get_threshold()
    gc.set_threshold(*COLLECTING)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _models(spec: RunSpec, options: RunOptions, *, no_calls: bool) -> AbstractContextManager[Mapping[str, ChatModel]]:
    """Role -> model, on this machine or on the nodes of a cluster."""
    if options.engine == "local" or no_calls:
        return nullcontext(spec.open_models(options, replay=no_calls))
    if spec.own_models:
        own = next(iter(spec.own_models))
        raise UserError(f"--engine ray opens models by name on every node, but {own} is an object")
    from madke.runs.ray_models import ray_models

    return ray_models(spec.record.models, options)


def live_search(
    spec: RunSpec, before: RunRecord | None = None, tell: Listener = silent, *, replay: bool = False
) -> LiveSearch | None:
    """The search service of debaters; None if they may not search. A replay reads the sources from the run."""
    knowledge = spec.protocol.knowledge
    if knowledge is None or not knowledge.allow_search:
        return None
    opened = [] if replay else spec.sources(tell)
    served_by = before.searched if replay and before else {source.name: source.description for source in opened}
    return LiveSearch(served_by, opened, depth(knowledge))
