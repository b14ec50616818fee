"""Parse responses of OpenAI-compatible servers defensively: a completion, or the reason of a failed attempt."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from madke.core.addresses import bare_url, retry_after
from madke.core.chat import ChatRequest, Completion, Outcome, Usage, decoded, writable
from madke.core.errors import CallError
from madke.engine.parse import checked
from madke.models.prices import estimated_usage
from madke.models.refusals import ServerError, field, refused_completion, text_of

if TYPE_CHECKING:
    import httpx2

_FAILED = {"error", "abort", "network_error", "insufficient_system_resource"}
"""Finish reasons of an incomplete reply: OpenRouter and Mistral, vLLM, GLM, DeepSeek."""


_TIMINGS = re.compile(rb'"timings"\s*:\s*\{[^{}]{0,200}?"prompt_n"')
"""What llama.cpp adds to its replies. Quotes inside of a text have a backslash before them."""


def has_slots(body: bytes) -> bool:
    """Whether a response is from llama.cpp, whose calls at the same time share nothing that it has read."""
    return _TIMINGS.search(body) is not None


def parsed(body: bytes) -> Any:
    """The JSON value in a body with status 200; CallError if it is none."""
    try:
        return json.loads(decoded(body))
    except (ValueError, RecursionError):
        raise CallError(f"status 200 with a body that is not JSON: {decoded(body)!r}", retryable=True) from None


def read_completion(
    body: bytes,
    request: ChatRequest,
    *,
    seconds: float,
    attempts: int,
    is_cut: Callable[[int], bool] = lambda counted: False,
) -> Completion:
    """The completion in a response with status 200, of any content type.

    CallError if it holds none, such as a proxy's page. An error in the body is classified by its own code. ``is_cut``:
    whether the number of prompt tokens that the server counted shows that it cut the prompt.
    """
    response = parsed(body)
    choice = _first(field(response, "choices"))
    finish_reason = text_of(choice, "finish_reason") or "stop"
    error = field(choice, "error") or field(response, "error")
    if choice is None and not error and (field(response, "message") or field(response, "detail")):
        error = response
    if choice is None or error or finish_reason in _FAILED:
        default = "no choices in it" if choice is None else f"the finish reason is {finish_reason!r}"
        return refused_completion(
            ServerError.read(200, error or default), "status 200 without a reply", attempts=attempts
        )
    content, reasoning, refusal = _message_parts(field(choice, "message"))
    outcome: Outcome = "filtered" if finish_reason == "content_filter" else "refused" if refusal else "ok"
    reasons = {"filtered": "the server's content filter cut the reply", "refused": f"the model refused: {refusal}"}
    written = content + refusal + reasoning
    stated = field(response, "usage")
    usage = provider_usage(stated, written, max_tokens=request.max_tokens)
    if usage is not None and is_cut(_whole_prompt(stated, usage)):
        usage = replace(usage, server_cut=True)
    completion = Completion(
        text=content or refusal,
        reasoning=reasoning,
        outcome=outcome,
        error=reasons.get(outcome),
        finish_reason=finish_reason,
        usage=usage or estimated_usage(request.messages, written),
        seconds=seconds,
        attempts=attempts,
        tier=text_of(response, "service_tier"),
    )
    return checked(completion, request.max_tokens)


def assembled(body: bytes) -> bytes:
    """Assemble a stream of chunks (server-sent events) into one response; any other body is returned unchanged.

    An error chunk is a failure, and so is a stream without a finish reason.
    """
    parts: list[tuple[str, str, str]] = []
    usage, finish_reason, error, tier = None, "", None, ""
    lines = body.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            chunk = _chunk(line)
        except (ValueError, RecursionError):
            if parts and number == len(lines):
                break  # the stream ended within this line
            return body
        if chunk is None:
            continue
        choice = _first(field(chunk, "choices"))
        parts.append(_message_parts(field(choice, "delta")))
        usage = field(chunk, "usage") or usage
        tier = text_of(chunk, "service_tier") or tier
        error = error or field(chunk, "error") or field(choice, "error")
        finish_reason = text_of(choice, "finish_reason") or finish_reason
    if not parts:
        return body
    message = dict(
        zip(("content", "reasoning_content", "refusal"), map("".join, zip(*parts, strict=True)), strict=True)
    )
    if not finish_reason:
        error = error or "the stream ended early, without a finish reason"
    choice = {"message": message, "finish_reason": finish_reason or "error"}
    whole = {"choices": [choice], "usage": usage, "service_tier": tier}
    return json.dumps(whole | ({"error": error} if error else {})).encode()


def delta(line: bytes) -> tuple[str, str, str]:
    """What one line of a stream adds to the text, to the hidden reasoning and to a refusal."""
    try:
        return _message_parts(field(_first(field(_chunk(line), "choices")), "delta"))
    except (ValueError, RecursionError):
        return "", "", ""


def _chunk(line: bytes) -> Any:
    """The JSON of one line of a stream; None if it holds none."""
    data = line.decode("utf-8", "replace").strip()
    return json.loads(data[5:]) if data.startswith("data:") and data[5:].strip() != "[DONE]" else None


def read_refusal(error: ServerError, response: httpx2.Response, *, attempts: int, at_tier: bool = False) -> Completion:
    """The completion for an error status, if the server refuses this prompt; else CallError."""
    where = f"HTTP {error.status}{_redirected(response)}"
    after = retry_after(response.headers)
    return refused_completion(error, where, attempts=attempts, retry_after=after, at_tier=at_tier)


def is_utf8(body: bytes) -> bool:
    """Whether all bytes of a body are UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _redirected(response: httpx2.Response) -> str:
    location = response.headers.get("location") if response.is_redirect else None
    if not location:
        return ""
    try:
        target = bare_url(urljoin(str(response.request.url), location))
    except ValueError:
        target = "an address that is not a URL"
    return f" redirects to {target}; redirects are not followed: set the base URL to the address of the API"


