"""Chat models, and the layers around a call: store, retries, limits.

A model stack is ``Stored(Retrying(Limited(open_model(name), limiter)), store)``. The store answers first. A call that
waits for its next attempt holds no slot of the limiter.
"""

from madke.llm.endpoints import read_models
from madke.llm.limiter import Limited, Limiter, Limits
from madke.llm.models import as_chat_model, close, open_model
from madke.llm.openai_client import OpenAIChat
from madke.llm.retry import Retrying, RetryPolicy
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
