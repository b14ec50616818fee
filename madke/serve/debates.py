"""All debates of a server: admission, the runs they belong to, limits, and the end.

:meth:`Turn.debate` is the one way to run a debate, for every door of the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from madke.core.chat import ChatModel, Completion, Message, Usage
from madke.core.errors import UserError, unknown
from madke.core.events import Listener
from madke.core.knowledge import KnowledgePool, Source
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.parse import without_reasoning
from madke.engine.protocol import Protocol, role_key
from madke.knowledge.asking import OneAtATime, close_sources
from madke.knowledge.named import open_source
from madke.knowledge.pools import load_pool, retrieve
from madke.llm import CallStore, Limiter, Limits, close, read_models
from madke.llm.prices import added
from madke.runs.cast import allow_connections, open_models
from madke.runs.job import Job, prepared, source_specs
from madke.runs.meter import Budget
from madke.runs.options import RunOptions
from madke.runs.runner import prices_of
from madke.runs.spec import RunSpec
from madke.runs.stopping import GRACE
from madke.serve.landing import Landings
from madke.serve.ledger import Ledger, Place
from madke.serve.served_run import ServedRun, Shared, with_sources
from madke.serve.wire import Refusal
from madke.variants import Variant, load_variant
from madke.variants.load import variant_folders

_log = logging.getLogger(__name__)

BUSY_SECONDS = 5
"""What ``Retry-After`` tells clients that find the queue full, or the server draining."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What a server debates, and its limits."""

    out: Path
    """The folder of its runs."""
    protocols: Sequence[str] = ()
    """Names; empty for all that need only a question."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of :func:`madke.runs.job.prepared` for every run: model, cast, sources, task, prompts, seed, ..."""
    run: RunOptions = field(default_factory=RunOptions)
    queue: int = 256
    """Maximum number of requests that wait for a free place."""
    deadline: float | None = None
    """Maximum seconds of a debate."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question for a debate."""

    protocol: str
    question: str
    """Standalone, unless there are ``condensing`` messages."""
    instructions: str = ""
    condensing: tuple[Message, ...] = ()
    """The prompt for a standalone question, if the question continues a conversation."""
    sources: Sequence[str] | None = None
    """Names of sources that the server offers; None: those of ``--sources``, else of the protocol."""
    cast: Mapping[str, ChatModel] = field(default_factory=dict)
    """Role -> model of this debate alone, such as a person at a page."""
    retry: bool = False
    """Whether the client says that it asks again for an answer that it did not get."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A finished debate."""

    run: ServedRun
    transcript: Transcript
    pool: KnowledgePool
    usage: Usage
    """Of all calls for the request."""


