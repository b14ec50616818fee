"""What OpenAI-compatible servers answer, read without trust: a completion, or the reason of a failed attempt.

Reasons hold the server's own words, whole: whoever shows them takes secrets out first, and shortens them then.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from madke.core.chat import ChatRequest, Completion, Outcome, Usage
from madke.core.errors import CallError
from madke.core.retry_after import retry_after
from madke.llm.usage import estimated_usage

if TYPE_CHECKING:
    import openai


def read_completion(body: bytes, request: ChatRequest, *, seconds: float, attempts: int) -> Completion:
    """The completion in a response with status 200, whatever the server calls its type.

    Args:
        body: The response's.
        request: What was asked, for the estimate of usage where the server sent none.
        seconds: How long it took.
        attempts: Requests it took.

    Raises:
        CallError: It is no chat completion (retryable: a proxy's page, an error with the wrong status).
    """
    try:
        response = json.loads(body)
    except (ValueError, RecursionError):
        said = body.decode("utf-8", "replace")
        raise CallError(f"status 200 with a body that is not JSON: {said!r}", retryable=True) from None
    choice = _first(_get(response, "choices"))
    if choice is None:
        told = _get(response, "error")
        message = _message(told) if told is not None else "no choices in it"
        raise CallError(f"status 200 without a reply: {message}", retryable=True)
    content = _text(choice, "message", "content")
    refusal = _text(choice, "message", "refusal")
    reasoning = _text(choice, "message", "reasoning_content") or _text(choice, "message", "reasoning")
    finish_reason = _text(choice, "finish_reason") or "stop"
    outcome: Outcome = "ok"
    error = None
    if finish_reason == "content_filter":
        outcome, error = "filtered", "the server's content filter cut the reply"
    elif refusal:
        outcome, error = "refused", f"the model refused: {refusal}"
    elif not content.strip():
        outcome, error = "empty", f"the reply is empty (finish reason {finish_reason!r})"
    return Completion(
        text="" if outcome == "empty" else content or refusal,
        reasoning=reasoning,
        outcome=outcome,
        error=error,
        finish_reason=finish_reason,
        usage=provider_usage(_get(response, "usage"))
        or estimated_usage(request.messages, content + refusal + reasoning),
        seconds=seconds,
        attempts=attempts,
    )


def read_error(error: Exception) -> CallError | None:
    """The failed attempt behind an exception of the ``openai`` package; None if it is something else.

    408, 409, 429, 5xx, broken connections and time-outs may succeed later; other statuses will not, nor will headers
    that are too long or a certificate that cannot be verified.
    """
    import aiohttp
    import openai
    from aiohttp.http_exceptions import LineTooLong
    from httpx2 import ConnectTimeout

    if isinstance(error, TimeoutError | openai.APIConnectionError | aiohttp.ClientError):
        causes = _causes(error)
        if any(isinstance(cause, TimeoutError) for cause in causes):
            return CallError(
                "the server did not answer in time (MADKE_TIMEOUT sets the seconds)",
                retryable=True,
                timed_out=not any(
                    isinstance(cause, aiohttp.ConnectionTimeoutError | ConnectTimeout) for cause in causes
                ),
            )
        # The root, for through aiohttp the package takes a broken connection for a timeout.
        root = causes[-1]
        if isinstance(root, LineTooLong) or getattr(root, "error_status_hint", None) == _HEADERS_TOO_LARGE:
            return CallError("the server's headers are longer than can be read", retryable=False)
        trusted = not isinstance(root, ssl.SSLCertVerificationError)
        return CallError(f"connection failed: {type(root).__name__}: {root}", retryable=trusted)
    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        return CallError(
            f"HTTP {status}: {_message(error.body)}",
            retryable=status in (408, 409, 429) or status >= 500,
            retry_after=retry_after(error.response.headers),
            overloaded=status in _OVERLOADED,
        )
    if isinstance(error, openai.APIError):
        return CallError(error.message, retryable=True)
    return None


def _causes(error: BaseException) -> list[BaseException]:
    """The exception, and what it came of, to the root."""
    causes = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    return causes


_HEADERS_TOO_LARGE = 431
"""The status that h11, under httpx, attaches to headers beyond its bound; aiohttp has an exception for a line."""

_OVERLOADED = (429, 503, 529)
"""Too many requests, no capacity now, and Anthropic's word for the latter."""

_TOO_LONG_CODES = {"context_length_exceeded", "exceed_context_size_error"}
"""OpenAI, Azure, Groq and others as ``code``; llama.cpp's server as ``type``."""

_TOO_LONG = re.compile(
    r"maximum context length"  # OpenAI, Azure, vLLM, SGLang, LiteLLM, DeepSeek, Mistral, OpenRouter
    r"|(?:longer than|too long to fit into) the (?:model|maximum model length)"  # vLLM, SGLang
    r"|exceeds? (?:the (?:available )?)?context (?:size|length|window)"  # llama.cpp, Ollama, LM Studio
    r"|input length \(\d+ tokens\) exceeds"  # SGLang
    r"|`inputs` tokens \+ `max_new_tokens` must be|`inputs` must have less than"  # text-generation-inference
    r"|prompt is too long: \d+ tokens"  # Anthropic
    r"|input token count \(\d+\) exceeds"  # Gemini
)


def refused_prompt(error: openai.APIStatusError) -> Outcome | None:
    """``filtered`` or ``too_long`` where the server refuses this very prompt, else None.

    A limit of tokens a minute is another matter; its status is 429.
    """
    if error.code == "content_filter":
        return "filtered"
    if error.status_code == 429:
        return None
    named = {str(error.code), str(error.type)}
    return "too_long" if named & _TOO_LONG_CODES or _TOO_LONG.search(_message(error.body).casefold()) else None


def refused_parameter(error: openai.BadRequestError) -> str | None:
    """``max_tokens``, ``temperature`` or ``seed`` if the server says that it does not take it, else None.

    A value that is merely too large is another matter, so the error must say that something is unsupported.
    """
    told = f"{error.code} {_message(error.body)}".lower()
    if not any(word in told for word in ("unsupported", "not support", "unrecognized request argument")):
        return None
    # "Use 'max_completion_tokens' instead" names it only with quotes, or not at all.
    named = [error.param, *re.findall(r"'(\w+)'", told), *re.findall(r"supplied: (\w+)", told)]
    return next((p for p in ("max_tokens", "temperature", "seed") if p in named), None)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms]|$)")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0, "ms": 0.001}


