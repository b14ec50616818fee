"""The shared settings of an experiment, and the run of each of its arms."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from madke.core.chat import ChatModel, writable
from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.core.question import Question
from madke.data import read_dataset
from madke.data.dataset import sample_of, select_questions
from madke.data.questions import questions_of_records
from madke.engine.variant import load_variant
from madke.engine.wording import refuse_unused, shared_wording
from madke.experiments.recipe import Arm, Recipe, read_recipe, recipe_file, sources_of, with_models, with_sources
from madke.models.chat_models import as_chat_model, close, open_model
from madke.models.endpoint import read_models, refuse_two_addresses
from madke.models.model_names import forms_with_endpoint, has_endpoint, model_kind
from madke.retrieval.named import open_source, parse_sources, resolve
from madke.retrieval.pools import read_pools, sources_in
from madke.runs.request import DEFAULTS, NOTHING, Model, RunOptions, RunRequest
from madke.runs.spec import RunSpec, refuse_sample, spec_of

QuestionSets = Sequence[str | Path | Question | Mapping[str, Any]]
"""Question files (``NAME=PATH`` for a published dataset in its owner's format), or questions and mappings of theirs."""


@dataclass(frozen=True, kw_only=True)
class ExperimentSpec:
    """The shared settings of an experiment's arms."""

    recipe: Recipe
    file: Path | None = None
    """The recipe's file, for errors."""
    data: str
    """The datasets' file names, for display."""
    datasets: Sequence[str] = ()
    """The published formats of the datasets."""
    questions: Sequence[Question]
    request: RunRequest = field(default_factory=RunRequest)
    """What all arms are asked for: task, prompts, sample seed, answer scorer, and repeats and seed unless an arm sets
    them."""
    pools: Sequence[Path] = ()
    """Existing pool files; other sources are queried."""
    own_model: ChatModel | None = None
    """The default model, if it was given as an object."""
    own_sources: Mapping[str, Source] = field(default_factory=dict)
    """Name -> source, for sources given as objects."""
    own_specs: Mapping[str, str | None] = field(default_factory=dict)
    """Name -> specification of the user's sources, over which the recipe's arms are; empty: those of the recipe."""
    _specs_of: dict[tuple[str, int | None], RunSpec] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """The arms, in the order in which they run."""
        return tuple(self.recipe.all_arms())

    @cached_property
    def all_specs(self) -> dict[str, str | None]:
        """Source name -> specification, over all arms; UserError if two arms define one name differently."""
        specs: dict[str, str | None] = {}
        for arm, spec in self.specs:
            with self._at(arm):
                for name, source in spec.record.source_specs.items():
                    if specs.setdefault(name, source) != source:
                        raise UserError(f"source {name!r} is {source!r} here, but {specs[name]!r} in an earlier arm")
        return specs

    @cached_property
    def pool_sources(self) -> dict[str, str]:
        """The sources in the pool files, with what served each."""
        return {name: by for file in self.pools for name, by in sources_in(read_pools(file).values()).items()}

    def unknown_sources(self) -> list[UserError]:
        """One error for each source that is neither an object nor in a pool file, and cannot be resolved."""
        errors: dict[str, UserError] = {}
        for arm, spec in self.specs:
            for name, source in spec.record.source_specs.items():
                if name in self.pool_sources or name in self.own_sources or name in errors:
                    continue
                try:
                    with self._at(arm):
                        resolve(name, source)
                except UserError as error:
                    errors[name] = error
        return [*errors.values()]

    @property
    def specs(self) -> tuple[tuple[Arm, RunSpec], ...]:
        """Each arm with its run, as known before any arm has run."""
        return tuple((arm, self.spec(arm)) for arm in self.arms)

    def spec(self, arm: Arm, *, debaters: int | None = None) -> RunSpec:
        """The run of one arm, without a first round from another arm; ``debaters`` overrides their number."""
        key = arm.name, debaters
        if key in self._specs_of:
            return self._specs_of[key]
        name, shared = arm.protocol or "madke", self.request
        prompts = Path(folder) if (folder := arm.prompts or shared.prompts) else None
        with self._at(arm):
            variant = load_variant(name, prompts)
            if self.own_specs:  # an arm names them only
                names = arm.sources.split(",") if arm.sources and arm.sources != "none" else ()
                if arm.sources is None and variant.protocol.sources:
                    names = [*self.own_specs]
                specs = {each: self.own_specs.get(each) for each in names}
            else:
                specs = parse_sources(arm.sources, variant.protocol.sources)
            request = replace(
                shared,
                protocol=variant,
                wording=arm.wording or shared_wording(shared.wording, name),
                settings=arm.set if debaters is None else {**arm.set, "debaters": debaters},
                model=arm.model or self.recipe.model,
                cast=arm.cast,
                sources={name: self.own_sources.get(name, spec) for name, spec in specs.items()},
                seed=shared.seed if arm.seed is None else arm.seed if arm.seed >= 0 else None,
                repeats=arm.repeats or shared.repeats,
            )
            spec = spec_of(
                request,
                self.questions,
                data=self.data,
                dataset=", ".join(self.datasets) or None,
                first_round_given=arm.first_round is not None,
            )
        own_models = {} if self.own_model is None else {self.own_model.name: self.own_model}
        return self._specs_of.setdefault(key, replace(spec, own_models=own_models))

    def _check_sources(self) -> None:
        """Refuse sources that no arm uses, that are not what the recipe is about, and the sample if not requested."""
        for name, word in self.recipe.required_sources.items():
            if name not in self.all_specs:
                raise UserError(f"--sources: this recipe is about a source {name!r}; add {name}=INDEX")
            own = self.own_sources.get(name, self.all_specs[name])
            served = self.pool_sources.get(name) or open_source(name, own).description
            if word not in served.casefold():
                expected = f"expected one whose description names {word!r}, or a copy of the recipe"
                raise UserError(f"source {name!r} of this recipe: found {served}; {expected}")
        if self.own_specs:
            if not self.all_specs:
                raise UserError("--sources: no arm of this recipe has knowledge")
            return
        if unused := sorted(self.pool_sources.keys() - self.all_specs.keys()):
            have, every = ", ".join(unused), ",".join(sorted(self.pool_sources))
            why = f"no arm uses source {have} of the pool files; name the sources to use, for example --sources {every}"
            raise UserError(why, file=self.pools[0])
        available = {*self.pool_sources, *self.own_sources}
        refuse_sample(self.questions, {name: spec for name, spec in self.all_specs.items() if name not in available})

    def check(self, options: RunOptions = DEFAULTS) -> None:
        """Fail early on unused options and missing inputs."""
        if options.base_url is not None and not any(map(has_endpoint, self.models)):
            raise UserError(f"--base-url requires a model {forms_with_endpoint('or')}; no arm has one")
        if self.request.answer_scorer is not None and not any(spec.record.answer_scorer for _, spec in self.specs):
            raise UserError("--answer-scorer: no arm asks an answer scorer; those of rerank and maps do")
        debaters = {arm.name: len(spec.protocol.cast) for arm, spec in self.specs}
        for arm, spec in self.specs:
            spec.check(has_first_round=arm.first_round is not None)
            if (match := arm.match_cost) and (count := debaters[match.unit]) != 1:
                with self._at(arm):
                    raise UserError(f"match_cost: the unit {match.unit!r} has {count} debaters; expected one")
        self.check_models(options)
        self._check_sources()

    @property
    def models(self) -> set[str]:
        """All model names, without models given as objects."""
        return {name for _, spec in self.specs for name in spec.record.models.values() if name not in spec.own_models}

    def check_models(self, options: RunOptions = DEFAULTS, asking: Collection[str] = ()) -> None:
        """Open and close every model of every arm, without network requests and without loading weights.

        Only the models of the arms in ``asking`` need a key.
        """
        entries = read_models()
        opened: dict[tuple[str, bool], ChatModel] = {}
        try:
            for arm, spec in self.specs:
                for name in {*spec.record.models.values()} - spec.own_models.keys():
                    live = arm.name in asking and not model_kind(name).is_loaded
                    if (name, live) not in opened:
                        at = options.base_url if has_endpoint(name) else None
                        with self._at(arm):
                            opened[name, live] = open_model(name, base_url=at, replay=not live, models=entries)
            refuse_two_addresses(opened.values())
        finally:
            for model in opened.values():
                asyncio.run(close(model))

    @contextmanager
    def _at(self, arm: Arm) -> Iterator[None]:
        """Add the arm to a UserError of the block."""
        try:
            yield
        except UserError as error:
            # An option of the command line (--set) is a key of the recipe.
            raise UserError(f"arm {arm.name!r}: {str(error).removeprefix('--')}", file=self.file) from None


def read_experiment_spec(
    recipe: str | Path | Recipe,
    data: str | Path | QuestionSets,
    request: RunRequest | None = None,
    *,
    model: Model | None = None,
    models: Sequence[str] = (),
    sources: str | Mapping[str, Source] = NOTHING,
    pools: str | Path | Sequence[str | Path] = (),
) -> ExperimentSpec:
    """Combine a recipe with data; for the arguments see :func:`madke.experiments.experiment.ablate`.

    The limit of the ``request`` is for each dataset; default: the recipe's, and with it the recipe's sample seed.
    ``sources`` as a text: arms with all sources of the recipe get all of these, and where it has an arm for each,
    there is an arm for each of these. As objects: if the arms have all of these names, they are these sources.

    Raises:
        UserError: The recipe or the data are invalid.
    """
    request = request or RunRequest()
    data = [data] if isinstance(data, str | Path) else data
    own_recipe = recipe if isinstance(recipe, Recipe) else read_recipe(str(recipe))
    own = None if model is None or isinstance(model, str) else as_chat_model(model)
    if model is not None:
        own_recipe = own_recipe.model_copy(update={"model": own.name if own else model})
    limit, sample_seed = own_recipe.limit if request.limit is None else request.limit, request.sample_seed
    if sample_seed is None and limit is not None:
        sample_seed = own_recipe.sample_seed
    repeats = request.repeats or own_recipe.repeats
    request = replace(request, limit=limit, sample_seed=sample_seed, repeats=repeats)
    if models and model is not None:
        raise UserError("--models is given with --model; leave out one")
    own_specs = parse_sources(sources, ()) if isinstance(sources, str) else dict.fromkeys(sources)
    if sources == "none" or (isinstance(sources, str) and not own_specs):
        raise UserError("--sources none: the arms of a recipe differ in their sources; name at least one")
    if not isinstance(sources, str) and own_specs.keys() <= set(sources_of(own_recipe)):
        own_specs = {}
    if own_specs and own_specs.keys() != {*sources_of(own_recipe)}.difference(own_recipe.fixed_sources):
        own_recipe = with_sources(own_recipe, list(own_specs))
    if models:
        own_recipe = with_models(own_recipe, models)
    if request.wording is not None:
        refuse_unused(request.wording, [arm.protocol or "madke" for arm in own_recipe.all_arms()])
    named = [str(item).rpartition("=") for item in data if not isinstance(item, Question | Mapping)]
    return ExperimentSpec(
        recipe=own_recipe,
        file=None if isinstance(recipe, Recipe) else recipe_file(str(recipe)),
        data=", ".join(writable(Path(path).name) for _, _, path in named),
        datasets=tuple(name for name, equals, _ in named if equals),
        questions=_questions(own_recipe, data, request),
        request=request,
        pools=[Path(file) for file in ([pools] if isinstance(pools, str | Path) else pools)],
        own_model=own,
        own_sources={} if isinstance(sources, str) else sources,
        own_specs=own_specs,
    )


def _questions(recipe: Recipe, data: QuestionSets, request: RunRequest) -> list[Question]:
    """The questions of all datasets, in order; if ids are not unique, each becomes ``DATASET/ID``."""
    task, limit, sample_seed = None if request.task is None else str(request.task), request.limit, request.sample_seed
    if not data:
        expected = f"; this recipe is made for {', '.join(recipe.datasets)}" if recipe.datasets else ""
        raise UserError(f"--data is missing; give the questions of the experiment{expected}")
    own = [item for item in data if isinstance(item, Question | Mapping)]
    records = questions_of_records(own, task=task, columns=request.columns) if own else []
    records = sample_of(records, limit, sample_seed)
    entries = [("questions", question) for question in records]
    for item in (item for item in data if not isinstance(item, Question | Mapping)):
        name, equals, path = str(item).rpartition("=")
        columns = {} if equals else request.columns
        read = read_dataset(Path(path), dataset=name if equals else None, task=task, columns=columns)
        listed = request.ids or recipe.ids.get(name or str(read[0].metadata.get("dataset")))
        read = select_questions(read, Path(path), ids=listed, limit=limit, seed=sample_seed)
        entries += [(name or Path(path).stem, question) for question in read]
    if len({question.id for _, question in entries}) == len(entries):
        return [question for _, question in entries]
    apart = [replace(question, id=f"{name}/{question.id}") for name, question in entries]
    id_, count = Counter(question.id for question in apart).most_common(1)[0]
    if count > 1:
        repeated = f"--data: {count} questions have the id {id_!r}"
        raise UserError(f"{repeated}; give each file a distinct NAME= and pass it once")
    return apart


def debaters_at_cost(target: float, unit: float) -> int:
    """The number of debaters, each of cost ``unit``, whose total cost is closest to ``target``."""
    return max(1, round(target / unit))
