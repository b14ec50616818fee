"""Where text for people goes."""

from __future__ import annotations

import sys

from rich.console import Console

_PIPED_WIDTH = 140


def output() -> Console:
    """Standard output. In a pipe or a file tables keep a fixed width, so that they do not depend on the terminal."""
    return Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH, markup=False, highlight=False)
