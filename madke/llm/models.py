"""From a model's name, as the command line and variant files write it, to the model."""

from __future__ import annotations

from madke.core.chat import ChatModel, Closable
from madke.core.errors import UserError, unknown
from madke.llm.human import HumanChat
from madke.llm.openai_client import AzureChat, OpenAIChat
from madke.llm.scripted import ScriptedChat
from madke.llm.transformers_chat import HFChat

MODEL_FORMS = {
    "offline": "offline",
    "openai": "openai/NAME",
    "azure": "azure/DEPLOYMENT",
    "hf": "hf/NAME_OR_PATH",
    "scripted": "scripted/FILE",
    "human": "human",
}
"""How each kind of model is written."""

WITH_ENDPOINT = ("openai", "azure")
"""Kinds of models that a base URL can lead to."""

UNPAID = ("offline", "scripted", "human")
"""Kinds of models whose calls nobody charges for."""


def kind_of(name: str) -> str:
    """The kind of a model, by its name: ``openai`` of ``openai/gpt-4o``."""
    return name.partition("/")[0]


def open_model(name: str, *, base_url: str | None = None, replay: bool = False) -> ChatModel:
    """The model of a name; close it with :func:`close`.

    No server is asked yet; weights of an ``hf/`` model are loaded, and fetched where they are missing.

    ``openai/``, ``azure/`` and ``hf/`` models raise :class:`madke.core.errors.CallError` for a failed attempt:
    wrap them as ``Stored(Retrying(Limited(model, limiter)), store)``.

    Args:
        name: One of :data:`MODEL_FORMS`.
        base_url: The endpoint of an ``openai/`` model (default: ``OPENAI_BASE_URL``, else OpenAI's own) or an
            ``azure/`` model (default: ``AZURE_OPENAI_ENDPOINT``).
        replay: The model is only named, never called: no key is needed and no weights are loaded.

    Raises:
        UserError: No such model, a missing key or endpoint, a bad script file, weights that cannot be loaded, or a
            variable of the environment (``MADKE_TIMEOUT``, ``MADKE_TRANSPORT``) with a value that it cannot have.
    """
    kind, rest = kind_of(name), name.partition("/")[2]
    if kind not in MODEL_FORMS:
        raise unknown("model", kind, MODEL_FORMS)
    if bool(rest) != ("/" in MODEL_FORMS[kind]):
        raise UserError(f"model {name!r}: expected {MODEL_FORMS[kind]}")
    if base_url is not None and kind not in WITH_ENDPOINT:
        raise UserError(f"model {name!r} has no endpoint; a base URL is for openai/NAME and azure/DEPLOYMENT")
    if kind == "openai":
        return OpenAIChat(rest, base_url=base_url, needs_key=not replay)
    if kind == "azure":
        return AzureChat(rest, endpoint=base_url, needs_key=not replay)
    if kind == "hf":
        local = HFChat(rest)
        if not replay:
            local.load()
        return local
    if kind == "scripted":
        return ScriptedChat.from_file(rest)
    if kind == "human":
        return HumanChat()
    from madke.llm.offline import OfflineChat

    return OfflineChat()


async def close(model: ChatModel) -> None:
    """Close what a model of :func:`open_model` holds open (connections, a thread); the others need nothing.

    Call it in the event loop in which the model was used.
    """
    if isinstance(model, Closable):
        await model.aclose()


def as_chat_model(model: object, name: str | None = None) -> ChatModel:
    """Until the endpoints are merged."""
    return model  # type: ignore[return-value]
