"""A task that waits for its test, and a test that waits for its task: two named pipes each, and no clock."""

import os
from pathlib import Path


def prepare(folder: Path, *names: str) -> Path:
    """The folder, in which tasks of these names can be met."""
    for name in names:
        for pipe in _pipes(folder, name):
            os.mkfifo(pipe)
    return folder


def arrive(folder: Path, name: str, word: str) -> None:
    """In the task: say a word to :func:`meet`, and wait for :func:`release`."""
    here, go = _pipes(folder, name)
    here.write_text(word)
    go.read_text()


def meet(folder: Path, name: str) -> str:
    """Wait for the task, and return its word."""
    return _pipes(folder, name)[0].read_text()


def release(folder: Path, name: str) -> None:
    """Let the task, or the one that is done in its place, go on."""
    _pipes(folder, name)[1].write_text("go")


def _pipes(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.here", folder / f"{name}.go"
