"""Figures of a paper next to ours, with a verdict per figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from madke.engine.variant import load_variant, variant_folders
from madke.engine.wording import PAPER
from madke.experiments.recipe import Recipe, same_model
from madke.report.tables import NO_FIGURE, Cell, Table, TableRow, score_cell, table_of
from madke.scoring.arms import ArmValues, Results, of_dataset, open_results
from madke.scoring.metrics import GRADER, heading_of, is_share
from madke.scoring.scored import arm_of, grader_of
from madke.scoring.statistics import Estimate, wilson

CellVerdict = Literal["reproduced", "higher", "lower", "not comparable", "not run"]

ALL_DATASETS = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One figure of a paper, and ours."""

    model: str
    """The paper's backbone; our model if the paper does not have it."""
    arm: str
    dataset: str
    """``all``: the mean over the questions of all datasets."""
    metric: str
    published: float | None = None
    """None: the paper has no figure for our model."""
    published_interval: tuple[float, float] | None = None
    """The 95 % interval of the published figure (Wilson), which papers leave out; None: the figure counts as exact."""
    ours: Estimate | None = None
    reasons: tuple[str, ...] = ()
    """Why the two are not comparable."""

    @property
    def verdict(self) -> CellVerdict:
        """``reproduced`` if the 95 % interval of the difference between both figures holds 0.

        Both figures are means of samples, so both intervals count: their distances from the figures are added in
        quadrature (Newcombe, 1998, method 10).
        """
        if self.ours is None:
            return "not run"
        if self.reasons or self.published is None:
            return "not comparable"
        low, high = self.published_interval or (self.published, self.published)
        difference = self.ours.value - self.published
        if difference > math.hypot(self.ours.value - self.ours.low, high - self.published):
            return "higher"
        if -difference > math.hypot(self.ours.high - self.ours.value, self.published - low):
            return "lower"
        return "reproduced"


def figures(recipe: Recipe, folders: Sequence[Path] = ()) -> list[Figure]:
    """Every published figure of a recipe with ours of the arms in ``folders``, in the order of the recipe.

    An arm whose model the paper does not have adds its own figures, after those of the paper.
    """
    arms = {arm.name: (arm, arm_of(arm)) for arm in open_results(folders)} if folders else {}
    models = {
        name: [*dict.fromkeys(arm.config.models.values() if arm.config else ())] for name, (arm, _) in arms.items()
    }
    kinds = recipe.published_with

    def with_ours(figure: Figure, *, own: bool) -> Figure:
        """``own``: the paper does not have the arm's model."""
        arm, whole = arms[figure.arm]
        values = of_dataset(whole, None if figure.dataset == ALL_DATASETS else figure.dataset)
        ours = values.mean(figure.metric)
        reasons = tuple(_reasons(recipe, arm, values, figure)) if ours else ()
        return replace(figure, ours=ours, reasons=("other model", *reasons) if own and ours else reasons)

    rows: list[Figure] = []
    played: set[str] = set()
    for model, name, dataset, metric, value in recipe.figures():
        figure = Figure(model=model, arm=name, dataset=dataset, metric=metric, published=value)
        theirs = model.split(" and ")  # whether the paper's models play all roles
        if models.get(name) and all(any(same_model(own, each) for each in theirs) for own in models[name]):
            played.add(name)
            figure = with_ours(figure, own=False)
            n = kinds.questions.get(dataset, recipe.limit) or (figure.ours.n if figure.ours else None)
            if n is not None and is_share(metric):  # the interval of a mean such as F1 is no wider
                figure = replace(figure, published_interval=wilson(round(value * n), n))
        rows.append(figure)
    needed = dict.fromkeys((arm, dataset, metric) for _, arm, dataset, metric, _ in recipe.figures())
    needed |= dict.fromkeys(
        (arm, dataset, each) for arm in arms for dataset, of in kinds.figures.items() for each in of
    )
    for name, dataset, metric in needed:
        if name in arms and name not in played:
            figure = Figure(model=", ".join(models[name]) or "ours", arm=name, dataset=dataset, metric=metric)
            rows.append(with_ours(figure, own=True))
    return rows


def _reasons(recipe: Recipe, arm: Results, values: ArmValues, figure: Figure) -> Iterator[str]:
    """Why a figure of an arm is not comparable with that of a paper."""
    published, config = recipe.published_with, arm.config
    expected = published.questions.get(figure.dataset, recipe.limit if figure.dataset != ALL_DATASETS else None)
    if expected is not None and len(values.questions) != expected:
        yield f"n = {len(values.questions)}, not {expected}"
    if values.failed:
        yield f"{len(values.failed)} failed"
    if config is not None:
        own = _shipped_templates(config.variant)
        # Not if the user gave the templates (--prompts, --wording FILE).
        if config.wording == PAPER or any(config.prompts_sha256.get(file) == sha256 for file, sha256 in own.items()):
            yield "own words"
        for source, served in config.sources.items():
            if published.sources.get(source, served) not in served:
                yield f"other index ({source})"
    if figure.metric == GRADER or figure.metric.endswith(f"_{GRADER}"):
        grader = grader_of(arm)
        if published.grader is not None and grader is not None and not same_model(grader, published.grader):
            yield "other grader"


@cache
def _shipped_templates(protocol: str) -> Mapping[str, str]:
    """File -> SHA-256 of each stage's template in a shipped protocol's folder; empty for other protocols."""
    if protocol not in variant_folders():
        return {}
    variant = load_variant(protocol)
    stages = tuple(f"{protocol}/{stage}." for stage in variant.protocol.trace.stages)
    return {file: sha256 for file, sha256 in variant.files.items() if file.startswith(stages)}


def figure_cell(estimate: Estimate | float | None, each: Figure) -> Cell:
    """A value of this figure, the published one or ours, as tables show it."""
    known = each.published if each.published is not None else each.ours.value if each.ours else 0.0
    # External scores from 0 to 1 are shown like shares.
    return score_cell(estimate, digits="z.1f", times=100) if 0 <= known <= 1 else score_cell(estimate, digits=".2f")


_MEANINGS: Mapping[CellVerdict, str] = {
    "reproduced": "reproduced: no difference was found; the 95 % interval of the difference contains 0.",
    "higher": "higher: ours is higher, and the interval of the difference is above 0.",
    "lower": "lower: ours is lower, and the interval of the difference is below 0.",
    "not comparable": "not comparable: for the reasons in the last column.",
}


def published_table(recipe: Recipe, entries: Sequence[Figure]) -> Table | None:
    """A row per figure: the published one, ours, the verdict and the reasons against it; None without figures."""
    rows: list[TableRow] = []
    for each in entries:
        row: TableRow = {
            "model": each.model,
            "arm": each.arm,
            "dataset": each.dataset,
            "metric": heading_of(each.metric),
            "published": figure_cell(each.published, each),
        }
        if any(figure.ours for figure in entries):
            row |= {"ours": figure_cell(each.ours, each), "verdict": each.verdict}
            row["why"] = "; ".join(each.reasons) or NO_FIGURE
        rows.append(row)
    verdicts = {each.verdict for each in entries}
    notes = [text for verdict, text in _MEANINGS.items() if verdict in verdicts]
    notes.insert(0, f"Published: {recipe.source}. Shares are in percent.")
    return table_of("Published figures and ours", rows, notes) if rows else None
