"""What ``score``, ``compare``, ``report`` and ``annotate`` are about: runs, experiments, answers from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.core.errors import UserError

if TYPE_CHECKING:
    from madke.scoring.arms import Results

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="Run directories, experiments (all of their arms), and files of answers from elsewhere: JSON lines of id "
        "and answer, or of id and output, raw model text; other keys are ignored. Files need --data.",
    ),
]
Data = Annotated[Path | None, typer.Option(help="The questions that files of answers from elsewhere belong to.")]


def open_arms(paths: Sequence[Path], data: Path | None, dataset: str | None, task: str | None) -> list[Results]:
    """The results at the paths, in order; of an experiment its reference first, then its other arms.

    A task that is ``module:object`` may then be named by the results, too.

    Raises:
        UserError: A path is none of what it can be, or options do not fit the paths.
    """
    from madke.data import read_dataset
    from madke.scoring.arms import open_results
    from madke.tasks import TASKS

    is_code = task is not None and ":" in task
    if task is not None and is_code:
        TASKS[task]
    if data is None and (dataset is not None or (task is not None and not is_code)):
        raise UserError(f"--{'dataset' if dataset is not None else 'task'} says how --data is read; name --data")
    questions = None if data is None else read_dataset(data, dataset=dataset, task=task)
    return open_results(list(_expanded(paths)), questions)


def _expanded(paths: Sequence[Path]) -> Iterator[Path]:
    from madke.experiments.experiment import is_experiment, read_experiment

    for path in paths:
        if not is_experiment(path):
            yield path
            continue
        recipe, folders = read_experiment(path)
        if not folders:
            raise UserError("is an experiment of which no arm has begun; run `madke ablate` first", file=path)
        yield from sorted(folders, key=lambda folder: folder.name != recipe.reference)
