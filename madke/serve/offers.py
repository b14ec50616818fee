"""What a server offers, its protocols and sources, and the runs that questions belong to, opened when one is asked."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from madke.core.chat import ChatModel, Message
from madke.core.errors import UserError, unknown
from madke.core.knowledge import KnowledgePool, Source
from madke.core.question import Question
from madke.engine.protocol import check_needs
from madke.engine.settings import Knowledge, role_key
from madke.engine.variant import Variant, load_variant, variant_folders
from madke.engine.wording import refuse_unused, shared_wording
from madke.models.chat_models import close
from madke.models.endpoint import read_models
from madke.models.limiter import Limits
from madke.retrieval.named import is_sample, open_source
from madke.retrieval.pools import pool_of, retrieve
from madke.retrieval.source import NamedSource, close_sources
from madke.runs.directory import RunRecord
from madke.runs.meter import budget_of
from madke.runs.request import RunOptions, RunRequest
from madke.runs.spec import RunSpec, open_models, resolve, source_specs
from madke.serve.gate import Refusal
from madke.serve.served_run import ServedRun, Shared

OfferedSources = dict[str, str | Source | None]
"""Name -> specification or object."""

MAX_QUESTION = 100_000
"""Characters of a question, and of its instructions."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What a server debates, and its limits."""

    out: Path
    """The folder of its runs."""
    protocols: Sequence[str] = ()
    """Names; empty for all that need only a question."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Further name -> protocol."""
    request: RunRequest = field(default_factory=RunRequest)
    """What every debate is asked for: model, cast, sources, task, prompts, seed, ..."""
    run: RunOptions = field(default_factory=RunOptions)
    queue: int = 256
    """Maximum number of requests that wait for a free place."""
    deadline: float = 3600.0
    """Maximum seconds of a request, waiting for a place included."""


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
    retry: bool = False
    """Whether the client says that it asks again for an answer that it did not get."""


