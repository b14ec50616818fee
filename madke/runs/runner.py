"""The batch runner: a spec and a directory, from the first pool to the last transcript."""

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from madke._util.concurrency import gather
from madke.core.chat import ChatModel
from madke.core.errors import UserError, count_of
from madke.core.events import Event, Listener, PoolProgress, PoolReady, PoolsReady, never_raising, silent
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.engine.protocol import hold_debate
from madke.engine.settings import Knowledge
from madke.models.batches import MAX_BATCH_CONCURRENCY, in_batches
from madke.models.limiter import Limits, allow_connections
from madke.models.pipeline import CallPipeline
from madke.models.services import AnswerScorer, answer_scoring
from madke.models.store import CallStore
from madke.retrieval.pools import (
    LiveSearch,
    PoolLines,
    PoolRecord,
    depth,
    in_search_thread,
    missing_pools,
    pool_of,
    pool_records,
    retrieve_pools,
    searching,
    sources_in,
)
from madke.runs.directory import RunDirectory, RunFiles, RunRecord, read_run, run_files
from madke.runs.meter import MAX_FAILED_IN_A_ROW, Budget, Meter, budget_of
from madke.runs.request import RunOptions
from madke.runs.spec import RunSpec

_log = logging.getLogger(__name__)

T = TypeVar("T")

COLLECTING = (20_000, 20, 20)
"""Thresholds of the garbage collector: debates leave few cycles, and collecting takes a tenth of a run."""


async def execute(
    spec: RunSpec,
    path: Path,
    options: RunOptions,
    *,
    budget: Budget | None = None,
    calls: Path | None = None,
    payer: str = "",
    listen: Listener | None = None,
    signals: bool = False,
) -> Meter:
    """Debate the questions of a run that are not finished yet. ``path``: the run directory.

    Without a pool file the run builds its own. Runs of an experiment share a ``budget`` and the call store ``calls``,
    in which ``payer`` identifies each. With ``signals``, SIGINT, SIGTERM and SIGHUP raise
    :class:`Interrupted`, without losing a call.

    Returns:
        The counters. ``meter.stopped`` says why the run ended early; ``meter.left_over`` is the number of questions
        that have no outcome as a result.
    """
    tell = never_raising(listen or silent)
    allow_connections(options.concurrency)
    with ExitStack() as opened:
        directory = opened.enter_context(RunDirectory(path, replay=options.replay))
        budget, calls = budget or budget_of(options), calls or path / "calls.sqlite"
        knowledge, repeats = spec.protocol.knowledge, spec.record.repeats
        pending = directory.pending(spec.questions, repeats, options)
        # A replay and a finished run need no weights and no keys.
        no_calls = options.replay or not pending
        if not options.replay:
            budget.check(spec.record.models.values())
        models = opened.enter_context(_models(spec, options, no_calls=no_calls))
        if "human" in spec.record.models.values():
            options = replace(options, concurrency=1)  # a person follows one debate at a time
        answer_scorer = AnswerScorer(spec.record.answer_scorer, replay=no_calls) if spec.record.answer_scorer else None
        pools = None if knowledge is None else spec.pools
        if knowledge is not None and pools is None:
            pools = await own_pools(spec, directory, tell, replay=options.replay)
        run_pools = RunPools(pools, knowledge, spec.questions)
        before = read_run(path) if directory.has_run else None
        live = live_search(spec, before, tell, replay=options.replay)
        record = spec.record.model_copy(
            update={
                "models": {role: model.name for role, model in models.items()},
                "sources": run_pools.sources,
                "pools": run_pools.hashes,
                "searched": live.served_by if live else {},
            }
        )
        directory.begin(record, models.values(), RunFiles(calls=calls, pools=pools), work=bool(pending))
        clients = models
        if options.batch is not None and not no_calls:
            # All questions start at once, so that a wave is one batch.
            clients = in_batches(models, options.batch, path, budget.allow_batch)
            options = replace(options, concurrency=MAX_BATCH_CONCURRENCY)
        store, limits = opened.enter_context(CallStore(calls)), Limits(options.concurrency)
        meter = Meter(
            total=len(spec.questions) * repeats,
            budget=None if options.replay else budget,
            limits=limits,
            max_failed=max(MAX_FAILED_IN_A_ROW, 2 * options.concurrency),
        )
        pipeline = CallPipeline(
            limits=limits, meter=meter, store=store, replay=options.replay, payer=payer, note_model=directory.note_model
        )
        cast = {role: pipeline.model(model) for role, model in clients.items()}
        services = debate_services(pipeline.service, live, answer_scorer, knowledge)

        async def debate(pair: tuple[Question, int]) -> None:
            question, repeat = pair
            directory.check_lock()
            pool = run_pools.of(question)
            tell(PoolReady(question=question.id, repeat=repeat, pool=pool))
            transcript = await hold_debate(spec.scene(question, cast, pool, repeat=repeat, listen=tell, **services))
            if directory.write(transcript):
                meter.done += 1
                meter.failed += transcript.status == "failed"

        if meter.budget is not None and pending and meter.budget.tokens == 0:
            meter.budget.pay_stored(store)
        if meter.stopped:
            # A limit is reached before the start, so a retried question would lose its outcome.
            pending = directory.pending(spec.questions, repeats, options, retry=False)
        directory.resume(options, retry=not meter.stopped)
        meter.resumed = len(directory.done)
        drain = partial(drain_calls, limits)
        workers = min(options.concurrency, max(1, len(pending)))
        batch = until_limit(meter, pending, debate, workers=workers, drain=partial(drain, log=False))
        opened.callback(gc.set_threshold, *gc.get_threshold())
        gc.set_threshold(*COLLECTING)
        with _session(directory, meter, pending):
            async with meter.reporting_to(tell):
                try:
                    if not await until_stopped(batch, drain, seconds=budget.seconds, signals=signals):
                        meter.ended = meter.ended or "--deadline"
                finally:
                    await spec.close_models(clients)
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


