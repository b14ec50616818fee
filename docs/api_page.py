"""The page of the Python API: every public name of ``madke``, by what it is."""

from __future__ import annotations

import inspect
from typing import Any

import madke

GROUPS = {
    "Functions": "The verbs of the command line as functions. `aask`, `arun` and `adebate` are the asynchronous forms.",
    "Records": "What the functions take and return.",
    "Parts of a protocol": "The settings of every debate, and the mappings inside a `protocol.yaml` and `settings`.",
    "Steps of a protocol": "What a protocol's function gets: `from madke.engine.steps import Debate`.",
    "Interfaces": "What your own model, source or task must have. Any object with these methods works. A task that "
    "inherits from `BaseTask` has defaults for most of them.",
    "Errors": "Every function raises this error for bad input. Its text says in one line what is wrong.",
    "Modules": "The events of a running debate, and completion functions over clients that you already have.",
}

FIRST = ("ask", "aask", "stream", "run", "arun", "score", "compare", "ablate", "build_pools", "build_index")
"""The functions that most readers look for. The others follow by name."""

PARTS = ("Settings", "Debater", "Knowledge", "Reads", "Order")

MODULES = ("madke.events", "madke.adapters")

HEAD = """# Python API

<!-- Generated from madke.__all__ by python -m docs.generate; the texts are the docstrings. -->

`import madke` loads nothing. Each name loads what it needs when it is first used.
"""


def page() -> str:
    """The whole page."""
    groups: dict[str, list[str]] = {title: [] for title in GROUPS}
    for name in sorted(madke.__all__, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)):
        if not name.startswith("__") and not inspect.ismodule(getattr(madke, name)):
            groups[_group(getattr(madke, name))].append(f"madke.{name}")
    groups["Parts of a protocol"] = [f"madke.engine.settings.{name}" for name in PARTS]
    groups["Steps of a protocol"] = ["madke.engine.steps.Debate"]
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
