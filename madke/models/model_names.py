"""The kinds of models, and what the name of a model says: its kind, its address, whether it names code."""

import re

MODEL_FORMS = {
    "offline": {"offline": "the built-in reader; no language model, no network"},
    "openai": {
        "openai/NAME": "a model at OpenAI, or at the server of `--base-url`",
        "openai/NAME@URL": "a model at its own address",
    },
    "azure": {"azure/DEPLOYMENT": "a deployment at Azure"},
    "hf": {"hf/NAME_OR_PATH": "a Hugging Face chat model, in this process"},
    "gguf": {
        "gguf/PATH": "a GGUF file on this machine, with llama.cpp",
        "gguf/PACKAGE": "the GGUF file that an installed package ships",
    },
    "scripted": {"scripted/FILE": "fixed replies from a YAML file, for tests"},
    "human": {"human": "you, at the terminal"},
}
"""Kind -> form of a name -> its meaning in ``docs/endpoints.md``; in the order of help texts."""

ADDRESS = re.compile(r"(.+)@(https?://.*)")
"""A name with the address of its server."""
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def kind_of(name: str) -> str:
    """The kind in a model's name: ``openai`` for ``openai/gpt-4o``."""
    return name.partition("/")[0]


def names_code(name: str) -> bool:
    """Whether the name is ``module:object``. Opening it imports the module, which runs its code."""
    return kind_of(name) not in MODEL_FORMS and _CODE.fullmatch(name) is not None


def split_address(name: str) -> tuple[str, str | None]:
    """Split ``openai/NAME@URL`` into ``openai/NAME`` and the URL; the URL is None for a name without one."""
    found = ADDRESS.fullmatch(name) if kind_of(name) in ("openai", "azure") else None
    return (found[1], found[2]) if found else (name, None)


def has_endpoint(name: str) -> bool:
    """Whether the model may take a base URL; true also for models from ``models.yaml`` and plugins."""
    return kind_of(name) in ("openai", "azure") or kind_of(name) not in MODEL_FORMS


def is_loaded(name: str) -> bool:
    """Whether this machine loads the model's weights when it is opened."""
    return kind_of(name) in ("hf", "gguf")


def is_unpaid(name: str) -> bool:
    """Whether the model's calls cost nothing, so that it needs no price."""
    return kind_of(name) in ("offline", "scripted", "human")
