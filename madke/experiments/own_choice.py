"""A recipe over sources, models or prompts that it does not name: those of the user, for every arm."""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from pydantic import ValidationError

from madke.core.errors import UserError
from madke.engine.wording import PAPER, worded
from madke.experiments.recipe import Arm, Changes, PublishedWith, Recipe
from madke.models.model_names import split_address

ALL = "all"
"""The label of an arm with all sources of the user, next to one arm for each."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")


def with_sources(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """The recipe over sources with these names.

    The paper's figures stay with the arms that keep their names, and ``other_sources`` names those of them that have
    other sources now: their figures are not comparable.

    Arms with all sources of the recipe get all of these. Where the recipe has an arm for each of its sources, the new
    one has an arm for each of these. ``fixed_sources`` of the recipe stay. Arms without ``sources`` do not change:
    they have those of their protocol, or none.

    Raises:
        UserError: An arm has only some of the recipe's sources, or the name of a source is that of an arm.
    """
    every = [name for name in sources_of(recipe) if name not in recipe.fixed_sources]
    axes = {name: _replaced(axis, every, names) for name, axis in recipe.grid.items()}
    arms = _replaced({arm.name: arm for arm in recipe.arms}, every, names)
    first = {axis: {old: next(iter(new), "") for old, new in labels.items()} for axis, labels in axes.items()}
    renamed = {old: next(iter(new), "") for old, new in arms.items()}
    for labels in product(*(labels.items() for labels in first.values())):
        new = [label for _, label in labels]
        renamed["-".join(old for old, _ in labels)] = "-".join(new) if all(new) else ""
    base = _replaced({"base": recipe.base}, every, names)["base"]
    if len(base) != 1:
        raise UserError("--sources: this recipe's base has one of several sources; use a copy with your sources")
    changed = {
        "base": next(iter(base.values())),
        "grid": {name: _joined(axis) for name, axis in axes.items()},
        "arms": [Arm(name=name, **_set(arm)) for name, arm in _joined(arms).items()],
        "reference": renamed.get(recipe.reference or "", "") or None,
        "published": {
            model: {arm: figures for arm, figures in by_arm.items() if renamed[arm] == arm}
            for model, by_arm in recipe.published.items()
        },
    }
    found = _changed(recipe, changed, "--sources")
    before = {arm.name: arm.sources for arm in recipe.all_arms()}
    other = [arm.name for arm in found.all_arms() if before.get(arm.name, arm.sources) != arm.sources]
    return found.model_copy(update={"published_with": _published_with(recipe, other_sources=other)})


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
    return arm.removesuffix(f"-{_short(model)}") if model else arm


def with_models(recipe: Recipe, models: Sequence[str]) -> Recipe:
    """The recipe with each arm once for every model, whose name follows that of the arm.

    The paper's figures follow the arms of the same model. Ours are shown alone for a model that the paper does not
    have.

    Raises:
        UserError: An arm names its model, a model is named twice, or one has no name.
    """
    if named := [arm.name for arm in recipe.all_arms() if arm.model or arm.cast]:
        raise UserError(f"--models: arm {named[0]!r} of this recipe names its models; leave out --models")
    if not models or not all(models):
        raise UserError("--models: expected MODEL,..., found an empty name")
    if len(set(models)) < len(models):
        raise UserError("--models: a model is named twice")
    short = [_short(model) for model in models]
    labels = short if len(set(short)) == len(short) else [_label(model) for model in models]
    named_arms = [arm.name for arm in recipe.all_arms()]
    arms = [
        _relabelled(arm, {name: f"{name}-{label}" for name in named_arms}, model=model)
        for model, label in zip(models, labels, strict=True)
        for arm in recipe.all_arms()
    ]
    reference = recipe.reference or named_arms[0]
    published = {
        backbone: {f"{arm}-{label}": figures for arm, figures in by_arm.items()}
        for backbone, by_arm in recipe.published.items()
        for model, label in zip(models, labels, strict=True)
        if same_model(model, backbone)
    }
    changed: dict[str, object] = {"grid": {}, "arms": arms, "base": Changes()}
    changed["reference"] = f"{reference}-{labels[0]}"
    changed["published"] = published
    other = [f"{arm}-{label}" for label in labels for arm in recipe.published_with.other_sources]
    changed["published_with"] = _published_with(recipe, other_sources=other)
    return _changed(recipe, changed, "--models")


SHIPPED = "shipped"
"""The label of an arm with madke's prompts, next to one for each of the user's folders."""


def with_wordings(recipe: Recipe, wordings: Sequence[Path]) -> Recipe:
    """The recipe with each arm once more for every wording that has its protocol: ``paper``, a file, or a folder.

    The name of such an arm ends with that of the wording, and ends with ``shipped`` for madke's own words. Arms of
    other protocols do not change. The paper's figures stay with the shipped words.

    Raises:
        UserError: A wording is missing or has none of the protocols, or two have the same name.
    """
    arms = {arm.name: arm for arm in recipe.all_arms()}
    if named := [name for name, arm in arms.items() if arm.prompts or arm.wording]:
        raise UserError(f"--wordings: arm {named[0]!r} of this recipe names its words; leave out --wordings")
    labels = [_label(each.resolve().name.removesuffix(".yaml")) for each in wordings]
    if twice := [label for label in labels if [SHIPPED, *labels].count(label) > 1]:
        raise UserError(f"--wordings: the label {twice[0]!r} is used twice; rename a file or folder")
    new: list[Arm] = []
    protocols = {name: arm.protocol or "madke" for name, arm in arms.items()}
    has = [_protocols_of(each) for each in wordings]
    for each, found in zip(wordings, has, strict=True):
        if not found & {*protocols.values()}:
            raise UserError(f"--wordings: has none of {', '.join(dict.fromkeys(protocols.values()))}", file=each)
    twofold = {name for name, protocol in protocols.items() if any(protocol in found for found in has)}
    shipped = {name: f"{name}-{SHIPPED}" if name in twofold else name for name in arms}
    new += [_relabelled(arm, shipped) for arm in arms.values()]
    for each, label, found in zip(wordings, labels, has, strict=True):
        here = {name for name, protocol in protocols.items() if protocol in found}
        names = {name: f"{name}-{label}" if name in here else shipped[name] for name in arms}
        words = {"prompts" if _is_folder(each) else "wording": str(each)}
        new += [_relabelled(arms[name], names, **words) for name in arms if name in here]
    reference = shipped[recipe.reference] if recipe.reference else None
    published = {
        model: {shipped[arm]: figures for arm, figures in by_arm.items()} for model, by_arm in recipe.published.items()
    }
    changed = {"grid": {}, "arms": new, "base": Changes(), "reference": reference, "published": published}
    other = [shipped[arm] for arm in recipe.published_with.other_sources]
    changed["published_with"] = recipe.published_with.model_copy(update={"other_sources": tuple(other)})
    return _changed(recipe, changed, "--wordings")


def _protocols_of(wording: Path) -> set[str]:
    """The protocols that a wording has prompts of."""
    return {each.name for each in wording.iterdir() if each.is_dir()} if _is_folder(wording) else {*worded(wording)}


def _is_folder(wording: Path) -> bool:
    return wording.is_dir() and str(wording) != PAPER


def _relabelled(arm: Arm, names: Mapping[str, str], **more: str) -> Arm:
    """The arm with other settings under its new name, needing the arms under theirs."""
    changes = {**_set(arm), **more}
    if first := arm.first_round:
        changes["first_round"] = first.model_copy(update={"arm": names[first.arm]})
    if match := arm.match_cost:
        changes["match_cost"] = match.model_copy(update={"arm": names[match.arm], "unit": names[match.unit]})
    if arm.wrong_in is not None:
        changes["wrong_in"] = names[arm.wrong_in]
    return Arm(name=names[arm.name], **changes)


def _changed(recipe: Recipe, changed: Mapping[str, object], option: str) -> Recipe:
    kept = {name: getattr(recipe, name) for name in Recipe.model_fields}
    try:
        return Recipe(**{**kept, **changed})
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"{option}: this recipe cannot be changed: {why}") from None


def _set(changes: Changes) -> dict[str, object]:
    return {name: getattr(changes, name) for name in changes.model_fields_set if name != "name"}


def _names(text: str | None) -> list[str]:
    """The names in the ``sources`` of an arm."""
    words = [] if text is None or text.strip() == "none" else text.split(",")
    return [word.partition("=")[0].strip() for word in words]


def sources_of(recipe: Recipe) -> list[str]:
    """The sources that the arms of a recipe name, in their order."""
    return list(dict.fromkeys(name for arm in recipe.all_arms() for name in _names(arm.sources)))


def _replaced(
    labelled: Mapping[str, Changes], every: Sequence[str], names: Sequence[str]
) -> dict[str, dict[str, Changes]]:
    """Old label -> new labels with their changes, over the sources ``names`` instead of ``every``."""
    new: dict[str, dict[str, Changes]] = {}
    used = {label: set(_names(changes.sources)).intersection(every) for label, changes in labelled.items()}
    one_each = any(len(some) == 1 < len(every) for some in used.values())
    for label, changes in labelled.items():
        some = used[label]
        if not some:
            new[label] = {label: changes}
        elif len(some) != len(_names(changes.sources)) or len(some) not in (1, len(every)):
            raise UserError(f"--sources: {label!r} has some of the recipe's sources; use a copy with your sources")
        elif len(some) == len(every) and not one_each:
            new[label] = {label: _with(changes, names)}
        elif len(some) == len(every):
            new[label] = {ALL: _with(changes, names)} if len(names) > 1 else {}
        elif some == {every[0]}:
            new[label] = {name: _with(changes, [name]) for name in names}
        else:  # an arm for another single source
            new[label] = {}
    labels = [label for one in new.values() for label in one]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise UserError(f"--sources: {twice[0]!r} is the name of an arm; name the source with another NAME=")
    return new


def _with(changes: Changes, names: Sequence[str]) -> Changes:
    return changes.model_copy(update={"sources": ",".join(names)})


def _joined(new: Mapping[str, Mapping[str, Changes]]) -> dict[str, Changes]:
    return {label: changes for one in new.values() for label, changes in one.items()}


def _published_with(recipe: Recipe, *, other_sources: Sequence[str]) -> PublishedWith:
    """What the recipe says of its paper, with the kinds of all of its figures, which arms may lose."""
    kinds: dict[str, dict[str, None]] = {
        name: dict.fromkeys(held) for name, held in recipe.published_with.figures.items()
    }
    for _, _, dataset, metric, _ in recipe.figures():
        kinds.setdefault(dataset, {})[metric] = None
    figures = {dataset: tuple(metrics) for dataset, metrics in kinds.items()}
    return recipe.published_with.model_copy(update={"figures": figures, "other_sources": tuple(other_sources)})


def _short(model: str) -> str:
    """The label of a model: its name without its kind, owner and address."""
    return _label(split_address(model)[0].rpartition("/")[2])


def _label(model: str) -> str:
    return _NOT_IN_NAMES.sub("-", model).strip("-._+") or "model"
