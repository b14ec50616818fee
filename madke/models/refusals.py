"""Classify the errors of OpenAI-compatible servers, in the body of any status.

An error fails an attempt, is an outcome of the call, or shows which :class:`~madke.models.dialect.Dialect` the
server needs.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from madke.core.chat import Completion, writable
from madke.core.errors import CallError

RETRYABLE = (408, 409, 429)
"""Statuses below 500 after which the same request may succeed."""
_OVERLOADED = (429, 503, 529)
"""Too many requests; no capacity; Anthropic's status for no capacity."""
_PAYMENT = re.compile(
    r"insufficient_?(?:quota|credits?|balance|funds)|exceeded_current_quota|billing|payment_required|arrear"
    r"|out_of_credits?|credits?_(?:exhausted|depleted|balance)"
)
"""Codes and types of unpaid accounts: OpenAI, OpenRouter, Moonshot, DeepSeek, Alibaba. Waiting does not help."""

_UNPAID = re.compile(
    r"insufficient (?:balance|credits?|funds)|credit balance is too low|used all available credits"
    r"|(?:monthly )?spending limit|requires more credits"
)
"""The same in messages. "Exceeded your current quota" is missing on purpose: Gemini uses it for quotas per minute."""

_LASTING = re.compile(
    r"auth|api_key|permission|forbidden|access_(?:denied|terminated)|deactivated|suspended"
    r"|model_not_found|not_found_error|invalid_request"
)
"""Codes and types of other permanent errors."""

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
    """An error as a server reports it."""

    status: int
    """Status of the response; for status 200, the one in the body."""
    names: frozenset[str]
    """Code, type and status that are strings, in lower case."""
    param: str
    message: str
    wait: float | None = None
    """Seconds that the server asks to wait, in its message or in a field; None if it does not say."""

    @classmethod
    def read(cls, status: int, body: Any) -> Self:
        """The error in a body (the JSON value, or its ``error``) of any shape."""
        # Gemini wraps its errors in a list.
        body = body[0] if isinstance(body, list) and len(body) == 1 else body
        inner = field(body, "error") or body
        stated = [field(inner, name) for name in ("code", "type", "status")]
        if status == 200:  # the error's own, as a number or as its digits
            numbers = (int(value) for value in stated if re.fullmatch(r"[45]\d\d", str(value), re.ASCII))
            status = next(numbers, 200)
        return cls(
            status=status,
            names=frozenset(value.lower() for value in stated if isinstance(value, str)),
            param=text_of(inner, "param"),
            message=_message(inner),
            wait=stated_wait(body),
        )


def too_long(error: ServerError) -> bool:
    """Whether the prompt exceeds the context window; limits of tokens per minute do not count."""
    if error.status == 429 or "rate_limit_exceeded" in error.names:
        return False
    return bool(error.names & _TOO_LONG_CODES or _TOO_LONG.search(error.message.casefold()))


def free_tokens(error: ServerError, bound: int) -> int | None:
    """What the context window leaves for the reply, if a refusal of ``bound`` new tokens names it, and it suffices."""
    text = normalized(error.message)
    window, prompt, total = (_stated(pattern, text) for pattern in (_WINDOW, _PROMPT, _TOTAL))
    if prompt is None and total is not None:
        prompt = total - bound
    if window is None or prompt is None or not too_long(error):
        return None
    return free if MIN_FREE <= (free := window - prompt) < bound else None


def no_api(error: ServerError, model: str) -> bool:
    """Whether a server knows no such path, rather than no such model: the error does not speak of the model."""
    stated = " ".join((*error.names, error.message)).casefold()
    of_model = rf"(?<![\w.-]){re.escape(model.casefold())}(?![\w-])|\bmodel(?:_|\b)|deployment"
    return error.status in (404, 405) and not re.search(of_model, stated)


def refused_completion(
    error: ServerError, where: str, *, attempts: int, retry_after: float | None = None
) -> Completion:
    """The completion, ``filtered`` or ``too_long``, if the server refuses this prompt.

    Raises:
        CallError: The attempt failed for another reason. It is retryable for 408, 409, 429 and 5xx, except for unpaid
            accounts. For status 200 the error's own code decides; an unknown code is retryable.
    """
    reason = f"{where}: {error.message}"
    if "content_filter" in error.names:
        return Completion(outcome="filtered", error=reason, finish_reason="error", attempts=attempts)
    if too_long(error):
        return Completion(outcome="too_long", error=reason, finish_reason="error", attempts=attempts)
    wait = error.wait if retry_after is None else retry_after
    retryable = error.status in RETRYABLE or error.status >= 500
    if error.status == 200:
        retryable = not any(map(_LASTING.search, error.names))
    if any(map(_PAYMENT.search, error.names)) or _UNPAID.search(error.message.casefold()):
        retryable = False
    overloaded = retryable and error.status in _OVERLOADED
    raise CallError(reason, retryable=retryable, retry_after=wait, overloaded=overloaded)


