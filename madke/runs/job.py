"""Prepare a run: its description, with the questions, prompts, models and sources that it names."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from typing import cast as typing_cast

from madke.core.chat import ChatModel, writable
from madke.core.errors import UserError
from madke.core.events import Listener, SourceOpened, SourceOpening, silent
from madke.core.knowledge import KnowledgePool, Source
from madke.core.question import Question
from madke.core.registry import Scope
from madke.data import FirstRounds, first_rounds, read_dataset, read_first_rounds
from madke.data.dataset import is_sample_data, sample_of
from madke.data.first_round import Draw
from madke.data.formats import READERS, DatasetReader
from madke.data.questions import questions_of_records
from madke.engine.debate import check_needs
from madke.engine.prose import check_task
from madke.engine.protocol import Protocol
from madke.engine.scene import Scene
from madke.models.chat_models import as_chat_model, close
from madke.models.endpoint import read_models
from madke.retrieval import named
from madke.retrieval.named import open_source
from madke.retrieval.pools.pool_file import pool_records, sources_in
from madke.retrieval.source import close_sources
from madke.runs.calibration_file import deferring_of, warn_of_shift
from madke.runs.cast import open_models, role_models
from madke.runs.directory import read_transcripts
from madke.runs.options import RunOptions
from madke.runs.request import Model, RunRequest, Sources
from madke.runs.spec import RunSpec, question_hashes
from madke.tasks import TASKS, code_of, get_task
from madke.variants import Variant, load_variant

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The description of a run with the objects that it names. Make one with :func:`resolved`."""

    spec: RunSpec
    """The description, without pools."""
    questions: Sequence[Question]
    variant: Variant
    pools: Path | None = None
    """The pool file; None: the run builds its own."""
    first_round: FirstRounds | None = None
    own_models: Mapping[str, ChatModel] = field(default_factory=dict)
    """Name -> model, for models passed as objects."""
    own_sources: Mapping[str, Source] = field(default_factory=dict)
    """Name -> source, for sources passed as objects."""
    opened: list[Source] = field(default_factory=list)
    """The sources that are open so far."""
    scope: Scope = field(default_factory=Scope)
    """The task, and the dataset reader, that were passed as objects."""

    def sources(self, listen: Listener = silent) -> Sequence[Source]:
        """The protocol's sources, each opened once; ``listen`` gets an event before and after each is opened."""
        for name, spec in list(self.spec.source_specs.items())[len(self.opened) :]:
            listen(SourceOpening(name=name, spec=spec))
            source = open_source(name, self.own_sources.get(name, spec))
            self.opened.append(source)
            listen(SourceOpened(name=name, spec=spec, description=source.description))
        return self.opened

    def close(self) -> None:
        """Close the sources opened by name; the caller closes its own objects."""
        close_sources(source for source in self.opened if source.name not in self.own_sources)

    def open_models(self, options: RunOptions, *, replay: bool = False) -> dict[str, ChatModel]:
        """Role -> model; opens models given by name, see :func:`madke.runs.cast.open_models`."""
        names = {role: name for role, name in self.spec.models.items() if name not in self.own_models}
        entries = read_models(options.models_file)
        opened = open_models(names, base_url=options.base_url, replay=replay, models=entries)
        return {role: opened.get(role) or self.own_models[name] for role, name in self.spec.models.items()}

    def scene(
        self,
        question: Question,
        cast: Mapping[str, ChatModel],
        pool: KnowledgePool,
        *,
        repeat: int = 0,
        **services: Any,
    ) -> Scene:
        """One debate with the wrapped models in ``cast``; ``services`` are further fields of :class:`Scene`."""
        with self.scope.active():
            task = get_task(question.task)
        return Scene(
            question,
            self.protocol,
            cast,
            pool,
            task=task,
            prompts=self.variant,
            repeat=repeat,
            seed=self.spec.seed,
            first_round=self.first_round.of(question.id, repeat) if self.first_round else (),
            settle=self.spec.deferring.settle(task) if self.spec.deferring else None,
            clock=time.monotonic,
            **services,
        )

    async def close_models(self, models: Mapping[str, ChatModel]) -> None:
        """Close the models opened by name; the caller closes its own objects."""
        for model in {*models.values()} - {*self.own_models.values()}:
            await close(model)

    @property
    def protocol(self) -> Protocol:  # noqa: D102
        return self.variant.protocol


