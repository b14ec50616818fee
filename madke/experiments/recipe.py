"""Recipes: the arms of an experiment, described in a YAML file, and over sources and models of the user's choice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from madke._util.assets import asset
from madke._util.yaml_file import line_of, read_yaml
from madke.core.errors import UserError, unknown
from madke.data.first_round import Draw
from madke.models.model_names import split_address
from madke.scoring.metrics import is_share

_Name = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=100)]
_Count = Annotated[int, Field(ge=1, strict=True)]


class FirstRoundOf(BaseModel, extra="forbid", frozen=True):
    """Use the first round of another arm, in the same or another order of debaters."""

    arm: _Name
    order: Literal["same", "reversed", "rotated", "other_question"] = "same"
    """``rotated``: the last stance comes first. ``other_question``: strangers bring the stances of another question."""
    draw: Draw | None = None
    """Right and wrong stances of all repeats of the other arm; questions with too few of a kind are left out."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.draw is not None and self.order != "same":
            raise ValueError("order is given with draw, which has its own; leave out one")
        if self.draw is not None and self.draw.read > 2 * self.draw.each:
            raise ValueError(f"draw: found read {self.draw.read}, expected at most twice {self.draw.each}")
        return self


class MatchCost(BaseModel, extra="forbid", frozen=True):
    """Choose the number of debaters (or samples) so that the arm costs as much as another arm."""

    arm: _Name
    by: Literal["calls", "tokens"] = "calls"
    """``tokens``: prompt and completion tokens together."""
    unit: _Name
    """An arm with one debater, whose cost is the cost per debater."""


class Changes(BaseModel, extra="forbid", frozen=True):
    """The settings of an arm; missing ones come from the recipe's ``base`` or are the defaults."""

    protocol: str | None = None
    sources: str | None = None
    """As for ``--sources``; ``none`` for no knowledge."""
    set: dict[str, Any] = {}
    """Protocol field -> value, as for ``--set``."""
    model: str | None = None
    cast: dict[str, str] = {}
    """Role -> model."""
    prompts: str | None = None
    """A folder with protocols in other words, searched first, as for ``--prompts``."""
    wording: str | None = None
    """``paper``, or a file, as for ``--wording``."""
    first_round: FirstRoundOf | None = None
    match_cost: MatchCost | None = None
    repeats: _Count | None = None
    seed: int | None = None

    def then(self, other: Changes) -> Changes:
        """These changes, overridden by ``other``."""
        merged = self.model_dump(exclude_unset=True) | other.model_dump(exclude_unset=True, exclude={"name"})
        return Changes.model_validate({**merged, "set": self.set | other.set, "cast": self.cast | other.cast})


class Arm(Changes):
    """One run of an experiment."""

    name: _Name

    @property
    def needs(self) -> tuple[str, ...]:
        """The arms that must be finished before this one."""
        match = self.match_cost
        first = (self.first_round.arm,) if self.first_round else ()
        return (*first, match.arm, match.unit) if match else first


class PublishedWith(BaseModel, extra="forbid", frozen=True):
    """How the source got its figures: what ours must share with them to be comparable, besides the model."""

    questions: dict[str, _Count] = {}
    """Dataset -> number of questions; default: the recipe's ``limit``."""
    sources: dict[str, str] = {}
    """Source -> a word that is in the description of the index or service that the paper used."""
    grader: str | None = None
    """The grading model."""
    figures: dict[str, tuple[str, ...]] = {}
    """Dataset -> metrics to show for arms without published figures, such as those of a model that the paper lacks."""


