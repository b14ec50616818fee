"""What an experiment is, as its folder says, and what of it may still change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.experiments.recipe import Recipe
from madke.experiments.setting import Setting
from madke.files import fingerprint, replacing
from madke.runs.job import Job
from madke.runs.run_json import read_config

FILE = "experiment.json"

_SHARED = ("data", "data_sha256", "sample_seed", "repeats", "seed")
"""What no arm can have otherwise than those that have begun."""


def is_experiment(path: Path) -> bool:
    """Whether a folder is an experiment's."""
    return (path / FILE).is_file()


def arm_folder(path: Path, name: str) -> Path:
    """The run directory of an arm of the experiment in a folder."""
    return path / "arms" / name


def read_experiment(path: Path) -> tuple[Recipe, list[Path]]:
    """The recipe of an experiment, and the folders of its arms that have begun, in the recipe's order.

    Raises:
        UserError: It is none.
    """
    recipe = Recipe.model_validate(read_record(path)["recipe"])
    folders = [arm_folder(path, arm.name) for arm in recipe.all_arms()]
    return recipe, [folder for folder in folders if (folder / "transcripts.jsonl").is_file()]


def record_of(setting: Setting) -> dict[str, Any]:
    """All that is frozen but the pools' sources, which :func:`write_record` adds.

    Raises:
        UserError: A pool file cannot be read.
    """
    return {
        # What is unset stays so: an arm's silence is not the same as a default.
        "recipe": setting.recipe.model_dump(mode="json", exclude_unset=True),
        "data": setting.data,
        "pools": [fingerprint(file) for file in setting.pools],
        "questions": len(setting.questions),
        "data_sha256": setting.data_sha256,
        "sample_seed": setting.sample_seed,
        "repeats": setting.repeats,
        "seed": setting.seed,
    }


def read_record(path: Path) -> dict[str, Any]:
    """The record in an experiment's folder.

    Raises:
        UserError: It is none of ours.
    """
    try:
        record = json.loads((path / FILE).read_bytes())
    except (OSError, ValueError):
        record = None
    if not isinstance(record, dict):
        raise UserError("is not an experiment's record", file=path / FILE)
    return record


def write_record(path: Path, record: Mapping[str, Any], sources: Mapping[str, str | None]) -> None:
    """Write the record, whole or not at all.

    Args:
        path: The experiment's folder.
        record: See :func:`record_of`.
        sources: Name -> specification of what its pools were made from.
    """
    with replacing(path / FILE) as file:
        file.write(json.dumps({**record, "sources": sources}, ensure_ascii=False, indent=2).encode() + b"\n")


def pool_sources(record: Mapping[str, Any], setting: Setting) -> dict[str, str | None]:
    """What an experiment's pools were made from: source name -> specification.

    Args:
        record: The experiment's; of one that began before records said so, all that its arms name.
        setting: What else there is to know.
    """
    if "sources" in record:
        return dict(record["sources"])
    return replace(setting, recipe=Recipe.model_validate(record["recipe"]), file=None).all_specs()


def uses_pools(path: Path) -> bool:
    """Whether a run of the experiment in this folder has begun with its pools; one that left the recipe counts too."""
    folders = [file.parent for file in arm_folder(path, "").glob("*/run.json")]
    return any(read_config(folder).pools_sha256 is not None for folder in folders)


def refuse_other(path: Path, setting: Setting, models: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse an experiment whose results would be others than those that are there.

    What a recipe only says about itself may change, and so may arms that have not begun: they may come, go, and become
    others.

    Args:
        path: The experiment's folder.
        setting: What is to go on.
        models: Arm -> role -> the model's own name.

    Raises:
        UserError: What all arms share has changed, or an arm that has begun.
    """
    before, now = read_record(path), record_of(setting)
    if before.get("questions") != now["questions"]:
        counts = f"{before.get('questions')} questions, not {now['questions']} (--limit, or the data)"
        raise UserError(f"holds another experiment: {counts}; choose another --out", file=path)
    if changed := [name for name in _SHARED if before.get(name) != now[name]]:
        raise UserError(f"holds another experiment: its {changed[0]} differs; choose another --out", file=path)
    if before.get("pools") != now["pools"] and uses_pools(path):
        raise UserError(
            f"holds another experiment: --pools differs; choose another --out (--pools {path / 'pools.jsonl'} there "
            "takes over what was retrieved here)",
            file=path,
        )
    arms_before = {arm.name: arm for arm in Recipe.model_validate(before["recipe"]).all_arms()}
    for arm, job in zip(setting.arms, setting.jobs, strict=True):
        folder = arm_folder(path, arm.name)
        if not (folder / "run.json").is_file():
            continue
        different = _differences(folder, job, models[arm.name], sized=arm.debaters_for is not None)
        was = arms_before.get(arm.name, arm)
        different += [name for name in ("given", "debaters_for") if getattr(was, name) != getattr(arm, name)]
        if different:
            found = f"arm {arm.name!r} has begun, and was another ({different[0]})"
            raise UserError(f"{found}; give it another name, or choose another --out", file=path)


def _differences(folder: Path, job: Job, models: Mapping[str, str], *, sized: bool) -> list[str]:
    """What of a run that has begun is not what its job says now.

    Args:
        folder: The run's.
        job: As far as it is known before it runs.
        models: Role -> the model's own name.
        sized: The number of debaters follows from what others cost, and is not known.
    """
    before = read_config(folder)
    known: dict[str, Any] = {
        "dataset": job.dataset,
        "variant": job.variant.name,
        "prompts_sha256": job.variant.fingerprint(),
        "source_specs": job.source_specs,
        "estimator": job.estimator,
        "seed": job.seed,
        "repeats": job.repeats,
    }
    if not sized:
        known |= {"protocol": job.variant.protocol, "models": models}
    return before.differences(before.model_copy(update=known))
