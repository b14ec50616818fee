"""Token counts where nobody counted."""

from __future__ import annotations

from collections.abc import Iterable

from madke.core.chat import Message, Usage

_CHARACTERS_PER_TOKEN = 4


def estimated_usage(messages: Iterable[Message], text: str) -> Usage:
    """Usage guessed from lengths, and marked as a guess.

    The rule is one token for every four characters, rounded up: close to what byte-pair tokenizers make of English
    prose, too low for other scripts and for numbers.

    Args:
        messages: The prompt.
        text: Everything that the model wrote, hidden reasoning included.
    """
    return Usage(
        prompt_tokens=_tokens(sum(len(message.content) for message in messages)),
        completion_tokens=_tokens(len(text)),
        estimated=True,
    )


def added(one: Usage, two: Usage) -> Usage:
    """The usage of two requests together; an estimate where one of them is."""
    return Usage(
        prompt_tokens=one.prompt_tokens + two.prompt_tokens,
        cached_tokens=one.cached_tokens + two.cached_tokens,
        completion_tokens=one.completion_tokens + two.completion_tokens,
        reasoning_tokens=one.reasoning_tokens + two.reasoning_tokens,
        estimated=one.estimated or two.estimated,
    )


def _tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_PER_TOKEN)
