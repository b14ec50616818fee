"""Requests for tests that care about one thing of them."""

import asyncio
from typing import Any

from madke.core.chat import ChatRequest, Message, Purpose
from madke.models.chat_models import close


def purpose(**changes: Any) -> Any:
    return Purpose(**{"question": "q1", "stage": "speak", "agent": "A", "round": 1, **changes})


def said_by(model: Any, *requests: Any) -> Any:
    """The model's completions of the requests; it is closed then."""

    async def completions() -> Any:
        try:
            return [await model.complete(request) for request in requests]
        finally:
            await close(model)

    return asyncio.run(completions())


def chat_request(
    text: str = "How deep is Lake Baikal?", *, system: str = "Be brief.", about: Any = None, **changes: Any
) -> Any:
    """A request with a system and a user message."""
    messages = [Message(role="user", content=text)]
    if system is not None:
        messages.insert(0, Message(role="system", content=system))
    fields = {"messages": tuple(messages), "purpose": about or purpose(), "temperature": 0.5, "max_tokens": 64}
    return ChatRequest(**{**fields, **changes})