def resolved(request: RunRequest) -> Job:
    """Read and check everything that a run needs, before any call."""
    scope = Scope()
    with scope.active():
        questions, given = questions_of(request), request.first_round is not None
        job = job_of(
            request,
            questions,
            data=writable(Path(request.questions).name) if isinstance(request.questions, str | Path) else "",
            dataset=name_of_dataset(request.dataset),
            task=None if request.task is None else TASKS.name_of(request.task),
            first_round_given=given,
        )
        check_needs(job.protocol, questions, given=given, scored=request.answer_scorer is not None)
        for name in {question.task for question in questions}:
            check_task(job.protocol, get_task(name))
        if request.answer_scorer is not None and job.spec.answer_scorer is None:
            raise UserError(f"--answer-scorer is for finish = rerank; this protocol has finish = {job.protocol.finish}")
        if request.first_round is not None:
            job = with_first_rounds(job, _first_rounds(Path(request.first_round), job))
        return replace(job, scope=scope)


def _first_rounds(path: Path, job: Job) -> FirstRounds:
    if path.is_dir():
        return first_rounds(read_transcripts(path), job.questions, job.spec.repeats, path)
    return read_first_rounds(path, job.questions, job.protocol)


def job_of(
    request: RunRequest,
    questions: Sequence[Question],
    *,
    data: str,
    dataset: str | None,
    task: str | None,
    first_round_given: bool = False,
) -> Job:
    """A run of these questions, without its first round; ``data``, ``dataset``, ``task``: see :class:`RunSpec`."""
    protocol = request.protocol
    prompts = None if request.prompts is None else Path(request.prompts)
    variant = _variant(protocol, prompts) if isinstance(protocol, str | Path) else protocol
    specs, own_sources = source_specs(request.sources, variant.protocol.sources)
    pools = None if request.pools is None else Path(request.pools)
    if request.sources is None and pools is not None:
        specs = dict.fromkeys(_sources_of(pools, variant.protocol.sources))
    settings = {**request.settings, "first_round_given": True} if first_round_given else request.settings
    if request.cite:
        settings = {**settings, "cite": True}
    if list(specs) != list(variant.protocol.sources):
        variant = variant.with_sources(list(specs), settings)
    elif settings:
        variant = variant.with_settings(settings)
    specs = {name: specs.get(name) for name in variant.protocol.sources}
    by_role = dict(request.model) if isinstance(request.model, Mapping) else {"*": request.model}
    own_models: dict[str, ChatModel] = {}
    names = {role: _model_name(value, own_models) for role, value in {**by_role, **request.cast}.items()}
    default = names.pop("*", "offline")
    spec = RunSpec(
        data=data,
        dataset=dataset,
        task=task,
        tasks=code_of(question.task for question in questions),
        questions=question_hashes(questions),
        sample_seed=request.sample_seed,
        variant=variant.name,
        protocol=variant.protocol,
        prompts_sha256=variant.files,
        models=role_models(variant.protocol, default, names),
        source_specs=specs,
        answer_scorer=request.answer_scorer if variant.protocol.needs_answer_scorer else None,
        seed=request.seed,
        repeats=request.repeats or 1,
        deferring=deferring_of(request.calibration, request.error_at_most),
    )
    if spec.deferring is not None:
        tasks = [question.task for question in questions]
        warn_of_shift(spec.deferring.calibration, spec.variant, tasks, spec.models)
    own_sources = {name: source for name, source in own_sources.items() if name in specs}
    return Job(
        spec=spec, questions=questions, variant=variant, pools=pools, own_models=own_models, own_sources=own_sources
    )


def name_of_dataset(dataset: str | DatasetReader | None) -> str | None:
    """The name of a published dataset, or of the caller's function that reads a file."""
    return None if dataset is None else READERS.name_of(dataset)


