"""Chat models, and the layers around a call: store, retries, limits.

A model stack is ``Stored(Retrying(Limited(open_model(name), limiter)), store)``. The store answers first. A call that
waits for its next attempt holds no slot of the limiter.
"""

from madke.endpoints.endpoint import read_models
from madke.endpoints.limiter import Limited, Limiter, Limits
from madke.endpoints.openai_client import OpenAIChat
from madke.endpoints.retry import Retrying, RetryPolicy
from madke.llm.models import as_chat_model, close, open_model
from madke.llm.scripted import ScriptedChat
from madke.llm.store import CallStore, Stored

__all__ = [
    "CallStore",
    "Limited",
    "Limiter",
    "Limits",
    "OpenAIChat",
    "RetryPolicy",
    "Retrying",
    "ScriptedChat",
    "Stored",
    "as_chat_model",
    "close",
    "open_model",
    "read_models",
]
