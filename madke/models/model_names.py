"""The kinds of models, and what the name of a model says: its kind, its address, whether it names code."""

import re
from typing import NamedTuple

ADDRESS = re.compile(r"(.+)@(https?://.*)")
"""A name with the address of its server."""
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class ModelKind(NamedTuple):
    """What help texts, messages and other packages know of a kind; ``chat_models`` opens it."""

    form: str
    """The form of its names. The kind is the part before the slash."""
    has_endpoint: bool = False
    """It takes a base URL."""
    is_loaded: bool = False
    """This machine loads its weights when it is opened."""
    is_unpaid: bool = False
    """Its calls cost nothing, so that it needs no price."""


MODEL_KINDS = {
    "offline": ModelKind("offline", is_unpaid=True),
    "openai": ModelKind("openai/NAME", has_endpoint=True),
    "azure": ModelKind("azure/DEPLOYMENT", has_endpoint=True),
    "hf": ModelKind("hf/NAME_OR_PATH", is_loaded=True),
    "gguf": ModelKind("gguf/PATH_OR_PACKAGE", is_loaded=True),
    "scripted": ModelKind("scripted/FILE", is_unpaid=True),
    "human": ModelKind("human", is_unpaid=True),
}
"""By the kind in a model's name, in the order of help texts."""
_DECLARED = ModelKind("NAME", has_endpoint=True)


def kind_of(name: str) -> str:
    """The kind in a model's name: ``openai`` for ``openai/gpt-4o``."""
    return name.partition("/")[0]


def model_kind(name: str) -> ModelKind:
    """What is known of the model. One of ``models.yaml`` or of the user's code may have an endpoint and a price."""
    return MODEL_KINDS.get(kind_of(name), _DECLARED)


def has_endpoint(name: str) -> bool:
    """Whether the model may take a base URL."""
    return model_kind(name).has_endpoint


def forms_with_endpoint(conjunction: str) -> str:
    """The forms of models that take a base URL, for a message."""
    return f" {conjunction} ".join(kind.form for kind in MODEL_KINDS.values() if kind.has_endpoint)


def names_code(name: str) -> bool:
    """Whether the name is ``module:object``. Opening it imports the module, which runs its code."""
    return kind_of(name) not in MODEL_KINDS and _CODE.fullmatch(name) is not None


def split_address(name: str) -> tuple[str, str | None]:
    """Split ``openai/NAME@URL`` into ``openai/NAME`` and the URL; the URL is None for a name without one."""
    match = ADDRESS.fullmatch(name) if kind_of(name) in MODEL_KINDS and has_endpoint(name) else None
    return (match[1], match[2]) if match else (name, None)
