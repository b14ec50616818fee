"""What the command lines of the studies share."""

import os
import sys
from pathlib import Path


def names_of(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name for name in text.split(",") if name]


def folder_of(variable: str) -> Path | None:
    """The folder that an environment variable names; None if it is not set."""
    return Path(os.environ[variable]) if os.environ.get(variable) else None


def tell(text: str) -> None:
    """Print to standard error, at once."""
    print(text, file=sys.stderr, flush=True)
