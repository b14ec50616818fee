"""What the name of a model says: its kind, its address, whether it names code."""

import re

from madke.endpoints.endpoint import ADDRESS

MODEL_FORMS = {
    "offline": "offline",
    "openai": "openai/NAME",
    "azure": "azure/DEPLOYMENT",
    "hf": "hf/NAME_OR_PATH",
    "gguf": "gguf/PATH_OR_PACKAGE",
    "scripted": "scripted/FILE",
    "human": "human",
}

WITH_ENDPOINT = ("openai", "azure")
"""Kinds of models that take a base URL."""

LOADED = ("hf", "gguf")
"""Kinds of models whose weights this machine loads when they are opened."""

UNPAID = ("offline", "scripted", "human")
"""Kinds of models whose calls cost nothing."""

_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def kind_of(name: str) -> str:
    """The kind in a model's name: ``openai`` for ``openai/gpt-4o``."""
    return name.partition("/")[0]


def names_code(name: str) -> bool:
    """Whether the name is ``module:object``. Opening it imports the module, which runs its code."""
    return kind_of(name) not in MODEL_FORMS and _CODE.fullmatch(name) is not None


def split_address(name: str) -> tuple[str, str | None]:
    """Split ``openai/NAME@URL`` into ``openai/NAME`` and the URL; the URL is None for a name without one."""
    found = ADDRESS.fullmatch(name)
    return (found[1], found[2]) if found and kind_of(name) in WITH_ENDPOINT else (name, None)


def has_endpoint(name: str) -> bool:
    """Whether the model may take a base URL; true also for models from ``models.yaml`` and plugins."""
    return kind_of(name) in WITH_ENDPOINT or kind_of(name) not in MODEL_FORMS
