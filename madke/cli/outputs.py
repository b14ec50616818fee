"""What a command writes is none of what it reads, and no record of a run: checked before anything is asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from madke.core.errors import UserError

_RECORDS = ("run.json", "experiment.json")
"""A folder that holds one of them is a run's, or an experiment's."""

_STORES = ("calls.sqlite", "grades.sqlite")

_OWN = (
    *_RECORDS,
    *(f"{store}{end}" for store in _STORES for end in ("", "-wal", "-shm", "-journal")),
    "transcripts.jsonl",
    "transcripts.jsonl.replay",
    "unfinished.jsonl",
    "pools.jsonl",
    "asked.jsonl",
    "external.json",
    "metrics.json",
    "report.html",
    "lock",
)
"""What runs and experiments keep in their folders."""

_BESIDE = ("external.json", "grades.sqlite")
"""What ``madke score`` keeps beside a file of predictions, under its name."""


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
    written = {name: path for name, path in outputs.items() if path is not None}
    read = [path for path in inputs if path is not None]
    held = [file for path in read for file in _files(path) if file.name != own]
    before: dict[str, Path] = {}
    for name, path in written.items():
        for other, another in before.items():
            if _same(path, another):
                raise UserError(f"{name} and {other} are the same file; expected one for each", file=path)
        if any(_same(path, file) for file in held) or any(_inside(path, folder) for folder in read):
            raise UserError(f"{name} would overwrite what this command reads; choose another file", file=path)
        folder, file = os.path.split(os.path.realpath(path))
        if file in _OWN and file != own and _is_ours(Path(folder)):
            raise UserError(f"{name} would overwrite a record of the run in {folder}; choose another file", file=path)
        before[name] = path


def refuse_own_files(folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse inputs of a command that writes into a run's or an experiment's folder, where they are what it writes.

    Raises:
        UserError: An input would be overwritten.
    """
    for path in inputs:
        if any(_same(path, folder / name) for name in _OWN):
            raise UserError(
                f"is read by this command, which writes a file of that name into {folder}; choose another --out",
                file=path,
            )


def question_files(data: Path | None) -> list[Path]:
    """The files that questions are read from: a folder's CSV files (MMLU), the ``.en`` of a ``.zh`` too (CommonMT)."""
    if data is None:
        return []
    if data.is_dir():
        return sorted(data.glob("*.csv"))
    return [data, data.with_suffix(".en")] if data.suffix == ".zh" else [data]


def _files(path: Path) -> Iterator[Path]:
    """What is read of an input; of a run also its calls and pools, wherever they are."""
    if not path.is_dir():
        yield path
        yield from (path.with_name(f"{path.name}.{name}") for name in _BESIDE)
        return
    if not _is_ours(path):
        return
    yield from (path / name for name in _OWN)
    for arm in (path / "arms").glob("*/"):
        yield from _files(arm)
    if (path / "run.json").is_file():
        from madke.runs.run_json import run_files

        with suppress(UserError):  # whoever reads the run says so
            elsewhere = run_files(path)
            yield from (file for file in (elsewhere.calls, elsewhere.pools) if file is not None)


def _is_ours(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _RECORDS)


def _inside(path: Path, folder: Path) -> bool:
    """Whether it is a file that is there, in a folder of others."""
    if not path.is_file() or not folder.is_dir() or _is_ours(folder):
        return False
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _same(path: Path, other: Path) -> bool:
    """Whether both are, or would be, one file."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    try:
        return path.samefile(other)
    except OSError:
        return False
