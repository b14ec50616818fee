"""The files and folders that commands read, and those that they must not write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

_RECORDS = ("run.json", "experiment.json")
"""A folder that holds one of them is a run's, or an experiment's."""
_BESIDE = ("external.json", "grades.sqlite")
"""What ``madke score`` keeps beside a file of predictions, under its name."""
_OWN = frozenset(
    "lock metrics.json report.html transcripts.jsonl transcripts.jsonl.replay unfinished.jsonl pools.jsonl asked.jsonl "
    f"external.json {' '.join(_RECORDS)}".split()
) | {f"{store}.sqlite{end}" for store in ("calls", "grades") for end in ("", "-wal", "-shm", "-journal")}
"""What runs and experiments keep in their folders."""


def open_arms(paths: Sequence[Path], data: Path | None, dataset: str | None, task: str | None) -> list[Results]:
    """The results at the paths, in order; of an experiment its reference first, then its other arms.

    A task that is ``module:object`` may then be named by the results, too.
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
    return open_results(list(_arms(paths)), questions)


def _arms(paths: Sequence[Path]) -> Iterator[Path]:
    from madke.experiments.experiment import is_experiment, read_experiment

    for path in paths:
        if not is_experiment(path):
            yield path
            continue
        recipe, folders = read_experiment(path)
        if not folders:
            raise UserError("is an experiment of which no arm has begun; run `madke ablate` first", file=path)
        yield from sorted(folders, key=lambda folder: folder.name != recipe.reference)


def refuse_overwriting(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None], *, own: str = "") -> None:
    """Refuse outputs that are inputs, or each other, or what a run or an experiment keeps in its folder.

    Links count as what they lead to.

    Args:
        outputs: What each is called -> the file.
        inputs: Files that are read, runs, experiments, and other folders, of which every file counts.
        own: The name of the one file in a run's folder that the command is there to write.
    """
    held = {_identity(file) for path in inputs if path is not None for file in _files(path) if file.name != own}
    before: dict[object, str] = {}
    for name, path in outputs.items():
        if path is None:
            continue
        if other := before.get(_identity(path)):
            raise UserError(f"{other} and {name} are the same file; expected one for each", file=path)
        if _identity(path) in held:
            raise UserError(f"{name} would overwrite what this command reads; choose another file", file=path)
        real = Path(os.path.realpath(path))
        if real.name in _OWN and real.name != own and _is_ours(real.parent):
            found = f"{name} would overwrite a record of the run in {real.parent}; choose another file"
            raise UserError(found, file=path)
        before[_identity(path)] = name


def refuse_own_files(folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse inputs of a command that writes into a run's or an experiment's folder, where they are what it writes."""
    own = {_identity(folder / name) for name in _OWN}
    for path in inputs:
        if path.is_file() and _identity(path) in own:
            found = f"is read by this command, which writes a file of that name into {folder}; choose another --out"
            raise UserError(found, file=path)


def question_files(data: Path | None) -> list[Path]:
    """The files that questions are read from: a folder's CSV files (MMLU), the ``.en`` of a ``.zh`` too (CommonMT)."""
    if data is None:
        return []
    if data.is_dir():
        return sorted(data.glob("*.csv"))
    return [data, data.with_suffix(".en")] if data.suffix == ".zh" else [data]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path, *(path.with_name(f"{path.name}.{name}") for name in _BESIDE)]
    ours = _is_ours(path)
    return [file for file in path.rglob("*") if file.is_file() and (file.name in _OWN or not ours)]


def _is_ours(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _RECORDS)


def _identity(path: Path) -> object:
    """The same for two paths that are, or would be, one file."""
    try:
        status = path.stat()
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
