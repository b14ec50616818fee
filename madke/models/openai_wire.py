"""Parse responses of OpenAI-compatible servers defensively: a completion, or the reason of a failed attempt.

An error, in the body of any status, fails an attempt, is an outcome of the call, or shows which
:class:`~madke.models.dialect.Dialect` the server needs.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urljoin

from madke.core.addresses import bare_url, retry_after
from madke.core.chat import ChatRequest, Completion, Message, Outcome, Usage, decode_reply, writable
from madke.core.errors import CallError
from madke.engine.parse.reply import TRUNCATED, with_empty_outcome, without_reasoning
from madke.models.prices import BATCH, estimated_usage

if TYPE_CHECKING:
    import httpx2

_FAILED = {"error", "abort", "network_error", "insufficient_system_resource"}
"""Finish reasons of an incomplete reply: OpenRouter and Mistral, vLLM, GLM, DeepSeek."""
_THOUGHT = ("thinking", "reasoning")
"""Types of the parts of a message that hold hidden reasoning."""
_MAX_COUNT = 10**9
"""A higher token count of one call is invalid, and would use up a run's token budget."""
_MIN_CUTTABLE = 2000
"""Characters of a prompt that can be cut. In shorter ones, the chat template is a large part of the tokens."""
SLOT_TIMINGS = re.compile(rb'"timings"\s*:\s*\{[^{}]{0,200}?"prompt_n"')
"""What llama.cpp adds to its replies; calls to it at the same time share nothing that it has read. Quotes inside of a
text have a backslash before them."""


def read_completion(body: bytes, request: ChatRequest, *, seconds: float, attempts: int) -> Completion:
    """The completion in a response with status 200, of any content type, perhaps a stream.

    CallError if it holds none, such as a proxy's page. An error in the body is classified by its own code.
    """
    try:
        response = _assemble_stream(body) or json.loads(decode_reply(body))
    except (ValueError, RecursionError):
        raise CallError(f"status 200 with a body that is not JSON: {decode_reply(body)!r}", retryable=True) from None
    choice = _first(field(response, "choices"))
    finish_reason = text_of(choice, "finish_reason") or "stop"
    error = field(choice, "error") or field(response, "error")
    if choice is None and not error and (field(response, "message") or field(response, "detail")):
        error = response
    if choice is None or error or finish_reason in _FAILED:
        default = "no choices in it" if choice is None else f"the finish reason is {finish_reason!r}"
        failed = ServerError.read(200, error or default)
        return refused_completion(failed, "status 200 without a reply", attempts=attempts)
    content, reasoning, refusal = _message_parts(field(choice, "message"))
    outcome: Outcome = "filtered" if finish_reason == "content_filter" else "refused" if refusal else "ok"
    reasons = {"filtered": "the server's content filter cut the reply", "refused": f"the model refused: {refusal}"}
    stated = field(response, "usage")
    written = content + refusal + reasoning
    usage = provider_usage(stated, written, max_tokens=request.max_tokens)
    if usage is None:
        usage = estimated_usage(request.messages, written)
    elif _is_cut(stated, usage, request.messages):
        usage = replace(usage, server_cut=True)
    try:
        body.decode()
    except UnicodeDecodeError:
        usage = replace(usage, not_utf8=True)
    completion = Completion(
        text=content or refusal,
        reasoning=reasoning,
        outcome=outcome,
        error=reasons.get(outcome),
        finish_reason=finish_reason,
        usage=usage,
        seconds=seconds,
        attempts=attempts,
        tier=BATCH if text_of(response, "service_tier") == BATCH else "",
    )
    return with_empty_outcome(completion, request.max_tokens)


def ignores_schema(completion: Completion) -> bool:
    """Whether a complete reply to a request with a schema is not a JSON object: the server ignored the schema."""
    if completion.outcome != "ok" or completion.finish_reason.casefold() in TRUNCATED:
        return False
    return not without_reasoning(completion.text).startswith("{")


def _assemble_stream(body: bytes) -> dict[str, Any] | None:
    """One response from a stream of chunks (server-sent events); None if the body is not a stream.

    An error chunk is a failure, and so is a stream without a finish reason.
    """
    parts: list[tuple[str, str, str]] = []
    usage, finish_reason, error = None, "", None
    lines = body.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            chunk = _chunk(line)
        except (ValueError, RecursionError):
            if parts and number == len(lines):
                break  # the stream ended within this line
            return None
        if chunk is None:
            continue
        choice = _first(field(chunk, "choices"))
        parts.append(_message_parts(field(choice, "delta")))
        usage = field(chunk, "usage") or usage
        error = error or field(chunk, "error") or field(choice, "error")
        finish_reason = text_of(choice, "finish_reason") or finish_reason
    if not parts:
        return None
    if not finish_reason:
        error = error or "the stream ended early, without a finish reason"
    content, reasoning, refusal = map("".join, zip(*parts, strict=True))
    message = {"content": content, "reasoning_content": reasoning, "refusal": refusal}
    choice = {"message": message, "finish_reason": finish_reason or "error"}
    return {"choices": [choice], "usage": usage, "error": error}


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


def read_refusal(error: ServerError, response: httpx2.Response, *, attempts: int) -> Completion:
    """The completion for an error status, if the server refuses this prompt; else CallError."""
    where = f"HTTP {error.status}"
    if response.is_redirect and (location := response.headers.get("location")):
        try:
            target = bare_url(urljoin(str(response.request.url), location))
        except ValueError:
            target = "an address that is not a URL"
        where += f" redirects to {target}; redirects are not followed: set the base URL to the address of the API"
    return refused_completion(error, where, attempts=attempts, retry_after=retry_after(response.headers))


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


