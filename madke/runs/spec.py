"""A resolved run: its record, with the questions, prompts, models and sources that the record names."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from typing import cast as typing_cast

from madke._util.yaml_file import read_json
from madke.core.chat import ChatModel, writable
from madke.core.errors import UserError, unknown
from madke.core.events import Listener, SourceOpened, silent
from madke.core.knowledge import KnowledgePool, Source
from madke.core.question import Question
from madke.core.registry import Scope, import_object
from madke.data import FirstRounds, first_rounds, read_dataset, read_first_rounds
from madke.data.dataset import is_sample_data, sample_of
from madke.data.first_round import Draw
from madke.data.formats import READERS
from madke.data.questions import questions_of_records
from madke.engine.deferral import CALIBRATION_FORMAT, SIGNALS, Calibration, Deferring, fewest
from madke.engine.protocol import Protocol, ProtocolFunction, check_needs, check_task
from madke.engine.scene import Scene
from madke.engine.settings import role_key
from madke.engine.variant import Variant, load_variant, own_variant
from madke.models.chat_models import as_chat_model, close, open_model
from madke.models.endpoint import ModelEntries, read_models, refuse_two_addresses, refuse_unreachable
from madke.models.model_names import forms_with_endpoint, has_endpoint, names_code
from madke.retrieval import named
from madke.retrieval.named import open_source
from madke.retrieval.pools import pool_records, sources_in
from madke.retrieval.source import close_sources
from madke.runs.directory import RunRecord, question_hashes, read_transcripts
from madke.runs.request import Model, RunOptions, RunRequest, Sources
from madke.tasks import TASKS, code_of, get_task

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """The description of a run with the objects that it names. Make one with :func:`resolve`."""

    record: RunRecord
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
        """The protocol's sources, each opened once; ``listen`` gets an event after each is opened."""
        for name, spec in list(self.record.source_specs.items())[len(self.opened) :]:
            source = open_source(name, self.own_sources.get(name, spec))
            self.opened.append(source)
            listen(SourceOpened(name=name, spec=spec, description=source.description))
        return self.opened

    def close(self) -> None:
        """Close the sources opened by name; the caller closes its own objects."""
        close_sources(source for source in self.opened if source.name not in self.own_sources)

    def open_models(self, options: RunOptions, *, replay: bool = False) -> dict[str, ChatModel]:
        """Role -> model; opens models given by name, see :func:`madke.runs.spec.open_models`."""
        names = {role: name for role, name in self.record.models.items() if name not in self.own_models}
        entries = read_models()
        # The program of --batch needs no server.
        probed = options.batch in (None, "api")
        opened = open_models(names, base_url=options.base_url, replay=replay, models=entries, probed=probed)
        return {role: opened.get(role) or self.own_models[name] for role, name in self.record.models.items()}

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
            seed=self.record.seed,
            first_round=self.first_round.of(question.id, repeat) if self.first_round else (),
            settle=self.record.deferring.settle(task) if self.record.deferring else None,
            clock=time.monotonic,
            **services,
        )

    async def close_models(self, models: Mapping[str, ChatModel]) -> None:
        """Close the models opened by name; the caller closes its own objects."""
        for model in {*models.values()} - {*self.own_models.values()}:
            await close(model)

    def check(self, *, has_first_round: bool) -> None:
        """UserError if the protocol cannot debate the questions, or needs first rounds and has none."""
        scored = self.record.answer_scorer is not None
        check_needs(self.protocol, self.questions, has_first_round=has_first_round, scored=scored)
        for name in {question.task for question in self.questions}:
            check_task(self.protocol, get_task(name))

    @property
    def protocol(self) -> Protocol:  # noqa: D102
        return self.variant.protocol


def resolve(request: RunRequest) -> RunSpec:
    """Read and check everything that a run needs, before any call."""
    scope = Scope()
    with scope.active():
        questions, first_round = questions_of(request), request.first_round
        spec = spec_of(
            request,
            questions,
            data=writable(Path(request.questions).name) if isinstance(request.questions, str | Path) else "",
            dataset=None if request.dataset is None else READERS.name_of(request.dataset),
            first_round_given=first_round is not None,
        )
        spec.check(has_first_round=first_round is not None)
        if request.answer_scorer is not None and spec.record.answer_scorer is None:
            raise UserError("--answer-scorer: this protocol asks no answer scorer; rerank and maps do")
        if first_round is not None and (path := Path(first_round)).is_dir():
            rounds = first_rounds(read_transcripts(path), questions, spec.record.repeats, path)
            spec = with_first_rounds(spec, rounds)
        elif first_round is not None:
            spec = with_first_rounds(spec, read_first_rounds(path, questions, spec.protocol))
        return replace(spec, scope=scope)


