"""Files and folders that commands read, and checks that outputs do not overwrite them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke._util.terminal import say
from madke.cli import flags
from madke.core.errors import UserError
from madke.runs.directory import OWN_FILES, RECORDS, identity

if TYPE_CHECKING:
    from madke.scoring.arms import Results

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Runs, experiments, folders of them, or prediction files.")
]
DataOption = Annotated[Path | None, flags.option("Questions of the prediction files.", "PATH")]
CorrectionsOption = Annotated[
    Path | None, flags.option("People's corrections of gold answers: a filled sheet, see madke annotate.", "CSV")
]
PREDICTION_FILES = """Prediction files need --data. They hold JSON lines of id and answer, or of id and output (raw
model text). Other keys are ignored."""

_PREDICTION_RECORDS = ("external.json", "grades.sqlite")
"""Suffixes of the files that ``madke score`` keeps next to a prediction file."""


def open_arms(
    paths: Sequence[Path],
    data: Path | None,
    dataset: str | None,
    task: str | None,
    corrections: Path | None = None,
    *,
    columns: str | None = None,
) -> list[Results]:
    """The results at the paths, in order; of an experiment its reference first, then its other arms.

    A folder of runs stands for its runs. Paths without a run are skipped with a message, unless none has one.
    Loading a ``module:object`` task lets the results name it, too.
    """
    from madke.data import read_dataset
    from madke.report.human_grades import with_corrections
    from madke.scoring.arms import open_results
    from madke.tasks import TASKS

    is_code = task is not None and ":" in task
    if task is not None and is_code:
        TASKS[task]
    if data is None and (dataset is not None or (task is not None and not is_code)):
        given = f"--dataset {dataset}" if dataset is not None else f"--task {task}"
        raise UserError(f"{given} needs --data, the questions of a prediction file; a run takes --task module:object")
    named = flags.columns_of(columns)
    if named and data is None:
        raise UserError("--columns needs --data, the questions of a prediction file")
    questions = None if data is None else read_dataset(data, dataset=dataset, task=task, columns=named)
    arms = open_results(_arms(paths, predictions=questions is not None), questions)
    return arms if corrections is None else with_corrections(arms, corrections)


def _arms(paths: Sequence[Path], *, predictions: bool) -> list[Path]:
    from madke.experiments.experiment import is_experiment

    # A path that does not exist is a typing error, and no path to skip.
    found = {
        path: [path] if (predictions and path.is_file()) or not path.exists() else list(_runs_in(path))
        for path in paths
    }
    skipped = [str(path) for path, runs in found.items() if not runs]
    if len(skipped) == len(found):
        if is_experiment(paths[0]):
            raise UserError("is an experiment without a started arm; run `madke ablate` first", file=paths[0])
        return [paths[0]]  # which is refused with its reason
    if skipped:
        hint = "; for predictions, give the questions with --data" if any(map(os.path.isfile, skipped)) else ""
        say(f"madke: skipped, because they hold no run: {', '.join(skipped)}{hint}", err=True)
    return [run for runs in found.values() for run in runs]


def _runs_in(path: Path, levels: int = 2) -> Iterator[Path]:
    """The runs at a path: the run or the arms of the experiment that it is, or those in so many levels of folders."""
    from madke.experiments.experiment import is_experiment, read_experiment

    if is_experiment(path):
        recipe, folders = read_experiment(path)
        yield from sorted(folders, key=lambda folder: folder.name != recipe.reference)
    elif (path / "run.json").is_file():
        yield path
    elif levels and path.is_dir():
        for folder in sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith(".")):
            yield from _runs_in(folder, levels - 1)


def refuse_overwriting(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None], *, own: str = "") -> None:
    """Refuse outputs (name in messages -> file) that would overwrite inputs, each other, or files of a run.

    Of folders that are no runs or experiments, all files are inputs. ``own``: the file in a run that may be written.
    """
    held = {identity(file) for path in inputs if path is not None for file in _files(path) if file.name != own}
    checked: dict[object, str] = {}
    for name, path in outputs.items():
        if path is None:
            continue
        if (other := checked.setdefault(identity(path), name)) != name:
            raise UserError(f"{other} and {name} are the same file; expected a different file for each", file=path)
        real = Path(os.path.realpath(path))
        of_run = real.name in OWN_FILES and real.name != own and _is_record_folder(real.parent)
        if of_run or identity(path) in held:
            what = f"a record of the run in {real.parent}" if of_run else "an input of this command"
            raise UserError(f"{name} would overwrite {what}; choose another file", file=path)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path, *(path.with_name(f"{path.name}.{name}") for name in _PREDICTION_RECORDS)]
    records = _is_record_folder(path) or any(_runs_in(path))
    return [file for file in path.rglob("*") if file.is_file() and (file.name in OWN_FILES or not records)]


def _is_record_folder(folder: Path) -> bool:
    return any((folder / name).is_file() for name in RECORDS)