def rates_wait(headers: Mapping[str, str]) -> float:
    """Seconds until a rate of which nothing is left is whole again, by OpenAI's headers; 0 if something is left.

    They are ``x-ratelimit-remaining-requests`` and ``-tokens`` with their ``x-ratelimit-reset-...``: ``1s``,
    ``6m0s``, ``120ms``, or a bare number of seconds (Azure). What is left is a number; -1 is Azure's word for no bound.

    Args:
        headers: The response's, by lower-case name.
    """
    longest = 0.0
    for rate in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{rate}") == "0":
            reset = headers.get(f"x-ratelimit-reset-{rate}", "").strip()
            parts = _DURATION.findall(reset)
            if "".join(number + unit for number, unit in parts) == reset:
                longest = max(longest, sum(float(number) * _SECONDS[unit] for number, unit in parts))
    return longest


def provider_usage(usage: Any) -> Usage | None:
    """The token counts of a response's ``usage``; None where the provider sent none that can be true.

    What is part of a count (cached of prompt, reasoning of completion) is at most that.
    """
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if prompt is None or completion is None:
        return None
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=min(_count(usage, "prompt_tokens_details", "cached_tokens") or 0, prompt),
        completion_tokens=completion,
        reasoning_tokens=min(_count(usage, "completion_tokens_details", "reasoning_tokens") or 0, completion),
    )


def _get(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


_MOST_TOKENS = 10**9
"""Of one call; a count above it is nonsense, and would end a run's token budget."""


def _count(value: Any, *names: str) -> int | None:
    found = _get(value, *names)
    valid = isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _MOST_TOKENS
    return found if valid else None


def _text(value: Any, *names: str) -> str:
    found = _get(value, *names)
    return _writable(found) if isinstance(found, str) else ""


def _writable(text: str) -> str:
    """The text without lone surrogates, which could be sent to no server again and written to no file."""
    return text.encode("utf-8", "replace").decode()


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _message(body: Any) -> str:
    """The server's own words in an error's body."""
    message = _get(body, "message") or _get(body, "detail") or body
    return _writable(message) if isinstance(message, str) else json.dumps(message, default=str)