class Recipe(BaseModel, extra="forbid", frozen=True):
    """An experiment. Unknown keys are refused."""

    title: str
    source: str
    """The table or figure that it reproduces, or its purpose."""
    about: str = ""
    datasets: tuple[str, ...] = ()
    """The published datasets that the source used; ``--data`` gives their paths."""
    ids: dict[str, str] = {}
    """Dataset -> the list of ids that selects its questions: a shipped list's name, or a path."""
    limit: _Count | None = None
    """Maximum number of questions per dataset."""
    sample_seed: int | None = None
    repeats: _Count = 1
    """Debates per question, of arms that name no number; ``--repeats`` overrides it."""
    fixed_sources: tuple[str, ...] = ()
    """Sources that ``--sources`` does not replace, such as the passages of a dataset."""
    required_sources: dict[str, str] = {}
    """Source -> a word of its description, in lower case: the experiment is about such a source and refuses another."""
    model: str = "offline"
    base: Changes = Changes()
    """Settings of all arms."""
    grid: dict[_Name, Annotated[dict[_Name, Changes], Field(min_length=1)]] = {}
    """Axis -> label -> changes. Each combination of labels is an arm; its name joins the labels with hyphens."""
    arms: tuple[Arm, ...] = ()
    """Further arms, after those of the grid."""
    reference: _Name | None = None
    """The arm that the others are tested against; None: the first."""
    published: dict[str, dict[_Name, dict[str, dict[str, float]]]] = {}
    """The source's figures: model -> arm -> dataset (``all`` for means) -> metric -> value; metrics that are shares
    from 0 to 1."""
    published_with: PublishedWith = PublishedWith()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.grid and not self.arms:
            raise ValueError("a recipe needs a grid or arms")
        names: list[str] = []
        for arm in self.all_arms():
            if arm.name in names:
                raise ValueError(f"two arms have the name {arm.name!r}; names must be unique")
            if missing := [name for name in arm.needs if name not in names]:
                raise ValueError(f"arm {arm.name!r} needs arm {missing[0]!r}, which must be listed before it")
            names.append(arm.name)
        used = [self.reference] if self.reference else []
        used += [arm for arms in self.published.values() for arm in arms]
        if strange := [name for name in used if name not in names]:
            raise ValueError(f"no arm {strange[0]!r}; expected one of {', '.join(names)}")
        return self

    def all_arms(self) -> Iterator[Arm]:
        """Every arm with its full settings, in the order in which they run."""
        for labels in product(*self.grid.values()) if self.grid else ():
            changes = self.base
            for axis, label in zip(self.grid.values(), labels, strict=True):
                changes = changes.then(axis[label])
            yield Arm(name="-".join(labels), **_set(changes))
        for arm in self.arms:
            yield Arm(name=arm.name, **_set(self.base.then(arm)))

    def figures(self) -> Iterator[tuple[str, str, str, str, float]]:
        """(model, arm, dataset, metric, value) of every figure of the source."""
        for model, by_arm in self.published.items():
            for arm, by_dataset in by_arm.items():
                for dataset, figures in by_dataset.items():
                    yield from ((model, arm, dataset, metric, value) for metric, value in figures.items())


def _set(changes: Changes) -> dict[str, Any]:
    return {name: getattr(changes, name) for name in changes.model_fields_set if name != "name"}


def recipe_files() -> dict[str, Path]:
    """Name -> file of every shipped recipe."""
    return {path.stem: path for path in sorted(asset("eval", "recipes").glob("*.yaml"))}


def recipe_file(name: str) -> Path:
    """The file of a shipped recipe, or ``name`` itself if it is the path of a YAML file."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    shipped = recipe_files()
    if name not in shipped:
        raise unknown("recipe", name, shipped)
    return shipped[name]


def read_recipe(name: str) -> Recipe:
    """Read a recipe by its name or path; UserError if it is unknown or invalid."""
    file = recipe_file(name)
    recipe = read_yaml(file, Recipe)
    for *place, metric, value in recipe.figures():
        if is_share(metric) and not 0 <= value <= 1:
            line = line_of(file, ("published", *place, metric))
            raise UserError(f"published: {metric}: found {value:g}, expected a share from 0 to 1", file=file, line=line)
    return recipe


# The sources and models of the user, for every arm

ALL = "all"
"""The label of an arm with all sources of the user, next to one arm for each."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")


def sources_of(recipe: Recipe) -> list[str]:
    """The sources that the arms of a recipe name, in their order."""
    return list(dict.fromkeys(name for arm in recipe.all_arms() for name in _names(arm.sources)))


def _names(text: str | None) -> list[str]:
    """The names in the ``sources`` of an arm."""
    words = [] if text is None or text.strip() == "none" else text.split(",")
    return [word.partition("=")[0].strip() for word in words]


