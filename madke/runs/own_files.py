"""Files that runs and experiments keep in their folders, and the inputs that must not be among them."""

import os
from collections.abc import Iterable
from pathlib import Path

from madke.core.errors import UserError

RECORDS = ("run.json", "experiment.json")
"""The records that make a folder a run or an experiment."""
OWN_FILES = frozenset(
    "lock metrics.json report.html transcripts.jsonl transcripts.jsonl.replay unfinished.jsonl pools.jsonl asked.jsonl "
    f"external.json {' '.join(RECORDS)}".split()
) | {f"{store}.sqlite{end}" for store in ("calls", "grades") for end in ("", "-wal", "-shm", "-journal")}
"""Files that runs and experiments keep in their folders."""


def refuse_own_files(folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse inputs that a command would overwrite in the run or experiment folder that it writes."""
    own = {identity(folder / name) for name in OWN_FILES}
    for path in inputs:
        if path.is_file() and identity(path) in own:
            found = f"is an input, and this command would overwrite it in {folder}; choose another --out"
            raise UserError(found, file=path)


def question_files(data: Path | None) -> list[Path]:
    """The question files at a path: all CSV files of a folder (MMLU), a ``.zh`` file and its ``.en`` (CommonMT)."""
    if data is None:
        return []
    if data.is_dir():
        return sorted(data.glob("*.csv"))
    return [data, data.with_suffix(".en")] if data.suffix == ".zh" else [data]


def identity(path: Path) -> object:
    """A value that is equal for two paths of the same file, existing or not."""
    try:
        status = path.stat()
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