def expected_tokens(messages: Iterable[Message]) -> int:
    """About the tokens of a prompt, at 1.2 for each word; too few for a language without spaces."""
    return round(1.2 * sum(len(message.content.split()) for message in messages))


def provider_usage(usage: Any, written: str = "", *, max_tokens: int = 0) -> Usage | None:
    """The token counts in a response's ``usage``; None if they are missing or impossible.

    Zero prompt tokens are impossible, as are zero completion tokens for non-empty ``written`` (text and reasoning).
    ``max_tokens`` is the limit of the request; 0: not known.
    """
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if not prompt or completion is None:
        return None
    # Hidden reasoning is part of ``completion_tokens`` at OpenAI and comes in addition at xAI; the total tells which.
    # Gemini counts it in the total alone. A total that is larger than the request allows has another reason.
    reasoning = _count(usage, "completion_tokens_details", "reasoning_tokens") or _count(usage, "reasoning_tokens") or 0
    total, room = _count(usage, "total_tokens"), max_tokens - completion
    more = reasoning if total is None and completion < reasoning <= room else (total or 0) - prompt - completion
    if not reasoning and 0 < more <= room and not any(_cached_apart(usage)):
        reasoning = more
    completion += more if more > 0 and more == reasoning else 0
    if written and not completion:
        return None
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=min(_count(usage, "prompt_tokens_details", "cached_tokens") or 0, prompt),
        completion_tokens=completion,
        reasoning_tokens=min(reasoning, completion),
    )


def _is_cut(stated: Any, usage: Usage, messages: Iterable[Message]) -> bool:
    """Whether the server counted fewer than two thirds of the tokens of a prompt: it cut it without an error.

    A missed cut is better than a false alarm, so the largest count that the usage allows is taken: some servers count
    cached tokens apart.
    """
    if sum(len(message.content) for message in messages) < _MIN_CUTTABLE:
        return False
    total = (_count(stated, "total_tokens") or 0) - usage.completion_tokens
    counted = max(total, usage.prompt_tokens + sum(_cached_apart(stated)))
    return counted < expected_tokens(messages) * 2 / 3


def _cached_apart(usage: Any) -> list[int]:
    """Counts of cached prompt tokens, which some servers leave out of ``prompt_tokens``."""
    names = (("prompt_tokens_details", "cached_tokens"), ("cache_read_input_tokens",), ("cache_creation_input_tokens",))
    return [_count(usage, *each) or 0 for each in names]


def _message_parts(message: Any) -> tuple[str, str, str]:
    """Text, reasoning and refusal of a message. Its content is a string, or a list of parts (Mistral)."""
    content = field(message, "content")
    parts = content if isinstance(content, list) else [content]
    thoughts = [part for part in parts if field(part, "type") in _THOUGHT]
    texts = [part for part in parts if field(part, "type") not in _THOUGHT]
    inner = [field(part, "thinking") or field(part, "reasoning") or field(part, "text") for part in thoughts]
    reasoning = "".join(_join_parts(part if isinstance(part, list) else [part]) for part in inner)
    reasoning = text_of(message, "reasoning_content") or text_of(message, "reasoning") or reasoning
    return _join_parts(texts), reasoning, text_of(message, "refusal")


def _join_parts(parts: list[Any]) -> str:
    texts = (part if isinstance(part, str) else field(part, "text") for part in parts)
    return writable("".join(text for text in texts if isinstance(text, str)))


def _count(value: Any, *names: str) -> int | None:
    count = field(value, *names)
    if isinstance(count, float) and count.is_integer():  # some gateways send 50.0
        count = int(count)
    valid = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MAX_COUNT
    return count if valid else None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


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
    text = normalize(error.message)
    window, prompt, total = (_number_in(pattern, text) for pattern in (_WINDOW, _PROMPT, _TOTAL))
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
    text = field(value, *names)
    return writable(text) if isinstance(text, str) else ""


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
_MAX_READ = 20_000


def normalize(text: str) -> str:
    """The text in lower case, without quotes and escapes, which differ between servers."""
    return " ".join(re.sub(r"[\"'`\\]", "", text[:_MAX_READ].lower()).split())


def _number_in(pattern: re.Pattern[str], text: str) -> int | None:
    """The number that the pattern finds, in whichever of its groups."""
    match = pattern.search(text)
    number = next(filter(None, match.groups()), "") if match else ""
    return int(number.replace(",", "")) if 0 < len(number) < 12 else None


def stated_window(text: str) -> int | None:
    """The context window that a normalized refusal names, in tokens."""
    return _number_in(_WINDOW, text)


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


def stated_wait(body: Any) -> float | None:
    """The seconds to wait that the body of an error names, in a field or in a sentence; None if it names none.

    Many servers send no Retry-After header.
    """
    try:
        text = json.dumps(body)[:_MAX_READ].lower()
    except RecursionError:
        return None
    if reset := _RESET.search(text):
        seconds = int(reset[1]) - time.time()
        return seconds if seconds > 0 else None
    match = next(filter(None, (pattern.search(text) for pattern in _WAITS)), None)
    if match is None:
        return None
    if parts := _PART.findall(match["wait"]):
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return float(match["wait"]) * (0.001 if match["unit"] == "ms" else 1.0)
