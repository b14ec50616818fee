"""The page of the Python API: every public name of ``madke``, by what it is."""

from __future__ import annotations

import inspect
from typing import Any

import madke

GROUPS = {
    "Functions": "Each does what the command line's verb of the same name does.",
    "Records": "What the functions take and return.",
    "Interfaces": "What an own model, source, task or metric must have. Any object with these methods will do.",
    "Errors": "What is wrong with an input is one line for a person.",
    "Modules": "Events of a running debate, and completion functions over clients that you already have.",
}

MODULES = ("madke.events", "madke.adapters")

HEAD = """# Python API

<!-- Generated from madke.__all__ by python -m docs.generate; the texts are the docstrings. -->

`import madke` loads nothing. Each name loads what it needs when it is first used.
"""


def page() -> str:
    """The whole page."""
    groups: dict[str, list[str]] = {title: [] for title in GROUPS}
    for name in madke.__all__:
        if not name.startswith("__") and not inspect.ismodule(getattr(madke, name)):
            groups[_group(getattr(madke, name))].append(f"madke.{name}")
    groups["Modules"] = list(MODULES)
    parts = [HEAD]
    for title, names in groups.items():
        parts.append(f"## {title}\n\n{GROUPS[title]}\n")
        parts += [f"::: {name}\n" for name in names]
    return "\n".join(parts)


def _group(public: Any) -> str:
    if not inspect.isclass(public):
        return "Functions"
    if issubclass(public, Exception):
        return "Errors"
    return "Interfaces" if getattr(public, "_is_protocol", False) or public.__name__.startswith("Base") else "Records"