def spec_of(
    request: RunRequest, questions: Sequence[Question], *, data: str, dataset: str | None, first_round_given: bool
) -> RunSpec:
    """A run of these questions, without its first round; ``data``, ``dataset``: see :class:`RunRecord`."""
    prompts = None if request.prompts is None else Path(request.prompts)
    variant = variant_of(request.protocol, prompts, request.wording)
    specs, own_sources = source_specs(request.sources, variant.protocol.sources)
    pools = None if request.pools is None else Path(request.pools)
    default_sources = variant.protocol.sources
    if request.sources is None and pools is not None and default_sources:
        sources = list(sources_in(record for _, record in pool_records(pools)))
        if not set(default_sources) <= set(sources):
            why = "%s lacks a source of the protocol (%s): using its own, %s"
            _log.warning(why, pools, ", ".join(default_sources), ", ".join(sources))
            specs = dict.fromkeys(sources)
    settings = {**request.settings, "first_round_given": True} if first_round_given else request.settings
    if list(specs) != list(variant.protocol.sources):
        variant = variant.with_sources(list(specs), settings)
    elif settings:
        variant = variant.with_settings(settings)
    specs = {name: specs.get(name) for name in variant.protocol.sources}
    by_role = dict(request.model) if isinstance(request.model, Mapping) else {"*": request.model}
    own_models: dict[str, ChatModel] = {}
    names = {role: _model_name(value, own_models) for role, value in {**by_role, **request.cast}.items()}
    default = names.pop("*", "offline")
    record = RunRecord(
        data=data,
        dataset=dataset,
        task=None if request.task is None else TASKS.name_of(request.task),
        tasks=code_of(question.task for question in questions),
        questions=question_hashes(questions),
        sample_seed=request.sample_seed,
        variant=variant.name,
        protocol=variant.protocol,
        prompts_sha256=variant.files,
        wording=None if request.wording is None else writable(Path(request.wording).name),
        models=role_models(variant.protocol, default, names),
        source_specs=specs,
        answer_scorer=request.answer_scorer if variant.protocol.trace.needs_answer_scorer else None,
        seed=request.seed,
        repeats=request.repeats or 1,
        deferring=deferring_of(request.calibration, request.error_at_most),
    )
    if record.deferring is not None:
        calibration = record.deferring.calibration
        tasks, models = {question.task for question in questions}, {*record.models.values()}
        now = {"variant": record.variant, "tasks": sorted(tasks), "models": sorted(models)}
        then = {"variant": calibration.variant, "tasks": [*calibration.tasks], "models": [*calibration.models]}
        if then != now:
            _log.warning("the calibration is of %s, this run of %s: its bound does not hold here", then, now)
    own_sources = {name: source for name, source in own_sources.items() if name in specs}
    return RunSpec(
        record=record, questions=questions, variant=variant, pools=pools, own_models=own_models, own_sources=own_sources
    )


def questions_of(request: RunRequest) -> list[Question]:
    """The selected questions of a file, or of the caller's own records."""
    data, task = request.questions, None if request.task is None else TASKS.name_of(request.task)
    limit, seed = request.limit, request.sample_seed
    if isinstance(data, str) and " " in data and not os.path.exists(data):
        raise UserError(f"{data!r} is not a file; to ask a question, pass a list of texts")
    if isinstance(data, str | Path):
        dataset = None if request.dataset is None else READERS.name_of(request.dataset)
        selected: dict[str, Any] = {"ids": request.ids, "limit": limit, "sample_seed": seed}
        return read_dataset(Path(data), dataset=dataset, task=task, columns=request.columns, **selected)
    questions = questions_of_records(data, task=task, columns=request.columns)
    return sample_of(questions, limit, seed)


def variant_of(
    protocol: str | Path | ProtocolFunction | Variant, prompts: Path | None = None, wording: str | Path | None = None
) -> Variant:
    """A variant by name, from its folder, or by its function (``module:function``); UserError if it is wrong.

    ``wording``: in other words, see :meth:`madke.engine.variant.Variant.in_words`.
    """
    if isinstance(protocol, str) and ":" in protocol and not Path(protocol).exists():
        try:
            protocol = typing_cast(ProtocolFunction, import_object(protocol))
        except Exception as error:
            raise UserError(f"protocol {protocol} cannot be imported: {type(error).__name__}: {error}") from error
    if isinstance(protocol, Variant):
        variant = protocol
    elif not isinstance(protocol, str | Path):
        variant = own_variant(protocol, prompts)
    elif prompts is None and "/" in str(protocol) and (Path(protocol) / "protocol.yaml").is_file():
        variant = load_variant(Path(protocol).name, Path(protocol).parent)
    else:
        variant = load_variant(str(protocol), prompts)
    return variant if wording is None else variant.in_words(wording)


