"""Whoever can answer a chat, and the layers around a call: store, retries, limits.

A model stack is ``Stored(Retrying(Limited(open_model(name), limiter)), store)``: the store answers first, and a call
that waits for its next attempt holds no slot of the limiter.
"""

from madke.llm.endpoints import AtEndpoint, Models, endpoints_of, moved, probe, read_models, refuse_two_addresses
from madke.llm.limiter import Limited, Limiter, Limits
from madke.llm.models import (
    MODEL_FORMS,
    UNPAID,
    WITH_ENDPOINT,
    as_chat_model,
    close,
    kind_of,
    names_code,
    open_model,
    split_address,
)
from madke.llm.openai_client import OpenAIChat
from madke.llm.retry import Retrying, RetryPolicy
from madke.llm.scripted import ScriptedChat
from madke.llm.store import CallStore, Stored

__all__ = [
    "MODEL_FORMS",
    "UNPAID",
    "WITH_ENDPOINT",
    "AtEndpoint",
    "CallStore",
    "Limited",
    "Limiter",
    "Limits",
    "Models",
    "OpenAIChat",
    "RetryPolicy",
    "Retrying",
    "ScriptedChat",
    "Stored",
    "as_chat_model",
    "close",
    "endpoints_of",
    "kind_of",
    "moved",
    "names_code",
    "open_model",
    "probe",
    "read_models",
    "refuse_two_addresses",
    "split_address",
]
