"""Refuse outputs that would overwrite inputs or run files, before anything is asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from madke.core.errors import UserError

_RECORDS = ("run.json", "experiment.json")
"""A folder that holds one of them is a run's, or an experiment's."""
_BESIDE = ("external.json", "grades.sqlite")
"""What ``madke score`` keeps beside a file of predictions, under its name."""
_OWN = frozenset(
    "lock metrics.json report.html transcripts.jsonl transcripts.jsonl.replay unfinished.jsonl pools.jsonl asked.jsonl "
    f"external.json {' '.join(_RECORDS)}".split()
) | {f"{store}.sqlite{end}" for store in ("calls", "grades") for end in ("", "-wal", "-shm", "-journal")}
"""What runs and experiments keep in their folders."""


def refuse_overwriting(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None], *, own: str = "") -> None:
    """Refuse outputs that are inputs, or each other, or what a run or an experiment keeps in its folder.

    Links count as what they lead to.

    Args:
        outputs: What each is called -> the file; None where there is none.
        inputs: Files that are read, runs, experiments, and other folders, of which every file counts.
        own: The name of the one file in a run's folder that the command is there to write.

    Raises:
        UserError: An output must not be written.
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
            raise UserError(
                f"{name} would overwrite a record of the run in {real.parent}; choose another file", file=path
            )
        before[_identity(path)] = name


def refuse_own_files(folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse inputs of a command that writes into a run's or an experiment's folder, where they are what it writes.

    Raises:
        UserError: An input would be overwritten.
    """
    own = {_identity(folder / name) for name in _OWN}
    for path in inputs:
        if _identity(path) in own:
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