# Pools, and services that debates use


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

    Each question must have a line in the file.
    """

    def __init__(self, file: Path | None, knowledge: Knowledge | None, questions: Sequence[Question]) -> None:
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
        self.sources = _check_pools(file, knowledge, questions)

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
    """From a question's id to its pool as the run's debates read it.

    None if the file is gone or cannot be read, or if the line has changed.
    """
    frozen = spec.pools if spec else {}
    file = run_files(directory).pools if frozen else None
    if file is None or not file.is_file():
        return lambda id_: None
    try:
        lines = PoolLines(file, frozen)
    except UserError:
        return lambda id_: None
    return lambda id_: lines.record(id_) if lines.hashes.get(id_) == frozen.get(id_) else None


def _check_pools(file: Path, knowledge: Knowledge, questions: Sequence[Question]) -> dict[str, str]:
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


async def own_pools(spec: RunSpec, directory: RunDirectory, tell: Listener = silent, *, replay: bool) -> Path:
    """The run's own pool file, after missing pools are retrieved; UserError if a source or the file fails."""
    knowledge, file = spec.protocol.knowledge, directory.path / "pools.jsonl"
    assert knowledge is not None
    if directory.has_run and not file.exists():
        raise UserError("holds a run without its own pools; pass its pool file with --pools", file=directory.path)
    if replay:
        return file
    if not directory.has_run:
        # Pools without a run come from one that was stopped early; their origin is unknown.
        file.unlink(missing_ok=True)
    with missing_pools(file, spec.questions) as (missing, more):
        if missing:
            listen, k = from_thread(tell), depth(knowledge)
            counts = await in_search_thread(
                lambda stopped: retrieve_pools(
                    missing, spec.sources(listen), k, more, progress=pool_progress(listen), stopped=stopped
                )
            )
            for name, each in counts.items():
                if each.failed:
                    failed = "source %s failed for %d of %d questions: %s"
                    _log.warning(failed, name, each.failed, each.asked, each.reason)
            tell(PoolsReady(found=counts))
    return file


def pool_progress(listen: Listener) -> Callable[[int, int], None]:
    """What tells a listener how far a search for pools is."""
    return lambda done, total: listen(PoolProgress(done=done, total=total))


