"""The figures of a paper beside those of an experiment that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from madke.core.transcript import Transcript
from madke.experiments.recipe import Recipe
from madke.report.tables import NOTHING, Cell, Table
from madke.report.text import HEADINGS, interval
from madke.runs.scored import GRADER, external_values
from madke.runs.transcripts import read_transcripts
from madke.scoring.rows import Datasets, Row, over_questions, row
from madke.scoring.statistics import Estimate


def published_table(recipe: Recipe, folders: Sequence[Path] = ()) -> Table | None:
    """Every figure that a recipe quotes, in percent where it is a share, beside that of the arm of its name.

    Args:
        recipe: The experiment's.
        folders: Its arms that have run.

    Returns:
        A row for each arm, dataset and model of the source; None where the recipe quotes no figure.
    """
    figures = [
        (model, arm, dataset, published)
        for model, by_arm in recipe.published.items()
        for arm, by_dataset in by_arm.items()
        for dataset, published in by_dataset.items()
    ]
    if not figures:
        return None
    arms = {folder.name: _rows(folder) for folder in folders}
    metrics = list(dict.fromkeys(metric for *_, published in figures for metric in published))
    columns = ["arm", "dataset", "the source's model"]
    for metric in metrics:
        heading = HEADINGS.get(metric, metric)
        columns += [f"{heading}, published", f"{heading}, ours"] if folders else [f"{heading}, published"]
    rows = []
    for model, arm, dataset, published in figures:
        cells = [Cell(text=text) for text in (arm, dataset, model)]
        for metric in metrics:
            cells.append(_figure(published[metric]) if metric in published else NOTHING)
            if folders:
                there = metric in published and arm in arms
                held, datasets = arms[arm] if there else ({}, {})
                cells.append(_ours(over_questions(held.get(dataset, {}), metric, datasets)))
        rows.append(tuple(cells))
    return Table(
        title="Published figures",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            f"Published: {recipe.source}. Shares are in percent.",
            "Other models, samples and prompts: nobody expects the figures to be equal.",
        ),
    )


def _figure(value: float) -> Cell:
    if 0 <= value <= 1:
        return Cell(text=f"{100 * value:.1f}", value=100 * value)
    return Cell(text=f"{value:.2f}", value=value)


def _ours(found: Estimate | None) -> Cell:
    if found is None:
        return NOTHING
    return Cell(text=interval(found), value=100 * found.value, low=100 * found.low, high=100 * found.high)


def _rows(folder: Path) -> tuple[dict[str, dict[str, list[Row]]], Datasets]:
    """Dataset -> question -> rows, where ``all`` holds those of every dataset; and the dataset of each question."""
    found: dict[str, dict[str, list[Row]]] = {"all": {}}
    datasets: dict[str, str | None] = {}
    outside = external_values(folder)
    for transcript in read_transcripts(folder):
        if transcript.status == "failed":
            continue
        values = row(transcript) | _said_outside(transcript, outside)
        if GRADER in values and "cons_judge" in values:
            # Wang et al.'s Co2: agreed by the judge, and right by the GPT-4 score.
            values["co2_judge_grader"] = values["cons_judge"] * values[GRADER]
        datasets[transcript.id] = transcript.dataset
        for dataset in ("all", transcript.dataset or ""):
            found.setdefault(dataset, {}).setdefault(transcript.id, []).append(values)
    return found, datasets


def _said_outside(transcript: Transcript, outside: dict[str, dict[tuple[str, int], float]]) -> Row:
    key = (transcript.id, transcript.repeat)
    return {name: values[key] for name, values in outside.items() if key in values}