def questions_of(request: RunRequest) -> list[Question]:
    """The selected questions of a file, or of the caller's own records."""
    data, task = request.questions, None if request.task is None else TASKS.name_of(request.task)
    limit, seed = request.limit, request.sample_seed
    if isinstance(data, str) and " " in data and not os.path.exists(data):
        raise UserError(f"{data!r} is not a file; to ask a question, pass a list of texts")
    if isinstance(data, str | Path):
        dataset = name_of_dataset(request.dataset)
        return read_dataset(
            Path(data),
            dataset=dataset,
            task=task,
            columns=request.columns,
            ids=request.ids,
            limit=limit,
            sample_seed=seed,
        )
    questions = questions_of_records(data, task=task, columns=request.columns)
    return sample_of(questions, limit, seed, lambda question: question.id)


def _variant(protocol: str | Path, prompts: Path | None) -> Variant:
    """Load a variant by name, or from its folder."""
    folder = Path(protocol)
    if prompts is None and len(folder.parts) > 1 and (folder / "protocol.yaml").is_file():
        return load_variant(folder.name, folder.parent)
    return load_variant(str(protocol), prompts)


def source_specs(sources: Sources | None, default: Sequence[str]) -> tuple[dict[str, str | None], dict[str, Source]]:
    """Source name -> specification, and name -> source for sources passed as objects."""
    if sources is None or isinstance(sources, str):
        return named.parse_sources(sources, default), {}
    if hasattr(sources, "search"):
        sources = [typing_cast(Source, sources)]
    all_of: dict[str, str | Source | None] = {}
    all_of.update(sources if isinstance(sources, Mapping) else {getattr(one, "name", str(one)): one for one in sources})
    own = {name: source for name, source in all_of.items() if source is not None and not isinstance(source, str)}
    for name, source in own.items():
        for needed in ("name", "description", "search"):
            if not hasattr(source, needed):
                raise UserError(f"the source {name!r} has no {needed!r}; expected name, description and search")
    specs: dict[str, str | None] = {name: spec if isinstance(spec, str) else None for name, spec in all_of.items()}
    specs |= {name: f"object {type(source).__module__}.{type(source).__qualname__}" for name, source in own.items()}
    return specs, own


def refuse_sample(questions: Sequence[Question], specs: Mapping[str, str | None]) -> None:
    """UserError if one of these sources, which nobody named, is the shipped sample and the questions are not its own.

    ``specs``: source name -> specification.
    """
    samples = [name for name, spec in specs.items() if named.is_sample(name, spec)]
    if samples and not is_sample_data(questions):
        raise UserError(
            f"source {samples[0]!r} would be the shipped sample, which covers only the sample questions; give your "
            f"sources, for example --sources docs=./docs,notes=./notes, or --sources {samples[0]} for the sample"
        )


def _sources_of(pools: Path, default: Sequence[str]) -> Sequence[str]:
    """The protocol's ``default`` sources, or all of the pool file if it lacks one of them."""
    if not default:
        return default
    held = list(sources_in(record for _, record in pool_records(pools)))
    if set(default) <= set(held):
        return default
    wanted, found = ", ".join(default), ", ".join(held)
    _log.warning("%s lacks a source of the protocol (%s): using its own, %s", pools, wanted, found)
    return held


def _model_name(model: Model, own: dict[str, ChatModel]) -> str:
    """The name of a model; a model passed as an object is added to ``own``."""
    if isinstance(model, str):
        return model
    chat = as_chat_model(model)
    if own.setdefault(chat.name, chat) != chat:
        raise UserError(f"two models have the name {chat.name!r}; give them different names")
    return chat.name


def with_questions(job: Job, questions: Sequence[Question]) -> Job:
    """The same job with some of its questions."""
    hashes = {question.id: job.spec.questions[question.id] for question in questions}
    return replace(job, questions=questions, spec=job.spec.model_copy(update={"questions": hashes}))


def with_first_rounds(job: Job, given: FirstRounds, draw: Draw | None = None) -> Job:
    """The same job with the given first rounds. ``draw``: how they were drawn from another arm's stances."""
    update = {"first_round": given.hashes, "first_round_draw": draw}
    return replace(job, first_round=given, spec=job.spec.model_copy(update=update))