def from_thread(listen: Listener) -> Listener:
    """A listener for another thread, which passes events to ``listen`` in this event loop."""
    loop = asyncio.get_running_loop()

    def forward(event: Event) -> None:
        loop.call_soon_threadsafe(listen, event)

    return forward


# Stopping early, at a deadline or a signal, without losing a paid call. No further call starts. Calls in flight may
# finish and are stored. Debates that wait for further calls are cancelled; the same command starts them again.

GRACE_SECONDS = 30.0
"""Maximum wait for calls in flight, in seconds."""

_LAST_STEPS_SECONDS = 0.2
"""Maximum wait for debates after their last call, in seconds."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal ended the run; everything is stored and closed. ``exit_status`` follows the shells' convention."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.exit_status = 128 + number


async def until_stopped(
    batch: Coroutine[None, None, None],
    drain: Callable[[], Coroutine[None, None, None]],
    *,
    seconds: float | None,
    signals: bool = True,
) -> bool:
    """Run the batch until it ends, a signal arrives or the time is up. A second signal does not wait for calls.

    ``drain`` prevents further calls and waits for those in flight (:func:`drain_calls`). With ``signals``, SIGINT,
    SIGTERM and SIGHUP stop the batch and raise Interrupted. Returns whether it ended before ``seconds``.
    """
    loop = asyncio.get_running_loop()
    work = loop.create_task(batch)
    stopped: asyncio.Future[signal.Signals | None] = loop.create_future()

    def stop(number: signal.Signals | None) -> None:
        if not stopped.done():
            stopped.set_result(number)
        elif number is not None:
            work.cancel()

    either: list[asyncio.Future[Any]] = [work, stopped]
    timer = None if seconds is None else loop.call_later(max(0.0, seconds), stop, None)
    by_itself = False
    try:
        with _signals_handled(stop) if signals else nullcontext():
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                draining = loop.create_task(drain())
                await asyncio.wait([work, draining], return_when=asyncio.FIRST_COMPLETED)
                # A debate may still have to write its transcript after its last call.
                await asyncio.wait([work], timeout=_LAST_STEPS_SECONDS)
                draining.cancel()
                work.cancel()
            elif work.cancelled():  # a person who debates has left
                stop(signal.SIGINT)
            with suppress(asyncio.CancelledError):
                await work
                by_itself = True
    finally:
        work.cancel()
        if timer is not None:
            timer.cancel()
    if stopped.done() and (number := stopped.result()) is not None:
        raise Interrupted(number)
    return by_itself


async def until_limit(
    meter: Meter,
    items: Iterable[T],
    work: Callable[[T], Awaitable[None]],
    *,
    workers: int,
    drain: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Work on the items until the meter has a reason to stop. Each worker has one item, so memory holds few.

    After an error in one item, ``drain`` waits for the calls in flight before the others are cancelled.
    """
    left = iter(items)  # shared: a free worker takes the next item

    async def worker() -> None:
        for item in left:
            if meter.stopped:
                return
            try:
                await work(item)
            except Exception:
                meter.ended = meter.ended or "an error"
                if drain is not None:
                    await drain()
                raise

    await gather(worker() for _ in range(workers))


async def drain_calls(limits: Limits, *, log: bool = True) -> None:
    """Start no further calls, and wait for those in flight, at most :data:`GRACE_SECONDS` seconds."""
    limits.close()
    if limits.in_flight and log:
        _log.warning("stopping; waiting for %s in flight (Ctrl-C: do not wait)", count_of(limits.in_flight, "call"))
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await limits.drain()
    except TimeoutError:
        why = "%d calls did not finish within %.0f s and are cancelled; they will be made again"
        _log.warning(why, limits.in_flight, GRACE_SECONDS)


@contextmanager
def _signals_handled(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Pass signals that end a process to ``stop`` instead, if this thread may handle signals."""
    loop = asyncio.get_running_loop()
    handled = []
    try:
        for number in _SIGNALS:
            # Only the main thread may; and ignored signals (nohup) stay ignored.
            with suppress(ValueError, RuntimeError):
                if signal.getsignal(number) != signal.SIG_IGN:
                    loop.add_signal_handler(number, stop, number)
                    handled.append(number)
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
