"""A recipe: the arms of an experiment, as a YAML file describes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from madke.assets import asset
from madke.core.errors import UserError, unknown
from madke.data.formats import READERS
from madke.scoring.debate_rows import GRADER
from madke.scoring.metrics import METRICS
from madke.yaml_file import line_of, read_yaml

_Name = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=100)]
_MOST_ARMS = 1000
_Count = Annotated[int, Field(ge=1, strict=True)]

_SHARES = (*METRICS, "correct", GRADER, "cons_judge", "cons_matcher")
_SHARES += tuple(f"co2_{by}" for by in ("judge", "matcher", "judge_grader", "matcher_grader"))
"""Figures that are shares, from 0 to 1."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FirstRoundOf(_Strict):
    """The first round of another arm, taken over, in the same order of debaters or another."""

    arm: _Name
    order: Literal["same", "reversed", "rotated"] = "same"
    """``rotated``: the last becomes the first."""


class MatchCost(_Strict):
    """As many debaters (or samples) as cost what another arm costs."""

    arm: _Name
    by: Literal["calls", "tokens"] = "calls"
    """``tokens``: prompt and completion tokens together."""
    unit: _Name
    """The arm whose cost is that of one debater; it has one."""


class Changes(_Strict):
    """What an arm says about its run; what it leaves out is said by the arms' common base, or has the usual default."""

    protocol: str | None = None
    sources: str | None = None
    """As ``--sources`` takes it; ``none`` for no knowledge."""
    set: dict[str, Any] = {}
    """Protocol field -> value, as ``--set`` takes them."""
    model: str | None = None
    cast: dict[str, str] = {}
    """Role -> model."""
    first_round: FirstRoundOf | None = None
    match_cost: MatchCost | None = None
    repeats: _Count | None = None
    seed: int | None = None

    def then(self, other: Changes) -> Changes:
        """These changes with others on top of them."""
        said = self.model_dump(exclude_unset=True) | other.model_dump(exclude_unset=True, exclude={"name"})
        return Changes.model_validate({**said, "set": self.set | other.set, "cast": self.cast | other.cast})


class Arm(Changes):
    """One run of an experiment."""

    name: _Name

    @property
    def needs(self) -> tuple[str, ...]:
        """The arms that must be finished before this one."""
        match = self.match_cost
        return (*((self.first_round.arm,) if self.first_round else ()), *((match.arm, match.unit) if match else ()))


class Recipe(_Strict):
    """An experiment. Unknown keys are refused."""

    title: str
    source: str
    """The table or figure that it follows, or why it was made."""
    about: str = ""
    datasets: tuple[str, ...] = ()
    """The published datasets that the source used; ``--data`` says where they are."""
    ids: dict[str, str] = {}
    """Dataset -> the list of ids that chooses its questions: a shipped list's name, or a path."""
    limit: _Count | None = None
    """Questions of each dataset."""
    sample_seed: int | None = None
    model: str = "offline"
    base: Changes = Changes()
    """What all arms have in common."""
    grid: dict[_Name, Annotated[dict[_Name, Changes], Field(min_length=1)]] = {}
    """Axis -> label -> changes. There is an arm for each combination, named by its labels, joined by hyphens."""
    arms: tuple[Arm, ...] = ()
    """Further arms, after those of the grid."""
    reference: _Name | None = None
    """The arm that the others are tested against; None: the first."""
    published: dict[str, dict[_Name, dict[str, dict[str, float]]]] = {}
    """The source's figures: its model -> arm -> dataset (``all`` for means) -> metric -> value, on the metric's scale
    of 0 to 1 where it has one."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.grid and not self.arms:
            raise ValueError("a recipe needs a grid, or arms")
        if (count := len(self.arms) + self._in_grid) > _MOST_ARMS:
            raise ValueError(f"the grid and the arms make {count:,} arms; expected at most {_MOST_ARMS:,}")
        there: list[str] = []
        for arm in self.all_arms():
            if arm.name in there:
                raise ValueError(f"two arms are called {arm.name!r}")
            if missing := [name for name in arm.needs if name not in there]:
                raise ValueError(f"arm {arm.name!r} needs arm {missing[0]!r}, which does not stand before it")
            there.append(arm.name)
        named = [self.reference] if self.reference else []
        named += [arm for arms in self.published.values() for arm in arms]
        if strange := [name for name in named if name not in there]:
            raise ValueError(f"there is no arm {strange[0]!r}, only {', '.join(there)}")
        return self

    @property
    def _in_grid(self) -> int:
        return prod(map(len, self.grid.values())) if self.grid else 0

    def all_arms(self) -> Iterator[Arm]:
        """Every arm with all that is said about it, in the order in which they run."""
        for labels in product(*self.grid.values()) if self.grid else ():
            changes = self.base
            for axis, label in zip(self.grid.values(), labels, strict=True):
                changes = changes.then(axis[label])
            yield _arm("-".join(labels), changes)
        for arm in self.arms:
            yield _arm(arm.name, self.base.then(arm))

    def figures(self) -> Iterator[tuple[str, str, str, str, float]]:
        """Model, arm, dataset, metric and value of every figure of the source."""
        for model, by_arm in self.published.items():
            for arm, by_dataset in by_arm.items():
                for dataset, figures in by_dataset.items():
                    yield from ((model, arm, dataset, metric, value) for metric, value in figures.items())

    def place(self, number: int) -> tuple[str | int, ...]:
        """The keys that lead to the arm of this number in the recipe's file; in a grid, to its last label."""
        if number >= self._in_grid:
            return ("arms", number - self._in_grid)
        (labels,) = islice(product(*self.grid.values()), number, number + 1)
        return ("grid", [*self.grid][-1], labels[-1])


def _arm(name: str, changes: Changes) -> Arm:
    return Arm.model_validate({"name": name, **changes.model_dump(include=changes.model_fields_set)})


def recipe_files() -> dict[str, Path]:
    """Name -> file of every shipped recipe."""
    return {path.stem: path for path in sorted(asset("eval", "recipes").glob("*.yaml"))}


def recipe_file(name: str) -> Path:
    """The file of a shipped recipe's name; of a path to a YAML file, that file."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    shipped = recipe_files()
    if name not in shipped:
        raise unknown("recipe", name, shipped)
    return shipped[name]


def read_recipe(name: str) -> Recipe:
    """The recipe of that name, or in the file of that path.

    Raises:
        UserError: There is none, it is wrong, a dataset has no reader, or a figure is not on our scale.
    """
    file = recipe_file(name)
    recipe = read_yaml(file, Recipe)
    for number, dataset in enumerate(recipe.datasets):
        if dataset not in READERS and ":" not in dataset:  # only --data imports a module that is named
            line = line_of(file, ("datasets", number))
            raise UserError(f"datasets: {unknown('dataset', dataset, READERS)}", file=file, line=line)
    for *place, metric, value in recipe.figures():
        if metric in _SHARES and not 0 <= value <= 1:
            line = line_of(file, ("published", *place, metric))
            raise UserError(f"published: {metric} is a share, from 0 to 1; found {value:g}", file=file, line=line)
    return recipe
