"""Where text for people goes, and how it ends when somebody presses Ctrl-C."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from madke.terminal import printable, without_keys

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 140


def output() -> Console:
    """Standard output. In a pipe or a file tables keep a fixed width, so that they do not depend on the terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH, markup=False, highlight=False)


class PrintableFormatter(logging.Formatter):
    """Log lines quote titles and file names from outside, which must not steer the terminal, and addresses with keys.

    A warning of ours reads like our errors; what others say, and what ``--verbose`` adds, names the module.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, fit for a terminal."""
        ours = record.levelno >= logging.WARNING and record.name.startswith("madke.")
        return without_keys(printable(f"madke: {record.getMessage()}" if ours else super().format(record)))


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C ends the command with status 130 (SIGTERM: 143) and says that nothing finished is lost."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        typer.echo("madke: interrupted; the same command again goes on from there", err=True)
        raise typer.Exit(exit_status(interrupt)) from None


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """128 and the number of the signal, as shells report it."""
    return int(getattr(interrupt, "exit_status", 130))