class Turn:
    """One request, from its place in the queue to the delivery of its answer: ``with debates.turn() as turn``.

    Leave the block only when the answer has been sent: until then the request counts as waiting for it.
    """

    def __init__(self, debates: Debates) -> None:
        self._debates = debates
        self._waits = False
        self._place: Place | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self._debates.admit()
        self._waits = True
        self._debates.waiting += 1
        self._debates.turns += 1
        return self

    async def debate(self, ask: Ask, listen: Listener, *, deltas: bool = False) -> Served:
        """Debate the question when there is a free place.

        Cancel the task to end the debate: waiting calls are not made, calls under way finish and are stored.

        Args:
            ask: The question.
            listen: Gets the events while the debate goes on.
            deltas: Whether it also gets the parts of streamed replies.

        Raises:
            Refusal: The question cannot be answered, now or at all.
        """
        debates = self._debates
        async with self._working():
            run = await debates.run_of(ask)
            text, usage = ask.question, Usage()
            if ask.condensing:
                completion = await debates.called(run, "condense", ask.condensing)
                text, usage = without_reasoning(completion.text).strip(), completion.usage
            question = run.question(text, ask.instructions)
            self._place = self._held.enter_context(debates.ledger.place(run.name, question.id, retry=ask.retry))
            debate = run.debate(question, self._place.repeat, listen, deltas=deltas, cast=ask.cast)
            transcript, pool = await debates.landings.land(debate)
        if transcript.status == "failed":
            message = f"the debate failed: {transcript.final.error or transcript.stop_reason}"
            raise Refusal(502, message, kind="server_error", code="debate_failed")
        for stage in transcript.usage.values():
            usage = added(usage, _of_stage(stage))
        return Served(run=run, transcript=transcript, pool=pool, usage=usage)

    async def search(self, query: str, sources: Sequence[str] | None, k: int) -> KnowledgePool:
        """The best ``k`` passages of each source; ``sources`` as in :class:`Ask`, None: all that the server offers."""
        async with self._working():
            return await self._debates.search(query, sources, k)

    async def plain(self, protocol: str, messages: tuple[Message, ...], limit: int | None = None) -> Completion:
        """One call to the protocol's model, without a debate."""
        async with self._working():
            run = await self._debates.run_of(Ask(protocol=protocol, question=""))
            return await self._debates.called(run, "plain", messages, limit)

    def delivered(self) -> None:
        """Say that the whole answer has been sent; the same question debates anew from now on."""
        if self._place is not None:
            self._place.delivered = True

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        """Wait for a free place, and hold it for the block."""
        debates = self._debates
        async with debates.places:
            self._leave_queue()
            debates.running += 1
            try:
                async with asyncio.timeout(debates.options.deadline):
                    yield
            except TimeoutError:
                message = f"the debate took longer than {debates.options.deadline:g} s; ask again to go on with it"
                raise Refusal(504, message, kind="server_error", code="deadline") from None
            except UserError as error:
                _log.warning("a debate failed: %s", error)
                raise Refusal(502, str(error), kind="server_error") from error
            finally:
                debates.running -= 1

    def _leave_queue(self) -> None:
        if self._waits:
            self._waits = False
            self._debates.waiting -= 1

    def close(self) -> None:
        """The request is over."""
        self._leave_queue()
        self._held.close()
        self._debates.turns -= 1

    def __exit__(self, *error: object) -> None:
        self.close()


