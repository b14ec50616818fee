"""Where the asset folders (``prompts/``, ``indexes/``, ``eval/``) and the cache are."""

from __future__ import annotations

import os
from pathlib import Path

from madke.core.errors import UserError

_PACKAGE = Path(__file__).resolve().parent


def asset(*parts: str) -> Path:
    """The path of a shipped asset below ``prompts``, ``indexes`` or ``eval``, in a checkout or an installed wheel."""
    installed = _PACKAGE / "_assets"
    return (installed if installed.is_dir() else _PACKAGE.parent).joinpath(*parts)


def cache_dir(*parts: str) -> Path:
    """A folder for what can be made again (indexes of the sample, embeddings, web answers), made if missing.

    ``MADKE_CACHE`` names it; by default ``madke`` below ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    base = os.environ.get("MADKE_CACHE")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "madke"
    folder = root.joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot be made: {error.strerror}; MADKE_CACHE names another place", file=folder) from None
    return folder