def with_sources(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """The recipe over sources with these names.

    Arms with all sources of the recipe get all of these. Where the recipe has an arm for each of its sources, the new
    one has an arm for each of these. ``fixed_sources`` of the recipe stay. Arms without ``sources`` do not change:
    they have those of their protocol, or none. The paper's figures stay with arms that keep their name and sources.

    Raises:
        UserError: An arm has only some of the recipe's sources, or the name of a source is that of an arm.
    """
    every = [name for name in sources_of(recipe) if name not in recipe.fixed_sources]
    bases = [*_over({"base": recipe.base}, every, names).values()]
    if len(bases) != 1:
        raise UserError("--sources: this recipe's base has one of several sources; use a copy with your sources")
    arms = _over({arm.name: arm for arm in recipe.arms}, every, names)
    changed: dict[str, Any] = {
        "base": bases[0],
        "grid": {name: _over(axis, every, names) for name, axis in recipe.grid.items()},
        "arms": tuple(Arm(name=name, **_set(arm)) for name, arm in arms.items()),
    }
    before = {arm.name: arm.sources for arm in recipe.all_arms()}
    after = {arm.name: arm.sources for arm in recipe.model_copy(update=changed).all_arms()}
    changed["reference"] = recipe.reference if recipe.reference in after else None
    changed["published"] = {
        model: {arm: figures for arm, figures in by_arm.items() if after.get(arm, ...) == before[arm]}
        for model, by_arm in recipe.published.items()
    }
    return _with_arms(recipe, changed, "--sources")


def _over(labelled: Mapping[str, Changes], every: Sequence[str], names: Sequence[str]) -> dict[str, Changes]:
    """Label -> changes, over the sources ``names`` instead of ``every``."""
    used = {label: set(_names(changes.sources)).intersection(every) for label, changes in labelled.items()}
    one_each = any(len(some) == 1 < len(every) for some in used.values())
    new: list[tuple[str, Changes]] = []
    for label, changes in labelled.items():
        some = used[label]
        if some and (len(some) != len(_names(changes.sources)) or len(some) not in (1, len(every))):
            raise UserError(f"--sources: {label!r} has some of the recipe's sources; use a copy with your sources")
        if not some:
            new.append((label, changes))
        elif len(some) == len(every):
            if not one_each or len(names) > 1:
                sources = changes.model_copy(update={"sources": ",".join(names)})
                new.append((ALL if one_each else label, sources))
        elif some == {every[0]}:  # the arms of the other single sources go
            new += [(name, changes.model_copy(update={"sources": name})) for name in names]
    labels = [label for label, _ in new]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise UserError(f"--sources: {twice[0]!r} is the name of an arm; name the source with another NAME=")
    return dict(new)


_SNAPSHOT = re.compile(r"-(\d{4}|\d{4}-\d{2}-\d{2})$")


def same_model(name: str, published: str) -> bool:
    """Whether a model, as ``--model`` names it, is the one that a paper names.

    The kind, the owner, the address and the case of letters do not count, nor the date of a snapshot: with
    ``GPT-3.5-Turbo``, ``openai/gpt-3.5-turbo-0613`` is the same, and ``openai/gpt-3.5-turbo-16k`` is not.
    """
    own = split_address(name)[0].rpartition("/")[2]
    return published.casefold() in (own.casefold(), _SNAPSHOT.sub("", own).casefold())


def with_models(recipe: Recipe, models: Sequence[str]) -> Recipe:
    """The recipe with each arm once for every model, whose name follows that of the arm.

    The paper's figures follow the arms of the same model. Ours are shown alone for a model that the paper does not
    have.

    Raises:
        UserError: An arm names its model, a model is named twice, or one has no name.
    """
    arms = [*recipe.all_arms()]
    if named := [arm.name for arm in arms if arm.model or arm.cast]:
        raise UserError(f"--models: arm {named[0]!r} of this recipe names its models; leave out --models")
    labels = {model: _label(model) for model in models}
    if len({*labels.values()}) < len(labels):
        labels = {model: _label(model, whole=True) for model in models}
    if not all(labels) or len(labels) < len(models):
        raise UserError("--models: a model is named twice" if all(labels) else "--models: expected MODEL,...")
    new = [_relabel(arm, label, model) for model, label in labels.items() for arm in arms]
    published = {
        backbone: {f"{arm}-{label}": figures for arm, figures in by_arm.items()}
        for backbone, by_arm in recipe.published.items()
        for model, label in labels.items()
        if same_model(model, backbone)
    }
    reference = f"{recipe.reference or arms[0].name}-{labels[models[0]]}"
    changed = {"grid": {}, "arms": new, "base": Changes(), "reference": reference, "published": published}
    return _with_arms(recipe, changed, "--models")


def _relabel(arm: Arm, label: str, model: str) -> Arm:
    """The arm with a model, under a new name; the arms that it needs have new names too."""
    changes = {**_set(arm), "model": model}
    if first := arm.first_round:
        changes["first_round"] = first.model_copy(update={"arm": f"{first.arm}-{label}"})
    if match := arm.match_cost:
        needed = {"arm": f"{match.arm}-{label}", "unit": f"{match.unit}-{label}"}
        changes["match_cost"] = match.model_copy(update=needed)
    return Arm(name=f"{arm.name}-{label}", **changes)


def _with_arms(recipe: Recipe, changed: Mapping[str, object], option: str) -> Recipe:
    """The recipe with other arms; it keeps the kinds of all its figures, of which some may go."""
    kinds = {name: dict.fromkeys(metrics) for name, metrics in recipe.published_with.figures.items()}
    for _, _, dataset, metric, _ in recipe.figures():
        kinds.setdefault(dataset, {})[metric] = None
    figures = {name: tuple(metrics) for name, metrics in kinds.items()}
    published = recipe.published_with.model_copy(update={"figures": figures})
    kept = {name: getattr(recipe, name) for name in Recipe.model_fields}
    try:
        return Recipe(**{**kept, **changed, "published_with": published})
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"{option}: this recipe cannot be changed: {why}") from None


def _label(model: str, *, whole: bool = False) -> str:
    """The label of a model: its name, unless ``whole`` without its kind, owner and address."""
    name = model if whole else split_address(model)[0].rpartition("/")[2]
    return _NOT_IN_NAMES.sub("-", name).strip("-._+") or "model"
