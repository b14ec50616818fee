"""A recipe: the arms of an experiment, as a YAML file describes them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from madke.assets import asset
from madke.core.errors import UserError, unknown
from madke.data.formats import FORMATS
from madke.scoring.debate_rows import GRADER
from madke.scoring.metrics import METRICS
from madke.yaml_file import line_of, read_yaml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_Name = Annotated[str, StringConstraints(pattern=rf"^{_NAME.pattern}$", max_length=100)]
_MOST_ARMS = 1000
_Count = Annotated[int, Field(ge=1, strict=True)]

_ALL = "all"
"""In ``published``: means over all datasets."""

_SHARES = (*METRICS, "correct", GRADER, "cons_judge", "cons_matcher")
_SHARES += tuple(f"co2_{by}" for by in ("judge", "matcher", "judge_grader", "matcher_grader"))
"""Figures that are shares, from 0 to 1."""

_OTHERS = re.compile(
    "corrected|collapsed|repaired|oracle|trapped(_debater)?|judge_tie|rounds|entropy|log_likelihood|disagreement|"
    "diversity|no_found|selected_ids|pool_recall|misinformation_selected|(sided_with|selection|share|changed)_.+|"
    "comet|bleurt"
)
"""What else :func:`madke.scoring.debate_rows.row` names, and the scorers of the papers."""

Place = tuple[str | int, ...]
"""The keys that lead to a part of a recipe's file."""


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

    def figures(self) -> Iterator[tuple[str, str, str, str, float]]:
        """Model, arm, dataset, metric and value of every figure of the source."""
        for model, by_arm in self.published.items():
            for arm, by_dataset in by_arm.items():
                for dataset, figures in by_dataset.items():
                    yield from ((model, arm, dataset, metric, value) for metric, value in figures.items())

    def places(self, number: int) -> list[Place]:
        """Where the arm of this number is described, what is most special first."""
        grid = prod(map(len, self.grid.values())) if self.grid else 0
        if number >= grid:
            return [("arms", number - grid), ("base",)]
        (labels,) = islice(product(*self.grid.values()), number, number + 1)
        axes = [("grid", axis, label) for axis, label in zip(self.grid, labels, strict=True)]
        return [*reversed(axes), ("base",)]


def _arm(name: str, changes: Changes) -> Arm:
    return Arm.model_validate({"name": name, **changes.model_dump(include=changes.model_fields_set)})


def recipe_files() -> dict[str, Path]:
    """Name -> file of every shipped recipe."""
    return {path.stem: path for path in sorted(asset("eval", "recipes").glob("*.yaml"))}


def recipe_file(name: str) -> Path:
    """The file of a shipped recipe's name; of a path to a YAML file, that file.

    Raises:
        UserError: There is no such recipe.
    """
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
        UserError: There is none, or it is wrong.
    """
    path = recipe_file(name)
    try:
        recipe = read_yaml(path, Recipe)
    except RecursionError:
        raise UserError("refers to itself", file=path) from None
    _check_names(recipe, path)
    return recipe


def _check_names(recipe: Recipe, file: Path) -> None:
    """Refuse published datasets that are none, and figures on another scale than ours."""
    for number, dataset in enumerate(recipe.datasets):
        if dataset not in FORMATS:
            line = line_of(file, ("datasets", number))
            raise UserError(f"datasets: {unknown('dataset', dataset, FORMATS)}", file=file, line=line)
    for *place, metric, value in recipe.figures():
        if metric in _SHARES and not 0 <= value <= 1:
            line = line_of(file, ("published", *place, metric))
            raise UserError(f"published: {metric} is a share, from 0 to 1; found {value:g}", file=file, line=line)


def remarks(recipe: Recipe, datasets: Collection[str]) -> list[str]:
    """What of a recipe's published figures will have nothing beside it: names that are ours to nobody's knowledge.

    Args:
        recipe: The recipe.
        datasets: Those of the experiment's questions. Other published ones are left out without a word: a part of the
            datasets makes an experiment too.
    """
    found: dict[str, None] = {}
    for _, _, dataset, metric, _ in recipe.figures():
        if dataset not in (known := (_ALL, *datasets, *FORMATS)):
            found[f"no question is of dataset {dataset!r}{_nearest(dataset, known)}"] = None
        if metric not in _SHARES and not _OTHERS.fullmatch(metric):
            scorer = f"only a scorer of that name can give it (madke score --scorer {metric}=COMMAND)"
            found[f"no metric is called {metric!r}{_nearest(metric, _SHARES)}; {scorer}"] = None
    return [f"published: {remark}" for remark in found]


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
