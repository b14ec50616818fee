"""Whoever can answer a chat, and the layers around a call: store, retries, limits.

A model stack is ``Stored(Retrying(Limited(open_model(name), limiter)), store)``: the store answers first, and a call
that waits for its next attempt holds no slot of the limiter.
"""

from madke.llm.human import HumanChat
from madke.llm.limiter import Limited, Limiter, LimiterState
from madke.llm.models import UNPAID, WITH_ENDPOINT, as_chat_model, close, kind_of, open_model
from madke.llm.openai_client import AzureChat, OpenAIChat
from madke.llm.retry import Retrying, RetryPolicy
from madke.llm.scripted import ScriptedChat
from madke.llm.store import CallStore, Recorded, Stored
from madke.llm.transformers_chat import HFChat

__all__ = [
    "UNPAID",
    "WITH_ENDPOINT",
    "AzureChat",
    "CallStore",
    "HFChat",
    "HumanChat",
    "Limited",
    "Limiter",
    "LimiterState",
    "OpenAIChat",
    "Recorded",
    "RetryPolicy",
    "Retrying",
    "ScriptedChat",
    "Stored",
    "as_chat_model",
    "close",
    "kind_of",
    "open_model",
]
