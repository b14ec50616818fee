"""The kinds of models, and what the name of a model says: its kind, its address, whether it names code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

ADDRESS = re.compile(r"(.+)@(https?://.*)")
"""A name with the address of its server."""
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelKind:
    """What help texts, messages, the docs and other packages know of a kind; ``chat_models`` opens it."""

    form: str
    """The form of its names. The kind is the part before the slash."""
    definitions: Mapping[str, str]
    """Its lines in ``docs/endpoints.md``: form -> meaning."""
    has_endpoint: bool = False
    """It takes a base URL."""
    is_loaded: bool = False
    """This machine loads its weights when it is opened."""
    is_unpaid: bool = False
    """Its calls cost nothing, so that it needs no price."""


_KINDS = (
    ModelKind(
        form="offline", definitions={"offline": "the built-in reader; no language model, no network"}, is_unpaid=True
    ),
    ModelKind(
        form="openai/NAME",
        definitions={
            "openai/NAME": "a model at OpenAI, or at the server of `--base-url`",
            "openai/NAME@URL": "a model at its own address",
        },
        has_endpoint=True,
    ),
    ModelKind(form="azure/DEPLOYMENT", definitions={"azure/DEPLOYMENT": "a deployment at Azure"}, has_endpoint=True),
    ModelKind(
        form="hf/NAME_OR_PATH",
        definitions={"hf/NAME_OR_PATH": "a Hugging Face chat model, in this process"},
        is_loaded=True,
    ),
    ModelKind(
        form="gguf/PATH_OR_PACKAGE",
        definitions={
            "gguf/PATH": "a GGUF file on this machine, with llama.cpp",
            "gguf/PACKAGE": "the GGUF file that an installed package ships",
        },
        is_loaded=True,
    ),
    ModelKind(
        form="scripted/FILE", definitions={"scripted/FILE": "fixed replies from a YAML file, for tests"}, is_unpaid=True
    ),
    ModelKind(form="human", definitions={"human": "you, at the terminal"}, is_unpaid=True),
)


def kind_of(name: str) -> str:
    """The kind in a model's name: ``openai`` for ``openai/gpt-4o``."""
    return name.partition("/")[0]


MODEL_KINDS = {kind_of(kind.form): kind for kind in _KINDS}
"""By the kind in a model's name, in the order of help texts."""


def forms_with_endpoint(conjunction: str) -> str:
    """The forms of models that take a base URL, for a message."""
    return f" {conjunction} ".join(kind.form for kind in _KINDS if kind.has_endpoint)


def names_code(name: str) -> bool:
    """Whether the name is ``module:object``. Opening it imports the module, which runs its code."""
    return kind_of(name) not in MODEL_KINDS and _CODE.fullmatch(name) is not None


def split_address(name: str) -> tuple[str, str | None]:
    """Split ``openai/NAME@URL`` into ``openai/NAME`` and the URL; the URL is None for a name without one."""
    kind = MODEL_KINDS.get(kind_of(name))
    found = ADDRESS.fullmatch(name) if kind and kind.has_endpoint else None
    return (found[1], found[2]) if found else (name, None)


def has_endpoint(name: str) -> bool:
    """Whether the model may take a base URL; true also for models from ``models.yaml`` and of the user's own code."""
    kind = MODEL_KINDS.get(kind_of(name))
    return kind is None or kind.has_endpoint


def is_loaded(name: str) -> bool:
    """Whether this machine loads the model's weights when it is opened."""
    kind = MODEL_KINDS.get(kind_of(name))
    return kind is not None and kind.is_loaded


def is_unpaid(name: str) -> bool:
    """Whether the model's calls cost nothing."""
    kind = MODEL_KINDS.get(kind_of(name))
    return kind is not None and kind.is_unpaid
