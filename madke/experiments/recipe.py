"""A recipe: the arms of an experiment, as a YAML file describes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from madke.assets import asset
from madke.core.errors import UserError, unknown
from madke.yaml_file import read_yaml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_Name = Annotated[str, StringConstraints(pattern=rf"^{_NAME.pattern}$", max_length=100)]
_MOST_ARMS = 1000
_Count = Annotated[int, Field(ge=1, strict=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FirstRoundOf(_Strict):
    """The first round of another arm, taken over, in the same order of debaters or another."""

    arm: _Name
    order: Literal["same", "reversed", "rotated"] = "same"
    """``rotated``: the last becomes the first."""


class AsDearAs(_Strict):
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
    given: FirstRoundOf | None = None
    debaters_for: AsDearAs | None = None
    repeats: _Count | None = None
    seed: int | None = None

    def then(self, other: Changes) -> Changes:
        """These changes with others on top of them."""
        said = {name: getattr(other, name) for name in Changes.model_fields if name in other.model_fields_set}
        merged = {name: getattr(self, name) | said.get(name, {}) for name in ("set", "cast")}
        return Changes.model_validate({**self.model_dump(include=self.model_fields_set), **_plain(said), **merged})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.model_dump() if isinstance(value, BaseModel) else value for name, value in values.items()}


class Arm(Changes):
    """One run of an experiment."""

    name: _Name

    @property
    def needs(self) -> tuple[str, ...]:
        """The arms that must be finished before this one."""
        dear = self.debaters_for
        return (*((self.given.arm,) if self.given else ()), *((dear.arm, dear.unit) if dear else ()))


class Recipe(_Strict):
    """An experiment. Unknown keys are refused."""

    title: str
    source: str
    """The table or figure that it follows, or why it was made."""
    about: str = ""
    datasets: tuple[str, ...] = ()
    """The published datasets that the source used; ``--data`` says where they are."""
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
        count = len(self.arms) + (prod(map(len, self.grid.values())) if self.grid else 0)
        if count > _MOST_ARMS:
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

    def all_arms(self) -> Iterator[Arm]:
        """Every arm with all that is said about it, in the order in which they run."""
        for labels in product(*self.grid.values()) if self.grid else ():
            changes = self.base
            for axis, label in zip(self.grid.values(), labels, strict=True):
                changes = changes.then(axis[label])
            yield _arm("-".join(labels), changes)
        for arm in self.arms:
            yield _arm(arm.name, self.base.then(arm))


def _arm(name: str, changes: Changes) -> Arm:
    return Arm.model_validate({"name": name, **changes.model_dump(include=changes.model_fields_set)})


def recipe_files() -> dict[str, Path]:
    """Name -> file of every shipped recipe."""
    return {path.stem: path for path in sorted(asset("eval", "recipes").glob("*.yaml"))}


def read_recipe(name: str) -> Recipe:
    """The recipe of that name, or in the file of that path.

    Raises:
        UserError: There is none, or it is wrong.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        shipped = recipe_files()
        if name not in shipped:
            raise unknown("recipe", name, shipped)
        path = shipped[name]
    try:
        return read_yaml(path, Recipe)
    except RecursionError:
        raise UserError("refers to itself", file=path) from None
