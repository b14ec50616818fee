"""What the arms of one experiment share, the run that each of them is, and what each will take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.data import Given
from madke.experiments.plan import Planned, Planner
from madke.experiments.recipe import Arm, Recipe
from madke.runs.cast import has_endpoint, role_models
from madke.runs.config import questions_sha256
from madke.runs.job import Job
from madke.runs.pools import RunPools
from madke.variants import Variant, load_variant

Sources = Callable[[str | None, Sequence[str]], dict[str, str | None]]
"""``--sources`` and the protocol's own names -> source name -> specification."""


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
    sources: Sources
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
        knowledge = self._variants[arm.protocol or "madke"].protocol.knowledge
        return self.sources(arm.sources, knowledge.sources if knowledge else ())

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
        specs = self.specs(arm)
        try:
            variant = self._variant(arm, specs, debaters)
        except UserError as error:
            raise UserError(f"arm {arm.name!r}: {error}") from None
        seed = self.seed if arm.seed is None else arm.seed
        models = role_models(variant.protocol, arm.model or self.recipe.model, arm.cast)
        kept = variant.protocol.knowledge.sources if variant.protocol.knowledge else ()
        return Job(
            data=self.data,
            data_sha256=self.data_sha256,
            dataset=", ".join(self.datasets) or None,
            sample_seed=self.sample_seed,
            questions=self.questions,
            variant=variant,
            models=models,
            base_url=self.base_url if any(map(has_endpoint, models.values())) else None,
            source_specs={name: specs.get(name) for name in kept},
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

    def _variant(self, arm: Arm, specs: Mapping[str, str | None], debaters: int | None) -> Variant:
        variant = self._variants[arm.protocol or "madke"].with_sources(list(specs))
        fields = dict(arm.set)
        if arm.given:
            fields["given"] = True
        if debaters is not None:
            fields["debaters"] = debaters
        return variant.with_settings(fields)


def debaters_for(target: float, unit: float) -> int:
    """How many debaters of one cost come nearest to another."""
    return max(1, round(target / unit))


def planned(setting: Setting, planner: Planner, pools: Path | None) -> list[Planned]:
    """What each arm takes, calls that arms share counted for the first of them alone.

    Args:
        setting: The experiment.
        planner: Knows prices.
        pools: The pool file, if it is there.

    Raises:
        UserError: An arm cannot be run.
    """
    plans: dict[str, Planned] = {}
    debaters_of: dict[str, int] = {}
    for arm in setting.arms:
        debaters = None
        if arm.debaters_for is not None:
            target, unit = (plans[name] for name in (arm.debaters_for.arm, arm.debaters_for.unit))
            debaters = debaters_for(_middle(target, arm.debaters_for.by), _middle(unit, arm.debaters_for.by))
        job = setting.job(arm, debaters=debaters)
        protocol = job.variant.protocol
        debaters_of[arm.name] = len(protocol.cast)
        pool_of = RunPools(pools, protocol.knowledge, setting.questions).of if pools and protocol.knowledge else None
        given = debaters_of[arm.given.arm] if arm.given else 0
        order = f"{protocol.order.by} {arm.given.arm} {arm.given.order}" if arm.given else protocol.order.by
        plans[arm.name] = planner.plan(arm.name, job, pool_of, given=given, order=order)
    return list(plans.values())


def _middle(plan: Planned, what: str) -> float:
    """Calls or tokens of a debate, half way between the shortest and the longest."""
    loads = (plan.least, plan.most)
    if what == "calls":
        return sum(load.calls for load in loads) / 2 / plan.debates
    return sum(load.all_tokens for load in loads) / 2 / plan.debates
