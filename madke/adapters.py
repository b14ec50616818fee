"""Completion functions for :func:`madke.debate` from OpenAI and Anthropic clients, as in the package lemmas.

A completion function takes chat messages and returns the reply's text. The functions made here return a
:class:`Reply`, a ``str`` with the provider's token counts.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Self

from madke.core.chat import Usage
from madke.models.openai_wire import provider_usage

__all__ = ["AsyncCompleteFn", "ChatMessages", "CompleteFn", "Reply", "anthropic_complete", "openai_complete"]

ChatMessages = list[dict[str, str]]
"""Messages with ``role`` and ``content``, as in OpenAI's API."""

CompleteFn = Callable[[ChatMessages], str | None]
"""Messages in, the reply's text out; None counts as an empty reply."""

AsyncCompleteFn = Callable[[ChatMessages], Awaitable[str | None]]


class Reply(str):
    """The text of a reply, with the provider's token counts, or None if it sent none."""

    __slots__ = ("usage",)
    usage: Usage | None

    def __new__(cls, text: str, usage: Usage | None = None) -> Self:  # noqa: D102
        reply = super().__new__(cls, text)
        reply.usage = usage
        return reply


def openai_complete(
    client: Any, model: str = "gpt-4o-mini", temperature: float = 0.7, max_tokens: int = 1024, **extra: Any
) -> Callable[[ChatMessages], Any]:
    """A completion function over an ``openai`` client.

    With an ``AsyncOpenAI`` client the function is asynchronous, for :func:`madke.adebate`. ``extra`` holds more
    parameters of ``chat.completions.create``: ``top_p``, ``seed``, ``stop``, ... Errors of the client are not caught.
    """

    def read(response: Any) -> Reply:
        text = response.choices[0].message.content or ""
        return Reply(text.strip(), provider_usage(getattr(response, "usage", None)))

    def complete(messages: ChatMessages) -> Any:
        response = client.chat.completions.create(
            model=model,
            messages=[dict(message) for message in messages],
            temperature=temperature,
            max_tokens=max_tokens,
            **extra,
        )
        return _sync_or_async(response, read)

    return complete


def anthropic_complete(
    client: Any, model: str = "claude-haiku-4-5-20251001", temperature: float = 0.7, max_tokens: int = 1024
) -> Callable[[ChatMessages], Any]:
    """A completion function over an ``anthropic`` client.

    With an ``AsyncAnthropic`` client the function is asynchronous, for :func:`madke.adebate`. Messages with the role
    ``system`` become Anthropic's system text. Errors of the client are not caught.
    """

    def read(response: Any) -> Reply:
        blocks = getattr(response, "content", ())
        text = "".join(block.text for block in blocks if getattr(block, "type", "") == "text")
        usage = getattr(response, "usage", None)
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        prompt, completion, read, written = (getattr(usage, name, None) or 0 for name in names)
        # ``input_tokens`` excludes tokens read from a cache or written to one.
        counts = Usage(prompt_tokens=prompt + read + written, cached_tokens=read, completion_tokens=completion)
        return Reply(text.strip(), counts if prompt or completion else None)

    def complete(messages: ChatMessages) -> Any:
        system = "\n".join(message.get("content") or "" for message in messages if message.get("role") == "system")
        response = client.messages.create(
            model=model,
            messages=[
                {"role": message.get("role", "user"), "content": message.get("content", "")}
                for message in messages
                if message.get("role") != "system"
            ],
            temperature=temperature,
            max_tokens=max_tokens,
            **({"system": system.strip()} if system.strip() else {}),
        )
        return _sync_or_async(response, read)

    return complete


def _sync_or_async(response: Any, read: Callable[[Any], Reply]) -> Any:
    if not inspect.isawaitable(response):
        return read(response)

    async def awaited() -> Reply:
        return read(await response)

    return awaited()
