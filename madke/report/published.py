"""The figures of a paper beside those of an experiment that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from madke.core.transcript import Transcript
from madke.experiments.recipe import Recipe
from madke.report.text import interval
from madke.runs.directory import read_transcripts
from madke.runs.scored import GRADER, external_values
from madke.scoring.rows import Datasets, Row, over_questions, row
from madke.terminal import printable


def published_table(recipe: Recipe, folders: Sequence[Path] = ()) -> Table:
    """Every figure that a recipe quotes, in percent where it is a share, beside that of the arm of its name.

    Other models, samples and prompts: nobody expects the figures to be equal.

    Args:
        recipe: The experiment's.
        folders: Its arms that have run.
    """
    arms = {folder.name: _rows(folder) for folder in folders}
    figures = [
        (model, arm, dataset, published)
        for model, by_arm in recipe.published.items()
        for arm, by_dataset in by_arm.items()
        for dataset, published in by_dataset.items()
    ]
    metrics = list(dict.fromkeys(metric for *_, published in figures for metric in published))
    table = Table("arm", "dataset", "the paper's model", box=box.SIMPLE_HEAD)
    for metric in metrics:
        table.add_column(f"{metric}, published", justify="right")
        if folders:
            table.add_column("ours", justify="right")
    for model, arm, dataset, published in figures:
        cells: list[str] = []
        for metric in metrics:
            cells.append(_figure(published[metric]) if metric in published else "")
            if folders:
                there = metric in published and arm in arms
                rows, datasets = arms[arm] if there else ({}, {})
                found = over_questions(rows.get(dataset, {}), metric, datasets)
                cells.append(interval(found) if found else "")
        table.add_row(*map(printable, (arm, dataset, model)), *cells)
    return table


def _figure(value: float) -> str:
    return f"{100 * value:.1f}" if 0 <= value <= 1 else f"{value:.2f}"


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