def field(value: Any, *names: str) -> Any:
    """A field of nested mappings or objects; None if it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def text_of(value: Any, *names: str) -> str:
    """A string field of nested mappings; the empty string if it is missing or of another type."""
    found = field(value, *names)
    return writable(found) if isinstance(found, str) else ""


def _message(body: Any) -> str:
    """The server's message, followed by that of the provider behind it (OpenRouter's ``raw``)."""
    message = field(body, "message") or field(body, "detail") or body
    try:
        text = writable(message) if isinstance(message, str) else json.dumps(message, default=str)
    except RecursionError:
        text = "an error that is nested too deep to show"
    raw = text_of(body, "metadata", "raw")
    return f"{text}: {raw}" if raw else text


_COUNT = r"(\d[\d,]{0,13})"
_WINDOW = re.compile(
    rf"(?:maximum context length (?:is|of)|max_new_tokens must be <=|context limit: [\d,]{{1,14}} \+ [\d,]{{1,14}} >"
    rf"|maximum sequence length [a-z ]{{0,40}}?is) {_COUNT}|\b{_COUNT} maximum context length"
)
_PROMPT = re.compile(
    rf"\b{_COUNT} (?:tokens )?(?:of text input|(?:in|from) (?:the |your )?(?:input )?(?:messages|prompt|input)\b)"
    rf"|\b{_COUNT} (?:inputs?|prompt) tokens|prompt contains (?:at least )?{_COUNT}|context limit: {_COUNT} \+"
)
_TOTAL = re.compile(rf"requested (?:a total of |about )?{_COUNT} tokens|requires a sequence length of {_COUNT}")
MIN_FREE = 64
"""A reply of fewer tokens is not worth a call: the prompt is shortened instead."""
_READ_CHARACTERS = 20_000


def normalized(text: str) -> str:
    """The text in lower case, without quotes and escapes, which differ between servers."""
    return " ".join(re.sub(r"[\"'`\\]", "", text[:_READ_CHARACTERS].lower()).split())


def _stated(pattern: re.Pattern[str], text: str) -> int | None:
    """The number that the pattern finds, in whichever of its groups."""
    found = pattern.search(text)
    number = next(filter(None, found.groups()), "") if found else ""
    return int(number.replace(",", "")) if 0 < len(number) < 12 else None


def stated_window(text: str) -> int | None:
    """The context window that a normalized refusal names, in tokens."""
    return _stated(_WINDOW, text)


_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
_PART = re.compile(r"(\d+(?:\.\d+)?) ?(ms|milli|s|m|h|d)")
_DURATION = rf"\d+(?:\.\d+)? ?{_UNIT}(?![a-z])(?:,? ?(?:and )?\d+(?:\.\d+)? ?{_UNIT}(?![a-z]))*"
"""``39.2s``, ``1m26.4s``, ``2 minutes and 5 seconds``."""
_WAITS = (
    # A field: Gemini's retryDelay, or a header of the provider behind OpenRouter.
    re.compile(
        r'"(?:retry[-_]?(?:delay|after|in)|wait)[-_]?(?P<unit>ms|s)?[a-z]*": (?:\{"seconds": )?"?'
        rf'(?P<wait>{_DURATION}|\d{{1,15}}(?:\.\d+)?)(?=[",}}])'
    ),
    # "Please retry in 39.2s", "try again in 1m26.4s", "retry after 26 seconds", "wait 30 seconds", "resets in 2 min"
    re.compile(
        r"\b(?:retry(?:ing)?|try(?:ing)? again|wait(?:ing)?|available|resets?|resumes?)\b[^.!?\d]{0,40}?"
        rf"(?P<unit>)(?P<wait>{_DURATION})"
    ),
    re.compile(r"\bretry[ _-]?after:? ?(?P<unit>)(?P<wait>\d+(?:\.\d+)?)(?![\d.]*\w)"),
)
_RESET = re.compile(r'ratelimit-?reset": "?(\d{10})(\d{3})?\b')
"""A Unix time in seconds or milliseconds."""


def stated_wait(body: Any, *, now: float | None = None) -> float | None:
    """The seconds to wait that the body of an error names, in a field or in a sentence; None if it names none.

    Many servers send no Retry-After header. ``now`` is Unix time, by default the current time.
    """
    try:
        text = json.dumps(body)[:_READ_CHARACTERS].lower()
    except RecursionError:
        return None
    if reset := _RESET.search(text):
        seconds = int(reset[1]) - (time.time() if now is None else now)
        return seconds if seconds > 0 else None
    found = next(filter(None, (pattern.search(text) for pattern in _WAITS)), None)
    if found is None:
        return None
    if parts := _PART.findall(found["wait"]):
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return float(found["wait"]) * (0.001 if found["unit"] == "ms" else 1.0)