class Offers:
    """The protocols and sources of a server; UserError for options that do not fit them."""

    def __init__(self, options: ServeOptions) -> None:
        self.variants = _variants(options)
        run = options.run
        self.shared = Shared(options=run, budget=budget_of(run), limits=Limits(run.concurrency, interactive=True))
        self._options = options
        self._runs: dict[object, ServedRun] = {}
        self._models: dict[str, ChatModel] = {}
        self._opened: dict[tuple[str, str | None], Source] = {}
        self._opening = asyncio.Lock()
        self.left_out: dict[str, str] = {}
        """Protocol -> why it cannot run with the models, sources and settings of this server."""
        self._specs_of = self._possible_specs()
        for alias, name in options.aliases.items():
            if name not in self.variants:
                raise UserError(f"--alias {alias}={name}: {unknown('protocol', name, self.variants)}")

    @property
    def sources(self) -> OfferedSources:
        """The sources that a request may choose: ``--sources``, else those of the protocols."""
        names = [name for variant in self.variants.values() for name in variant.protocol.sources]
        return self._own_sources([*dict.fromkeys(names)])

    def variant(self, name: str) -> Variant:
        """The protocol of that name or alias; Refusal if it is not served."""
        name = self._options.aliases.get(name, name)
        if name not in self.variants:
            message = str(unknown("protocol", name, self.variants))
            raise Refusal(404, message, param="model", code="model_not_found")
        return self.variants[name]

    def spec(self, name: str) -> RunRecord:
        """What a run of this protocol is made of; Refusal if it is not served."""
        return self._specs_of[self.variant(name).name].record

    def check(self, ask: Ask) -> None:
        """Refusal if it cannot be debated."""
        self.variant(ask.protocol)
        if not ask.question.strip():
            raise Refusal(400, "the question is empty", param="question")
        for name, text in (("question", ask.question), ("instructions", ask.instructions)):
            if len(text) > MAX_QUESTION:
                raise Refusal(400, f"the {name} is longer than {MAX_QUESTION} characters", param=name)
        self._sources_for(ask)

    async def run_of(self, ask: Ask) -> ServedRun:
        """The run of a protocol and its sources, opened by the first question for it."""
        key = (self.variant(ask.protocol).name, tuple(self._sources_for(ask)))
        if key not in self._runs:
            # It goes on if this question is cancelled: a thread cannot be stopped, and others may wait for the run.
            await asyncio.shield(asyncio.create_task(self._open(key, ask)))
        return self._runs[key]

    async def search(self, query: str, names: Sequence[str] | None, k: int) -> KnowledgePool:
        """The best ``k`` passages of each of these sources; None: of all."""
        if len(query) > MAX_QUESTION:
            raise Refusal(400, f"the query is longer than {MAX_QUESTION} characters", param="query")
        specs, objects = source_specs(self.sources if names is None else self._offered_sources(names), ())
        if not specs:
            raise Refusal(400, "there is no source to search", param="sources", code="source_not_found")
        async with self._opening:
            opened = await asyncio.to_thread(self._open_sources, specs, objects)
        questions = [Question(id="search", question=query)]
        (record,) = await asyncio.to_thread(retrieve, questions, [*opened.values()], k)
        return pool_of(record, Knowledge(sources=tuple(opened), per_source=k))

    async def warm(self) -> None:
        """Search the shipped sample once, if the first protocol uses it: the first question need not wait for it."""
        name = next(iter(self.variants))
        sample = [each for each, spec in self.spec(name).source_specs.items() if is_sample(each, spec)]
        if sample:
            with suppress(UserError, Refusal):
                await self.search("lake", sample, 1)

    async def close(self) -> None:
        """Close all runs, models and sources; no call may be under way."""
        for run in self._runs.values():
            await run.close()
        for model in self._models.values():
            await close(model)
        await asyncio.to_thread(close_sources, self._opened.values())

    async def _open(self, key: object, ask: Ask) -> None:
        async with self._opening:
            if key in self._runs:
                return
            try:
                spec = self._spec(ask)
            except UserError as error:  # the client chose sources with which the protocol cannot run
                raise Refusal(400, str(error), param="sources") from None
            named = spec.record.models
            self._models |= spec.own_models
            if new := {*named.values()} - self._models.keys():
                run = self._options.run
                names, entries = {name: name for name in new}, read_models()
                self._models |= await asyncio.to_thread(open_models, names, base_url=run.base_url, models=entries)
            sources = await asyncio.to_thread(self._open_sources, spec.record.source_specs, spec.own_sources)
            models = {role: self._models[name] for role, name in named.items()}
            spec = replace(spec, own_sources=sources)  # so the spec does not close them
            self._runs[key] = ServedRun(self._options.out, spec, models, self.shared)

    def _open_sources(self, specs: Mapping[str, str | None], objects: Mapping[str, Source]) -> dict[str, Source]:
        for name, spec in specs.items():
            if (name, spec) not in self._opened:
                self._opened[name, spec] = NamedSource(open_source(name, objects.get(name, spec)), name)
        return {name: self._opened[name, spec] for name, spec in specs.items()}

    def _sources_for(self, ask: Ask) -> OfferedSources:
        if ask.sources is not None:
            return self._offered_sources(ask.sources)
        return self._own_sources(self.variant(ask.protocol).protocol.sources)

    def _offered_sources(self, names: Sequence[str]) -> OfferedSources:
        """The sources of those names; Refusal for one that is not offered, which could be a file or code."""
        known = self.sources
        for name in names:
            if name not in known:
                raise Refusal(400, str(unknown("source", name, known)), param="sources", code="source_not_found")
        return {name: source for name, source in known.items() if name in names}

    def _own_sources(self, default: Sequence[str]) -> OfferedSources:
        specs, objects = source_specs(self._options.request.sources, default)
        return {**specs, **objects}

    def _possible_specs(self) -> dict[str, RunSpec]:
        """Protocol -> its run; others are left out. UserError if one of them was named, or if none is left."""
        specs: dict[str, RunSpec] = {}
        failed: dict[str, UserError] = {}
        for name in self.variants:
            try:
                specs[name] = self._spec(Ask(protocol=name, question="?"))
            except UserError as error:
                failed[name] = error
        for path in self._options.request.settings:
            takers = [name for name, variant in self.variants.items() if _has(variant, path)]
            if takers and all(name in failed for name in takers):  # the value makes no sense anywhere
                raise failed[takers[0]]
        for name, reason in failed.items():
            if not specs:
                raise reason
            if self._options.protocols:
                raise UserError(f"the protocol {name!r} cannot be served: {reason}") from None
            del self.variants[name]
            self.left_out[name] = str(reason)
        return specs

    def _spec(self, ask: Ask) -> RunSpec:
        variant, request = self.variant(ask.protocol), self._options.request
        roles = {role_key(role) for role in variant.protocol.roles}
        cast = {role: model for role, model in request.cast.items() if role_key(role) in roles}
        # A parameter is set in the protocols that have it. One that no protocol has is refused by all.
        others = [each for each in self.variants.values() if each.name != variant.name]
        settings = {
            path: value
            for path, value in request.settings.items()
            if _has(variant, path) or not any(_has(each, path) for each in others)
        }
        return resolve(
            replace(
                request,
                questions=["?"],
                protocol=variant,
                wording=shared_wording(request.wording, variant.name),
                settings=settings,
                cast=cast,
                sources=self._sources_for(ask) or "none",
                answer_scorer=request.answer_scorer if variant.protocol.trace.needs_answer_scorer else None,
            )
        )


def _has(variant: Variant, path: str) -> bool:
    """Whether the protocol has the parameter of a ``--set``."""
    return path.partition(".")[0] in type(variant.protocol).model_fields


def _variants(options: ServeOptions) -> dict[str, Variant]:
    """Name -> protocol; UserError for one that needs more than a question."""
    prompts = None if options.request.prompts is None else Path(options.request.prompts)
    scorer = options.request.answer_scorer
    served = {name: load_variant(name, prompts) for name in options.protocols or variant_folders(prompts)}
    if options.request.wording is not None:
        refuse_unused(options.request.wording, served)
    for name, variant in list(served.items()):
        try:
            check_needs(variant.protocol, [Question(question="?")], has_first_round=False, scored=scorer is not None)
        except UserError as error:
            if options.protocols:
                raise UserError(f"the protocol {name!r} cannot be served: {error}") from None
            del served[name]
    known = {role_key(role) for variant in served.values() for role in variant.protocol.roles}
    for role in options.request.cast:
        if role_key(role) not in known:
            raise UserError(f"--cast {role}=...: no served protocol has this role")
    return served