def read_broken(error: Exception) -> Exception:
    """The CallError for a network exception; any other exception itself."""
    import aiohttp
    import openai
    from httpx2 import ConnectTimeout, DecodingError, TransportError

    if isinstance(error, DecodingError):
        return CallError(f"the reply cannot be decompressed: {error}", retryable=True)
    if isinstance(error, TimeoutError | openai.APIConnectionError | aiohttp.ClientError | TransportError):
        causes: list[BaseException] = [error]
        while cause := causes[-1].__cause__ or causes[-1].__context__:
            causes.append(cause)
        if any(isinstance(cause, TimeoutError) for cause in causes):
            connected = not any(isinstance(each, aiohttp.ConnectionTimeoutError | ConnectTimeout) for each in causes)
            reason = "the server did not answer in time (MADKE_TIMEOUT sets how many seconds it may be silent)"
            return CallError(reason, retryable=True, timed_out=connected)
        # Use the root cause: with aiohttp the package reports a broken connection as a timeout.
        root = causes[-1]
        trusted = not isinstance(root, ssl.SSLCertVerificationError)
        return CallError(f"connection failed: {type(root).__name__}: {root}", retryable=trusted)
    if isinstance(error, openai.APIError):
        return CallError(error.message, retryable=True)
    return error


def provider_usage(usage: Any, written: str = "", *, max_tokens: int = 0) -> Usage | None:
    """The token counts in a response's ``usage``; None if they are missing or impossible.

    Zero prompt tokens are impossible, as are zero completion tokens for non-empty ``written`` (text and reasoning).
    ``max_tokens`` is the limit of the request; 0: not known.
    """
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if not prompt or completion is None:
        return None
    beside, reasoning = _reasoning(usage, prompt, completion, max_tokens)
    completion += beside
    if written and not completion:
        return None
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=min(_count(usage, "prompt_tokens_details", "cached_tokens") or 0, prompt),
        completion_tokens=completion,
        reasoning_tokens=min(reasoning, completion),
    )


def _reasoning(usage: Any, prompt: int, completion: int, max_tokens: int) -> tuple[int, int]:
    """Tokens of hidden reasoning: those that ``completion_tokens`` leaves out, and all of them.

    They are part of ``completion_tokens`` at OpenAI and come in addition at xAI; the total tells which. Gemini counts
    them in the total alone. A total that is larger than the request allows has another reason, such as cached tokens.
    """
    stated = _count(usage, "completion_tokens_details", "reasoning_tokens") or _count(usage, "reasoning_tokens") or 0
    total = _count(usage, "total_tokens")
    if total is None:
        return (stated if completion < stated <= max_tokens - completion else 0), stated
    more = total - prompt - completion
    if stated:
        return (stated if more == stated else 0), stated
    hidden = more if 0 < more <= max_tokens - completion and not any(_cached_apart(usage)) else 0
    return hidden, hidden


def _whole_prompt(stated: Any, usage: Usage) -> int:
    """The largest number of prompt tokens that a response's usage allows: some servers count cached ones apart."""
    total = (_count(stated, "total_tokens") or 0) - usage.completion_tokens
    return max(total, usage.prompt_tokens + sum(_cached_apart(stated)))


def _cached_apart(usage: Any) -> list[int]:
    """Counts of cached prompt tokens, which some servers leave out of ``prompt_tokens``."""
    names = (("prompt_tokens_details", "cached_tokens"), ("cache_read_input_tokens",), ("cache_creation_input_tokens",))
    return [_count(usage, *each) or 0 for each in names]


_THOUGHT = ("thinking", "reasoning")
"""Types of the parts of a message that hold hidden reasoning."""


def _message_parts(message: Any) -> tuple[str, str, str]:
    """Text, reasoning and refusal of a message. Its content is a string, or a list of parts (Mistral)."""
    content = field(message, "content")
    parts = content if isinstance(content, list) else [content]
    thoughts = [part for part in parts if field(part, "type") in _THOUGHT]
    texts = [part for part in parts if field(part, "type") not in _THOUGHT]
    inner = [field(part, "thinking") or field(part, "reasoning") or field(part, "text") for part in thoughts]
    reasoning = "".join(_joined(part if isinstance(part, list) else [part]) for part in inner)
    reasoning = text_of(message, "reasoning_content") or text_of(message, "reasoning") or reasoning
    return _joined(texts), reasoning, text_of(message, "refusal")


def _joined(parts: list[Any]) -> str:
    texts = (part if isinstance(part, str) else field(part, "text") for part in parts)
    return writable("".join(text for text in texts if isinstance(text, str)))


_MAX_COUNT = 10**9
"""A higher token count of one call is invalid, and would use up a run's token budget."""


def _count(value: Any, *names: str) -> int | None:
    found = field(value, *names)
    if isinstance(found, float) and found.is_integer():  # some gateways send 50.0
        found = int(found)
    valid = isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _MAX_COUNT
    return found if valid else None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None