def source_specs(sources: Sources | None, default: Sequence[str]) -> tuple[dict[str, str | None], dict[str, Source]]:
    """Source name -> specification, and name -> source for sources passed as objects."""
    if sources is None or isinstance(sources, str):
        return named.parse_sources(sources, default), {}
    if hasattr(sources, "search"):
        sources = [typing_cast(Source, sources)]
    all_of: dict[str, str | Source | None] = {}
    all_of.update(sources if isinstance(sources, Mapping) else {getattr(one, "name", str(one)): one for one in sources})
    specs: dict[str, str | None] = {}
    own: dict[str, Source] = {}
    for name, source in all_of.items():
        if source is None or isinstance(source, str):
            specs[name] = source
            continue
        if missing := [each for each in ("name", "description", "search") if not hasattr(source, each)]:
            raise UserError(f"the source {name!r} has no {missing[0]!r}; expected name, description and search")
        own[name], specs[name] = source, f"object {type(source).__module__}.{type(source).__qualname__}"
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


def _model_name(model: Model, own: dict[str, ChatModel]) -> str:
    """The name of a model; a model passed as an object is added to ``own``."""
    if isinstance(model, str):
        return model
    chat = as_chat_model(model)
    if own.setdefault(chat.name, chat) != chat:
        raise UserError(f"two models have the name {chat.name!r}; give them different names")
    return chat.name


def with_first_rounds(spec: RunSpec, rounds: FirstRounds, draw: Draw | None = None) -> RunSpec:
    """The spec with these first rounds, and the questions that have one.

    ``draw``: how they were drawn from another arm's stances.
    """
    questions = [question for question in spec.questions if question.id in rounds.rounds]
    hashes = {question.id: spec.record.questions[question.id] for question in questions}
    update = {"questions": hashes, "first_round": rounds.hashes, "first_round_draw": draw}
    return replace(spec, questions=questions, first_round=rounds, record=spec.record.model_copy(update=update))


def role_models(protocol: Protocol, model: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Role -> name of its model: from ``overrides``, else from the protocol, else ``model``.

    Roles match regardless of case, spaces, hyphens and underscores: ``debater-1`` is ``Debater 1``. A protocol that
    names code (``module:object``) is refused, since a prompt folder may come from an untrusted source.
    """
    for debater in protocol.cast:
        if debater.model and names_code(debater.model):
            raise UserError(
                f"the protocol names code as the model of {debater.name}, {debater.model!r}; if you trust it, remove "
                f"it from the protocol and pass --cast {role_key(debater.name)}={debater.model}"
            )
    own = {debater.name: debater.model for debater in protocol.cast if debater.model}
    names = {role: own.get(role, model) for role in protocol.roles}
    by_key = {role_key(role): role for role in protocol.roles}
    for role, name in overrides.items():
        if role_key(role) not in by_key:
            raise unknown("role", role, protocol.roles)
        names[by_key[role_key(role)]] = name
    return names


def open_models(
    names: Mapping[str, str],
    *,
    base_url: str | None = None,
    replay: bool = False,
    models: ModelEntries | None = None,
    probed: bool = True,
) -> dict[str, ChatModel]:
    """Role -> model; roles with the same model name share a model. Close each with ``close``.

    Under ``replay`` models are not called and need no endpoint and no key. Otherwise endpoints are probed, unless
    ``probed`` is False, so that an unreachable one is detected before any cost.
    """
    opened: dict[str, ChatModel] = {}
    remote = [name for name in names.values() if has_endpoint(name)]
    if base_url is not None and not remote:
        names_text = ", ".join(names.values())
        raise UserError(f"--base-url is for {forms_with_endpoint('and')}, but the models are {names_text}")
    for name in names.values():
        if name not in opened:
            opened[name] = open_model(name, base_url=base_url if name in remote else None, replay=replay, models=models)
    refuse_two_addresses(opened.values())
    if probed and not replay:
        refuse_unreachable(opened.values())
    return {role: opened[name] for role, name in names.items()}


def level_of(text: str | float) -> float:
    """A level from ``5%`` or ``0.05``; UserError if it is not between 0 and 1."""
    number = str(text).strip()
    try:
        level = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        level = math.nan
    if not 0 < level < 1:
        raise UserError(f"--error-at-most {text!r}: expected a share such as 5% or 0.05")
    return level


def deferring_of(path: str | Path | None, level: str | float | None) -> Deferring | None:
    """The calibration in a file with a level; None without both. UserError if no threshold passes at this level."""
    if path is None and level is None:
        return None
    if path is None or level is None:
        raise UserError("--error-at-most and --calibration need each other: expected a share and a file")
    how = "is not a calibration of this version; write it anew with `madke score --calibrate`"
    calibration = read_json(Path(path), Calibration, how)
    if calibration.format != CALIBRATION_FORMAT or calibration.signal not in SIGNALS:
        raise UserError(how, file=Path(path))
    deferring = Deferring(level=level_of(level), calibration=calibration)
    if calibration.threshold(deferring.level) is None:
        n, least = len(calibration.points), fewest(deferring.level, calibration.delta)
        why = f"{n} questions are too few, at least {least} are needed" if n < least else "too many answers were wrong"
        raise UserError(f"cannot show an error of at most {100 * deferring.level:g} %: {why}", file=Path(path))
    return deferring
