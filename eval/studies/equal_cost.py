"""Write the page of the study, ``docs/study_exploratory.md``: the exploratory part, read anew from its kept texts.

    python -m eval.studies.equal_cost

The debates themselves are not run again. ``eval/studies/pays`` is the study that decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from eval.studies.equal_cost_page import ReadAnew, write_page
from eval.studies.kept import KeptStudy, read_study
from eval.studies.reread import reread_arm
from madke.engine.variant import load_variant
from madke.experiments.recipe import Arm, read_recipe
from madke.retrieval.pools import PoolRecord, read_pools

FOLDER = Path(__file__).parent / "equal-cost"
PAGE = Path(__file__).parents[2] / "docs" / "study_exploratory.md"


def read_anew(study: KeptStudy, pools: Mapping[str, PoolRecord]) -> ReadAnew:
    """A model's part of the study with today's readings, and what they changed."""
    arms = {arm.name: arm for arm in read_recipe(str(FOLDER / "recipe.yaml")).all_arms()}
    found = {}
    for name, transcripts in study.transcripts.items():
        protocol = load_variant(arms[name].protocol or "madke").with_settings(settings_of(arms[name])).protocol
        found[name] = reread_arm(transcripts, protocol, pools if arms[name].sources else {})
    now = replace(study, transcripts={name: each.transcripts for name, each in found.items()})
    return ReadAnew(before=study, now=now, arms=found)


def settings_of(arm: Arm) -> dict[str, object]:
    """The settings of an arm that bear on the reading of its texts."""
    return {name: value for name, value in arm.set.items() if name in ("debaters", "rounds")}


def main(page: Path = PAGE) -> None:
    """Write the page and its figure."""
    pools = read_pools(FOLDER / "study.pools.jsonl.gz")
    studies = [read_study(file) for file in sorted((FOLDER / "calls").glob("*.jsonl.xz"))]
    write_page([read_anew(study, pools) for study in studies], page)


if __name__ == "__main__":
    main()
