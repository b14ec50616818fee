"""``madke report --watch``: write the page of runs anew while they are under way."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from madke._util.files import atomic_write
from madke._util.terminal import say
from madke.cli.progress import exit_status, status_line
from madke.core.errors import UserError
from madke.experiments.experiment import is_experiment
from madke.report.html import RELOADS
from madke.runs.directory import is_being_written
from madke.runs.spec import read_spec

RELOAD_SECONDS = 10
_POLL_SECONDS = 1.0
_LEAST_SECONDS = 3.0
_REST = 4
"""Pause after writing the page, in units of the time that it took: large runs are not slowed down by their page."""


class _Run:
    """A run under way, and how many debates it has. Only what was appended is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.transcripts = path / "transcripts.jsonl"
        self.debates = self._read = 0

    @property
    def begun(self) -> bool:
        return (self.path / "run.json").is_file() and self.transcripts.is_file()

    def look(self) -> int:
        """The number of debates now."""
        with self.transcripts.open("rb") as file:
            if file.seek(0, 2) < self._read:  # a resumed run dropped debates to repeat them
                self.debates = self._read = 0
            file.seek(self._read)
            while block := file.read(1 << 20):
                self._read += len(block)
                self.debates += block.count(b"\n")
        return self.debates


def follow(paths: Sequence[Path], page: Path, write: Callable[[int | None], object]) -> None:
    """Call ``write`` with the seconds between reloads when debates have landed, and without when all runs have ended.

    On Ctrl-C the page stays as it is, without its reloads.
    """
    for path in paths:
        if path.is_file() or is_experiment(path):
            raise UserError("expected the directory of a run, which --watch follows", file=path)
    runs = [_Run(path) for path in paths]
    try:
        with status_line() as show:
            _wait(runs, show)
            total = sum(len(spec.questions) * spec.repeats for spec in map(read_spec, paths))
            _follow(runs, page, total, write, show)
        write(None)
    except KeyboardInterrupt as interrupt:
        if page.is_file():
            with page.open("rb") as old, atomic_write(page) as new:
                new.writelines(line for line in old if not line.startswith(RELOADS.encode()))
        say("madke: interrupted; the page stays, the same command goes on with it", err=True)
        raise typer.Exit(exit_status(interrupt)) from None
    done = sum(run.look() for run in runs)
    state = "has ended" if done >= total else "is no longer under way"
    say(f"report: {page}, {done:,} of {total:,} debates; {'the run' if len(runs) == 1 else 'the last run'} {state}")


def _wait(runs: Sequence[_Run], show: Callable[[str], None]) -> None:
    said = False
    while waiting := [run for run in runs if not run.begun]:
        text = f"waiting for {waiting[0].path}: no run has begun there yet (Ctrl-C ends)"
        if not said:
            say(text, err=True)
            said = True
        show(text)
        time.sleep(_POLL_SECONDS)


def _follow(
    runs: Sequence[_Run], page: Path, total: int, write: Callable[[int | None], object], show: Callable[[str], None]
) -> None:
    written, due = 0, 0.0
    while any(is_being_written(run.path) for run in runs):
        done = sum(run.look() for run in runs)
        if done and done != written and time.monotonic() >= due:
            started = time.monotonic()
            write(RELOAD_SECONDS)
            if not written:
                say(f"report: {page}; the open page reloads itself while the run goes on (Ctrl-C ends)")
            written, ended = done, time.monotonic()
            due = ended + max(_LEAST_SECONDS, _REST * (ended - started))
        show(f"{done:,} of {total:,} debates, {written:,} on the page")
        time.sleep(_POLL_SECONDS)
