"""Errors as OpenAI-compatible servers word them, in the body of any status, and what follows from them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from madke.core.chat import Outcome
from madke.core.errors import CallError

_RETRYABLE = (408, 409, 429)
"""Statuses below 500 after which the same request may succeed."""

_OVERLOADED = (429, 503, 529)
"""Too many requests; no capacity now; Anthropic's status for no capacity."""

_PAYMENT = re.compile(
    r"insufficient_?(?:quota|credits?|balance|funds)|exceeded_current_quota|billing|payment_required|arrear"
    r"|out_of_credits?|credits?_(?:exhausted|depleted|balance)"
)
"""Codes and types that say that nobody pays: OpenAI, OpenRouter, Moonshot, DeepSeek, Alibaba. Waiting does not help."""

_UNPAID = re.compile(
    r"insufficient (?:balance|credits?|funds)|credit balance is too low|used all available credits"
    r"|(?:monthly )?spending limit|requires more credits"
)
"""The same in messages. "Exceeded your current quota" is not here: Gemini says it of a quota per minute."""

_LASTING = re.compile(
    r"auth|api_key|permission|forbidden|access_(?:denied|terminated)|deactivated|suspended"
    r"|model_not_found|not_found_error|invalid_request"
)
"""Codes and types of other errors that the same request would meet again."""

_TOO_LONG_CODES = {
    "context_length_exceeded",  # OpenAI, Azure, Groq and others
    "exceed_context_size_error",  # llama.cpp
    "tokens_limit_reached",  # GitHub Models
    "model_context_window_exceeded",  # GLM
    "request_too_large",  # Anthropic
    "string_above_max_length",  # OpenAI, for one message
}

_TOO_LONG = re.compile(
    r"maximum context length"  # OpenAI, Azure, vLLM, SGLang, LiteLLM, DeepSeek, Mistral, OpenRouter
    r"|maximum (?:prompt|allowed input) length (?:is|of) [\d,]+"  # xAI, Poolside
    r"|(?:longer than|too long to fit into) the (?:model|maximum model length)"  # vLLM, SGLang
    r"|exceed(?:s|ed|ing)? (?:the |max |available |model'?s? )*context (?:size|length|window|limit)"
    # llama.cpp, Ollama, LM Studio, OpenAI; "input length and `max_tokens` exceed context limit": Anthropic
    r"|context[ _](?:length|window)[ _]exceed"
    r"|input length \(\d+ tokens\) exceeds"  # SGLang
    r"|`inputs` tokens \+ `max_new_tokens` must be|`inputs` must have less than"  # text-generation-inference
    r"|prompt is too long: [\d,]+ tokens"  # Anthropic
    r"|input is too long for (?:the )?requested model"  # Bedrock
    r"|too many input tokens|input tokens? exceeds?"  # Bedrock
    r"|input token count \(\d+\) exceeds|input token count exceeds"  # Gemini
    r"|greater than (?:the )?(?:context length|max_seq_len)"  # LM Studio, TabbyAPI
    r"|context length of only [\d,]+ tokens|reached context length of [\d,]+ tokens"  # LM Studio
    r"|request body too large for .{1,80} model\. max size: [\d,]+ tokens"  # GitHub Models
    r"|too many tokens:"  # Cohere; with a comma it is Bedrock's rate limit
    r"|prompt token count of [\d,]+ exceeds the limit of"  # GitHub Copilot
    r"|context window exceeds limit|exceeded model token limit"  # MiniMax, Moonshot
    r"|range of input length should be"  # Alibaba
    r"|requires a sequence length of [\d,]+, but the maximum"  # SambaNova
    r"|please reduce the length of the messages"  # Groq
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerError:
    """What a server says went wrong."""

    status: int
    """That of the response; under a status of 200, the one in the body."""
    names: frozenset[str]
    """Its code, type and status where those are words, in lower case."""
    param: str
    message: str
    """The server's own words, with those of the provider behind it."""

    @classmethod
    def read(cls, status: int, body: Any) -> Self:
        """The error in a body of any shape.

        Args:
            status: The response's.
            body: The JSON value, or its ``error``.
        """
        # Gemini puts its errors into a list.
        body = body[0] if isinstance(body, list) and len(body) == 1 else body
        inner = field(body, "error") or body
        stated = [field(inner, name) for name in ("code", "type", "status")]
        if status == 200:
            status = next((number for value in stated if (number := _status(value))), 200)
        return cls(
            status=status,
            names=frozenset(value.lower() for value in stated if isinstance(value, str)),
            param=text_of(inner, "param"),
            message=_message(inner),
        )


def outcome_of(error: ServerError) -> Outcome | None:
    """``filtered`` or ``too_long`` where the server does not take this very prompt, else None.

    A limit of tokens per minute is another matter; its status is 429.
    """
    if "content_filter" in error.names:
        return "filtered"
    if error.status == 429 or "rate_limit_exceeded" in error.names:
        return None
    return "too_long" if error.names & _TOO_LONG_CODES or _TOO_LONG.search(error.message.casefold()) else None


def read_failure(error: ServerError, where: str, *, retry_after: float | None = None) -> CallError:
    """The failed attempt.

    408, 409, 429 and 5xx may succeed later, unless nobody pays for the account. Under a status of 200 the error's own
    code decides. One that is unknown may pass.

    Args:
        error: What the server said.
        where: What the reason begins with.
        retry_after: Seconds that the server asks to wait.
    """
    retryable = error.status in _RETRYABLE or error.status >= 500
    if error.status == 200:
        retryable = not any(map(_LASTING.search, error.names))
    if any(map(_PAYMENT.search, error.names)) or _UNPAID.search(error.message.casefold()):
        retryable = False
    return CallError(
        f"{where}: {error.message}",
        retryable=retryable,
        retry_after=retry_after,
        overloaded=retryable and error.status in _OVERLOADED,
    )


def field(value: Any, *names: str) -> Any:
    """A field of nested mappings or objects; None where it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def text_of(value: Any, *names: str) -> str:
    """A field of nested mappings that is a text; else the empty one."""
    found = field(value, *names)
    return as_text(found) if isinstance(found, str) else ""


def as_text(text: str) -> str:
    """The text without lone surrogates, which could be sent to no server again and written to no file."""
    return text.encode("utf-8", "replace").decode()


def _status(value: Any) -> int | None:
    """An HTTP status that stands in a body, as a number or a text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _message(body: Any) -> str:
    """The server's own words in an error's body, and those of the provider behind it (OpenRouter's ``raw``)."""
    message = field(body, "message") or field(body, "detail") or body
    try:
        said = as_text(message) if isinstance(message, str) else json.dumps(message, default=str)
    except RecursionError:
        said = "an error that is nested too deep to be shown"
    raw = text_of(body, "metadata", "raw")
    return f"{said}: {raw}" if raw else said
