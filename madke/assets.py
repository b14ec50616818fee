"""Paths of the asset folders (``prompts/``, ``indexes/``, ``eval/``, ``examples/``) and of the cache."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from madke.core.errors import UserError

_PACKAGE = Path(__file__).resolve().parent


def asset(*parts: str) -> Path:
    """The path of a shipped asset in ``prompts``, ``indexes``, ``eval`` or ``examples``, in a checkout or a wheel."""
    installed = _PACKAGE / "_assets"
    return (installed if installed.is_dir() else _PACKAGE.parent).joinpath(*parts)


def install(extra: str) -> str:
    """The command that installs an extra: for this checkout, or for the installed package."""
    if (_PACKAGE / "_assets").is_dir():
        return f"pip install 'madke[{extra}]'"
    checkout = "." if Path.cwd() == _PACKAGE.parent else str(_PACKAGE.parent)
    return f"pip install -e {quote(f'{checkout}[{extra}]')}"


@contextmanager
def needed(by: str, extra: str) -> Iterator[None]:
    """Import packages of an extra. UserError if one is missing: who needs it, and how to install it."""
    try:
        yield
    except ImportError as error:
        raise UserError(f"{by} needs {error.name}: {install(extra)}") from None


def cache_dir(*parts: str) -> Path:
    """A cache folder, created if missing: in ``MADKE_CACHE``, else ``madke`` in ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("MADKE_CACHE")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "madke"
    folder = root.joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot be created: {error.strerror}; set MADKE_CACHE to another folder", file=folder
        ) from None
    return folder
