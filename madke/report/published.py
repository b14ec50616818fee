"""The figures of a paper beside those of an experiment that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from madke.experiments.recipe import Recipe
from madke.report.tables import NOTHING, Cell, Table, percent_cell
from madke.report.text import HEADINGS
from madke.runs.run_json import read_spec
from madke.runs.scored import external_values
from madke.runs.transcripts import read_transcripts
from madke.scoring.arms import ArmValues, read_arm
from madke.scoring.rows import NO_SHARES, over_repeats
from madke.scoring.statistics import Estimate

OURS = "ours"
"""What our rows say before our models."""


def published_table(recipe: Recipe, folders: Sequence[Path] = ()) -> Table | None:
    """Every figure that a recipe quotes, in percent where it is a share, below that of the arm of its name.

    Args:
        recipe: The experiment's.
        folders: Its arms that have run.

    Returns:
        For each arm and dataset a row with our figures, named by our models, if the arm has run, then one for each
        model of the source; None where the recipe quotes no figure.
    """
    quoted: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for model, arm, dataset, metric, value in recipe.figures():
        quoted.setdefault((arm, dataset), {}).setdefault(model, {})[metric] = value
    if not quoted:
        return None
    arms = {folder.name: read_arm(folder.name, read_transcripts(folder), external_values(folder)) for folder in folders}
    models = {folder.name: _models(folder) for folder in folders}
    metrics = list(dict.fromkeys(metric for *_, metric, _ in recipe.figures()))
    rows = []
    for (arm, dataset), by_model in quoted.items():
        if arm in arms:
            there = set().union(*by_model.values())
            ours = [
                percent_cell(_mean(arms[arm], metric, dataset)) if metric in there else NOTHING for metric in metrics
            ]
            rows.append(_row(arm, dataset, models[arm], ours))
        for model, figures in by_model.items():
            theirs = [_figure(figures[metric]) if metric in figures else NOTHING for metric in metrics]
            rows.append(_row(arm, dataset, model, theirs))
    notes = [f"Published: {recipe.source}. Shares are in percent."]
    if folders:
        notes.append(
            f'Rows that say "{OURS}" are of this experiment, and have its intervals; the others are published.'
        )
    notes.append("Other models, samples and prompts: nobody expects the figures to be equal.")
    headings = [HEADINGS.get(metric, metric) for metric in metrics]
    return Table(
        title="Published figures",
        columns=("arm", "dataset", "model", *headings),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def _row(arm: str, dataset: str, model: str, figures: Sequence[Cell]) -> tuple[Cell, ...]:
    return (*(Cell(text=text) for text in (arm, dataset, model)), *figures)


def _models(folder: Path) -> str:
    """Who played in a run, in the order of roles."""
    return f"{OURS}: {', '.join(dict.fromkeys(read_spec(folder).models.values()))}"


def _figure(value: float) -> Cell:
    if 0 <= value <= 1:
        return Cell(text=f"{100 * value:.1f}", value=100 * value)
    return Cell(text=f"{value:.2f}", value=value)


def _mean(arm: ArmValues, metric: str, dataset: str) -> Estimate | None:
    """Of one dataset, or of ``all``."""
    held = {
        key: values
        for key, values in arm.values.get(metric, {}).items()
        if dataset in ("all", arm.questions[key] or "")
    }
    return over_repeats(
        [list(each.values()) for each in held.values()],
        [arm.questions[key] for key in held],
        shares=metric not in NO_SHARES,
    )
