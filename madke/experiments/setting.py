"""What the arms of one experiment share, and the run that each of them is."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from madke.core.chat import ChatModel
from madke.core.errors import UserError
from madke.core.question import Question
from madke.data import Given
from madke.experiments.recipe import Arm, Recipe
from madke.knowledge.named import known_sources, resolve, source_specs
from madke.knowledge.pool_file import read_pools, sources_in
from madke.llm import close, kind_of, open_model, refuse_two_addresses
from madke.runs.cast import has_endpoint, role_models
from madke.runs.config import questions_sha256
from madke.runs.job import Job, configured
from madke.variants import Variant, load_variant
from madke.yaml_file import line_of


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the arms of one experiment share."""

    recipe: Recipe
    file: Path | None = None
    """Where the recipe stands, for errors."""
    data: str
    """The datasets' file names, for people."""
    datasets: Sequence[str] = ()
    """The published forms that they were read as."""
    sample_seed: int | None = None
    questions: Sequence[Question]
    base_url: str | None = None
    pools: Sequence[Path] = ()
    """Pool files that are there; sources that none of them holds are asked."""
    prompts: Path | None = None
    estimator: str | None = None
    repeats: int = 1
    seed: int = 0

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """In the order in which they run."""
        return tuple(self.recipe.all_arms())

    def specs(self, arm: Arm) -> dict[str, str | None]:
        """Source name -> specification, for one arm."""
        sources = self._variant(arm).protocol.sources
        try:
            return source_specs(arm.sources, sources)
        except UserError as error:
            raise self._refusal(arm, error, "sources") from None

    def all_specs(self) -> dict[str, str | None]:
        """The same for all arms together.

        Raises:
            UserError: Two arms mean different things by one name.
        """
        found: dict[str, str | None] = {}
        for arm in self.arms:
            for name, spec in self.specs(arm).items():
                if found.setdefault(name, spec) != spec:
                    error = UserError(f"source {name!r} is {spec!r}, and {found[name]!r} before")
                    raise self._refusal(arm, error, "sources")
        return found

    @cached_property
    def held(self) -> frozenset[str]:
        """The sources that the pool files hold.

        Raises:
            UserError: A pool file is wrong.
        """
        return frozenset(source for file in self.pools for source in sources_in(read_pools(file).values()))

    def unknown_sources(self) -> list[UserError]:
        """What is wrong with names of sources that no pool file holds and nothing serves; one for each name."""
        known = known_sources()
        named: dict[str, Arm] = {}
        for arm in self.arms:
            for name, spec in self.specs(arm).items():
                if spec is None and name not in known:
                    named.setdefault(name, arm)
        found = []
        for name, arm in named.items():
            if name not in self.held:
                try:
                    resolve(name)
                except UserError as error:
                    found.append(self._refusal(arm, error, "sources"))
        return found

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The run of each arm, as far as it is known before any has run."""
        return tuple(self.job(arm) for arm in self.arms)

    @cached_property
    def data_sha256(self) -> str:
        """Of the questions, see :func:`madke.runs.config.questions_sha256`."""
        return questions_sha256(self.questions)

    def job(self, arm: Arm, *, given: Given | None = None, debaters: int | None = None) -> Job:
        """The run of one arm.

        Args:
            arm: One of the recipe's.
            given: Its first round, where the arm has one of another's.
            debaters: Their number, where it follows from what another arm cost.
        """
        fields = {**arm.set, "debaters": debaters} if debaters is not None else arm.set
        variant, specs = self._variant(arm), self.specs(arm)
        try:
            variant, specs = configured(variant, specs, fields, given=arm.given is not None)
        except UserError as error:
            # What the command line calls --set is a key here.
            raise self._refusal(arm, UserError(str(error).removeprefix("--")), "set") from None
        seed = self.seed if arm.seed is None else arm.seed
        try:
            models = role_models(variant.protocol, arm.model or self.recipe.model, arm.cast)
        except UserError as error:
            raise self._refusal(arm, error, "cast") from None
        return Job(
            data=self.data,
            data_sha256=self.data_sha256,
            dataset=", ".join(self.datasets) or None,
            sample_seed=self.sample_seed,
            questions=self.questions,
            variant=variant,
            models=models,
            base_url=self.base_url if any(map(has_endpoint, models.values())) else None,
            source_specs=specs,
            given=given,
            estimator=self.estimator if variant.protocol.needs_estimator else None,
            seed=seed if seed >= 0 else None,
            repeats=arm.repeats or self.repeats,
        )

    def check_units(self) -> None:
        """Refuse a unit of cost that is not one debater's.

        Raises:
            UserError: It is that of an arm with more.
        """
        counts = {arm.name: len(job.variant.protocol.cast) for arm, job in zip(self.arms, self.jobs, strict=True)}
        for arm in self.arms:
            if (dear := arm.debaters_for) and counts[dear.unit] != 1:
                found = f"debaters_for: the unit {dear.unit!r} has {counts[dear.unit]} debaters; expected an arm of one"
                raise self._refusal(arm, UserError(found), "debaters_for", "unit")

    def open_all(self, asking: Collection[str] = ()) -> dict[str, Mapping[str, str]]:
        """Open every model of every arm as far as that asks nobody and loads no weights, and close it again.

        Args:
            asking: The arms whose models will be asked; those of the others need no key.

        Returns:
            Arm -> role -> the model's own name, with its endpoint.

        Raises:
            UserError: There is no such model, or it cannot be opened.
        """
        opened: dict[tuple[str, bool], ChatModel] = {}
        found: dict[str, Mapping[str, str]] = {}
        try:
            for arm, job in zip(self.arms, self.jobs, strict=True):
                for name in job.models.values():
                    asked = arm.name in asking and kind_of(name) != "hf"
                    if (name, asked) not in opened:
                        base_url = self.base_url if has_endpoint(name) else None
                        try:
                            opened[name, asked] = open_model(name, base_url=base_url, replay=not asked)
                        except UserError as error:
                            keys = _says_model(arm, name)
                            raise (self._refusal(arm, error, *keys) if keys else error) from None
                asked_of = {name: model.name for (name, _), model in opened.items()}
                found[arm.name] = {role: asked_of[name] for role, name in job.models.items()}
            refuse_two_addresses(opened.values())
        finally:
            asyncio.run(_close(opened.values()))
        return found

    def _variant(self, arm: Arm) -> Variant:
        name = arm.protocol or "madke"
        if name not in self._variants:
            try:
                self._variants[name] = load_variant(name, self.prompts)
            except UserError as error:
                raise self._refusal(arm, error, "protocol") from None
        return self._variants[name]

    @cached_property
    def _variants(self) -> dict[str, Variant]:
        """The protocols that are loaded already, each once."""
        return {}

    def _refusal(self, arm: Arm, error: UserError, *keys: str) -> UserError:
        """The error with its arm, and where the recipe says what is wrong there."""
        return UserError(f"arm {arm.name!r}: {error}", file=self.file, line=self._line(arm, keys))

    def _line(self, arm: Arm, keys: Sequence[str]) -> int | None:
        if self.file is None:
            return None
        number = next(number for number, other in enumerate(self.arms) if other.name == arm.name)
        places = self.recipe.places(number)
        for place in (*((*place, *keys) for place in places), places[0]):
            if line := line_of(self.file, place, whole=True):
                return line
        return None


def _says_model(arm: Arm, name: str) -> tuple[str, ...]:
    """Under which key an arm names a model; none where it is everybody's (--model)."""
    role = next((role for role, model in arm.cast.items() if model == name), None)
    if role is not None:
        return ("cast", role)
    return ("model",) if arm.model == name else ()


async def _close(models: Collection[ChatModel]) -> None:
    for model in models:
        await close(model)


def debaters_for(target: float, unit: float) -> int:
    """How many debaters of one cost come nearest to another."""
    return max(1, round(target / unit))
