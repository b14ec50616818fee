"""The figures of a paper beside those of an experiment that follows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from madke.core.transcript import Transcript
from madke.experiments.recipe import Recipe
from madke.report.text import interval
from madke.runs.directory import read_transcripts
from madke.runs.scored import external_values
from madke.scoring.rows import Row, over_questions, row
from madke.scoring.statistics import Estimate
from madke.terminal import printable


class Beside(NamedTuple):
    """One figure of a paper, and ours."""

    model: str
    """The paper's."""
    arm: str
    dataset: str
    metric: str
    published: float
    ours: Estimate | None
    """None where the arm has not run, or the metric does not apply."""


def published_figures(recipe: Recipe, folders: Sequence[Path]) -> Iterator[Beside]:
    """Every figure that a recipe quotes, beside that of the arm of its name.

    Args:
        recipe: The experiment's.
        folders: Its arms that have run.
    """
    arms = {folder.name: _rows(folder) for folder in folders}
    for model, by_arm in recipe.published.items():
        for arm, by_dataset in by_arm.items():
            for dataset, figures in by_dataset.items():
                for metric, value in figures.items():
                    ours = over_questions(arms[arm].get(dataset, {}), metric) if arm in arms else None
                    yield Beside(model, arm, dataset, metric, value, ours)


def published_table(recipe: Recipe, folders: Sequence[Path] = ()) -> Table:
    """The same as a table for a terminal. Other models, samples and prompts: nobody expects the figures to be equal."""
    table = Table("arm", "dataset", "metric", "published", "its model", *(["ours"] if folders else []))
    for found in published_figures(recipe, folders):
        ours = "-" if found.ours is None else f"{_figure(found.ours.value)} {interval(found.ours)}"
        cells = (found.arm, found.dataset, found.metric, _figure(found.published), found.model)
        table.add_row(*map(printable, cells), *([ours] if folders else []))
    return table


def _figure(value: float) -> str:
    return f"{100 * value:.1f}" if 0 <= value <= 1 else f"{value:.2f}"


def _rows(folder: Path) -> dict[str, dict[str, list[Row]]]:
    """Dataset -> question -> rows; ``all`` holds those of every dataset."""
    found: dict[str, dict[str, list[Row]]] = {"all": {}}
    outside = external_values(folder)
    for transcript in read_transcripts(folder):
        if transcript.status == "failed":
            continue
        values = row(transcript) | _said_outside(transcript, outside)
        for dataset in ("all", transcript.dataset or ""):
            found.setdefault(dataset, {}).setdefault(transcript.id, []).append(values)
    return found


def _said_outside(transcript: Transcript, outside: dict[str, dict[tuple[str, int], float]]) -> Row:
    key = (transcript.id, transcript.repeat)
    return {name: values[key] for name, values in outside.items() if key in values}