class Debates:
    """The debates of one server. Use it as an asynchronous context manager."""

    def __init__(self, options: ServeOptions) -> None:
        self.options = options
        self.variants = _variants(options)
        self._jobs: dict[str, Job] = {}
        for name, variant in self.variants.items():  # fail early on settings that a protocol cannot have
            self._jobs[name] = self._job(variant, Ask(protocol=name, question="?"), {})
        self.waiting = self.running = 0
        self.turns = 0
        """Requests whose answers have not been sent."""
        self.draining = False
        self.landings = Landings()
        run = options.run
        self.budget = Budget(prices=prices_of(run), max_cost=run.max_cost, max_tokens=run.token_budget)
        self.places = asyncio.Semaphore(run.concurrency)
        self._shared = Shared(
            options=run,
            budget=self.budget,
            limits=Limits(run.concurrency, run.rpm, run.tpm),
            services=Limiter(run.concurrency, start=run.concurrency),
        )
        self._runs: dict[object, asyncio.Task[ServedRun]] = {}
        self._models: dict[str, ChatModel] = {}
        self._sources: dict[tuple[str, str | None], Source] = {}
        self._opening = asyncio.Lock()
        self._held = AsyncExitStack()

    def admit(self) -> None:
        """Refusal if no further debate may start."""
        if self.draining:
            raise Refusal(503, "the server is shutting down", kind="server_error", retry_after=BUSY_SECONDS)
        if reached := self.budget.reached:
            message = f"the server's {reached} is reached"
            raise Refusal(429, message, kind="insufficient_quota", code="insufficient_quota", retryable=False)
        if self.waiting >= self.options.queue + max(0, self.options.run.concurrency - self.running):
            message = f"{self.waiting} requests are waiting; try again later"
            raise Refusal(429, message, kind="rate_limit_error", code="queue_full", retry_after=BUSY_SECONDS)

    def variant(self, name: str) -> Variant:
        """The protocol of that name; Refusal if it is not served."""
        if name not in self.variants:
            message = f"the model {name!r} does not exist; known: {', '.join(self.variants)}"
            raise Refusal(404, message, param="model", code="model_not_found")
        return self.variants[name]

    def spec(self, name: str) -> RunSpec:
        """What a run of this protocol is made of; Refusal if it is not served."""
        return self._jobs[self.variant(name).name].spec

    @property
    def sources(self) -> dict[str, str | Source | None]:
        """Name -> source, for the sources that a request may choose: ``--sources``, else those of the protocols."""
        names = [name for variant in self.variants.values() for name in variant.protocol.sources]
        return self._own_sources([*dict.fromkeys(names)])

    def chosen(self, names: Sequence[str]) -> dict[str, str | Source | None]:
        """The sources of those names; Refusal for one that is not offered, which could be a file or code."""
        known = self.sources
        for name in names:
            if name not in known:
                raise Refusal(400, str(unknown("source", name, known)), param="sources", code="source_not_found")
        return {name: source for name, source in known.items() if name in names}

    def _own_sources(self, default: Sequence[str]) -> dict[str, str | Source | None]:
        specs, objects = source_specs(self.options.settings.get("sources"), default)
        return {**specs, **objects}

    def turn(self) -> Turn:
        """The turn of one request; entering it raises Refusal if the server cannot take it."""
        return Turn(self)

    async def transcript(self, run: str, question: str, repeat: int) -> tuple[Transcript, KnowledgePool] | None:
        """A finished debate and its pool; None if there is none."""
        opened = [task.result() for task in self._runs.values() if task.done() and not task.exception()]
        for each in opened:
            if each.name == run and (found := await asyncio.to_thread(each.transcript, question, repeat)):
                return found, each.pool_of(question)
        return None

    def drain(self) -> None:
        """Start no further debates."""
        self.draining = True

    async def __aenter__(self) -> Self:
        allow_connections(self.options.run.concurrency + self.options.queue)
        self.options.out.mkdir(parents=True, exist_ok=True)
        self.ledger = self._held.enter_context(Ledger(self.options.out))
        for store in self.options.out.glob("*/calls.sqlite"):
            with CallStore(store) as calls:
                for (_, model), paid in calls.paid().items():
                    self.budget.pay(model, paid.usage)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._shared.limits.close()
        await self.landings.landed(GRACE)
        for task in self._runs.values():
            if task.done() and not task.cancelled() and not task.exception():
                await task.result().close()
        for model in self._models.values():
            await close(model)
        await asyncio.to_thread(close_sources, self._sources.values())
        await self._held.aclose()

    async def called(
        self, run: ServedRun, stage: str, messages: tuple[Message, ...], limit: int | None = None
    ) -> Completion:
        """One call outside a debate; Refusal if it fails."""
        completion = await self.landings.land(run.call(stage, messages, limit))
        if completion.outcome != "ok":
            raise Refusal(502, f"the model did not answer: {completion.error}", kind="server_error")
        return completion

    async def run_of(self, ask: Ask) -> ServedRun:
        """The run of a protocol and its cast, opened by the first question for it."""
        own = {role: model.name for role, model in ask.cast.items()}
        sources = self._sources_of(ask)
        key = (ask.protocol, tuple(sources), tuple(sorted(own.items())))
        if key not in self._runs:
            opening = self._runs[key] = asyncio.create_task(self._opened(ask, own))
            opening.add_done_callback(lambda task: self._forget(key, task))
        return await asyncio.shield(self._runs[key])

    async def search(self, query: str, names: Sequence[str] | None, k: int) -> KnowledgePool:
        """See :meth:`Turn.search`."""
        specs, objects = source_specs(self.sources if names is None else self.chosen(names), ())
        if not specs:
            raise Refusal(400, "there is no source to search", param="sources", code="source_not_found")
        async with self._opening:
            opened = await asyncio.to_thread(self._opened_sources, specs, objects)
        asked = [Question(id="search", question=query)]
        (record,) = await asyncio.to_thread(retrieve, asked, [*opened.values()], k)
        return load_pool(record, sources=[*opened], per_source=k)

    def _forget(self, key: object, task: asyncio.Task[ServedRun]) -> None:
        if task.cancelled() or task.exception() is not None:
            del self._runs[key]

    async def _opened(self, ask: Ask, own: Mapping[str, str]) -> ServedRun:
        async with self._opening:
            job = self._job(self.variant(ask.protocol), ask, own)
            named = {role: name for role, name in job.spec.models.items() if role not in own}
            self._models |= job.own_models
            if new := {*named.values()} - self._models.keys():
                run = self.options.run
                entries = read_models(run.models_file)
                opened = await asyncio.to_thread(
                    open_models, {name: name for name in new}, base_url=run.base_url, models=entries
                )
                self._models |= opened
            sources = await asyncio.to_thread(self._opened_sources, job.spec.source_specs, job.own_sources)
            job = with_sources(job, sources)
            models = {role: self._models[name] for role, name in named.items()}
            return await ServedRun.opened(
                self.options.out, job, {**models, **ask.cast}, self._shared, job.sources() if sources else ()
            )

    def _opened_sources(self, specs: Mapping[str, str | None], objects: Mapping[str, Source]) -> dict[str, Source]:
        for name, spec in specs.items():
            if (name, spec) not in self._sources:
                self._sources[name, spec] = OneAtATime(open_source(name, objects.get(name, spec)))
        return {name: self._sources[name, spec] for name, spec in specs.items()}

    def _sources_of(self, ask: Ask) -> dict[str, str | Source | None]:
        if ask.sources is not None:
            return self.chosen(ask.sources)
        return self._own_sources(self.variant(ask.protocol).protocol.sources)

    def _job(self, variant: Variant, ask: Ask, own: Mapping[str, str]) -> Job:
        settings = dict(self.options.settings)
        roles = {role_key(role) for role in variant.protocol.roles}
        cast = {role: model for role, model in settings.get("cast", {}).items() if role_key(role) in roles}
        settings["cast"] = {**cast, **own}
        settings["sources"] = self._sources_of(ask) or "none"
        if not variant.protocol.needs_answer_scorer:
            settings.pop("answer_scorer", None)
        return prepared(["?"], protocol=variant, **settings)


def _variants(options: ServeOptions) -> dict[str, Variant]:
    """Name -> protocol; UserError for one that needs more than a question."""
    prompts = options.settings.get("prompts")
    served = {name: load_variant(name, prompts) for name in options.protocols or variant_folders(prompts)}
    for name, variant in list(served.items()):
        if (why := _more_than_a_question(variant.protocol, options)) is None:
            continue
        if options.protocols:
            raise UserError(f"the protocol {name!r} cannot be served: it needs {why}")
        del served[name]
    known = {role_key(role) for variant in served.values() for role in variant.protocol.roles}
    for role in options.settings.get("cast", {}):
        if role_key(role) not in known:
            raise UserError(f"--cast {role}=...: no served protocol has this role")
    return served


def _more_than_a_question(protocol: Protocol, options: ServeOptions) -> str | None:
    if protocol.needs_golds:
        return "gold answers"
    if protocol.first_round_given:
        return "first-round stances"
    if protocol.needs_answer_scorer and not options.settings.get("answer_scorer"):
        return "an answer scorer; pass its command with --answer-scorer"
    return None


def _of_stage(stage: Any) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
    return replace(Usage(**{name: getattr(stage, name) for name in names}), estimated=bool(stage.estimated))
