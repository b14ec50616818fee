"""A recipe over sources or models that it does not name: those of the user, for every arm."""

import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from madke.core.errors import UserError
from madke.experiments.recipe import Arm, Changes, Recipe
from madke.models.model_names import split_address

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
    axes = {name: _over(axis, every, names) for name, axis in recipe.grid.items()}
    arms = _over({arm.name: arm for arm in recipe.arms}, every, names)
    bases = [*_over({"base": recipe.base}, every, names).values()]
    if len(bases) != 1:
        raise UserError("--sources: this recipe's base has one of several sources; use a copy with your sources")
    arms = {name: Arm(name=name, **_set(arm)) for name, arm in arms.items()}
    drawn = recipe.model_copy(update={"base": bases[0], "grid": axes, "arms": tuple(arms.values())})
    before = {arm.name: arm.sources for arm in recipe.all_arms()}
    after = {arm.name: arm.sources for arm in drawn.all_arms()}
    published = {
        model: {arm: figures for arm, figures in by_arm.items() if after.get(arm, ...) == before[arm]}
        for model, by_arm in recipe.published.items()
    }
    reference = recipe.reference if recipe.reference in after else None
    changed = {"base": bases[0], "grid": axes, "arms": [*arms.values()], "reference": reference, "published": published}
    return _changed(recipe, changed, "--sources")


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


def named_for(arm: str, model: str) -> str:
    """The name of an arm in its recipe: without that of the model, which :func:`with_models` adds."""
    return arm.removesuffix(f"-{_label(model)}") if model else arm


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
    new = [_relabelled(arm, label, model) for model, label in labels.items() for arm in arms]
    published = {
        backbone: {f"{arm}-{label}": figures for arm, figures in by_arm.items()}
        for backbone, by_arm in recipe.published.items()
        for model, label in labels.items()
        if same_model(model, backbone)
    }
    reference = f"{recipe.reference or arms[0].name}-{labels[models[0]]}"
    changed = {"grid": {}, "arms": new, "base": Changes(), "reference": reference, "published": published}
    return _changed(recipe, changed, "--models")


def _relabelled(arm: Arm, label: str, model: str) -> Arm:
    """The arm with a model, under a new name; the arms that it needs have new names too."""
    changes = {**_set(arm), "model": model}
    if first := arm.first_round:
        changes["first_round"] = first.model_copy(update={"arm": f"{first.arm}-{label}"})
    if match := arm.match_cost:
        needed = {"arm": f"{match.arm}-{label}", "unit": f"{match.unit}-{label}"}
        changes["match_cost"] = match.model_copy(update=needed)
    return Arm(name=f"{arm.name}-{label}", **changes)


def _changed(recipe: Recipe, changed: Mapping[str, object], option: str) -> Recipe:
    """The recipe with other arms; it keeps the kinds of all its figures, of which some may go."""
    kinds = {name: dict.fromkeys(held) for name, held in recipe.published_with.figures.items()}
    for _, _, dataset, metric, _ in recipe.figures():
        kinds.setdefault(dataset, {})[metric] = None
    made = recipe.published_with.model_copy(update={"figures": {name: tuple(held) for name, held in kinds.items()}})
    kept = {name: getattr(recipe, name) for name in Recipe.model_fields}
    try:
        return Recipe(**{**kept, **changed, "published_with": made})
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"{option}: this recipe cannot be changed: {why}") from None


def _set(changes: Changes) -> dict[str, object]:
    return {name: getattr(changes, name) for name in changes.model_fields_set if name != "name"}


def _label(model: str, *, whole: bool = False) -> str:
    """The label of a model: its name, unless ``whole`` without its kind, owner and address."""
    name = model if whole else split_address(model)[0].rpartition("/")[2]
    return _NOT_IN_NAMES.sub("-", name).strip("-._+") or "model"
