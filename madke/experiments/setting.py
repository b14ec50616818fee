"""What the arms of one experiment share, and the run that each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.data import Given
from madke.experiments.recipe import Arm, Recipe
from madke.indexing.named import source_specs
from madke.runs.cast import has_endpoint, role_models
from madke.runs.config import questions_sha256
from madke.runs.job import Job, configured
from madke.variants import Variant, load_variant


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the arms of one experiment share."""

    recipe: Recipe
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
        return source_specs(arm.sources, self._variant(arm).protocol.sources)

    def all_specs(self) -> dict[str, str | None]:
        """The same for all arms together.

        Raises:
            UserError: Two arms mean different things by one name.
        """
        found: dict[str, str | None] = {}
        for arm in self.arms:
            for name, spec in self.specs(arm).items():
                if found.setdefault(name, spec) != spec:
                    raise UserError(f"arm {arm.name!r}: source {name!r} is {spec!r}, and {found[name]!r} before")
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
        try:
            variant, specs = configured(self._variant(arm), self.specs(arm), fields, given=arm.given is not None)
        except UserError as error:
            raise UserError(f"arm {arm.name!r}: {error}") from None
        seed = self.seed if arm.seed is None else arm.seed
        models = role_models(variant.protocol, arm.model or self.recipe.model, arm.cast)
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

    @cached_property
    def _variants(self) -> dict[str, Variant]:
        """Every protocol that an arm names, loaded once."""
        names = {arm.protocol or "madke" for arm in self.arms}
        return {name: load_variant(name, self.prompts) for name in sorted(names)}

    def _variant(self, arm: Arm) -> Variant:
        return self._variants[arm.protocol or "madke"]


def debaters_for(target: float, unit: float) -> int:
    """How many debaters of one cost come nearest to another."""
    return max(1, round(target / unit))
