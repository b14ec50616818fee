"""How a command ends when somebody presses Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from madke.terminal import say


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C ends the command with status 130 (SIGTERM: 143) and says that nothing finished is lost."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        say("madke: interrupted; the same command again goes on from there", err=True)
        raise typer.Exit(exit_status(interrupt)) from None


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """128 and the number of the signal, as shells report it."""
    return int(getattr(interrupt, "exit_status", 130))
