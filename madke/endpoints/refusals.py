"""Classify the errors of OpenAI-compatible servers, in the body of any status.

An error fails an attempt, is an outcome of the call, or shows which dialect (request format) the server needs. Examples
of refusals are in ``tests/endpoints/test_dialects.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Self

from pydantic import BaseModel, PositiveInt

from madke.core.chat import ChatRequest, Completion, writable
from madke.core.errors import CallError
from madke.endpoints.schemas import LIMITS_REFUSED, REFUSED, response_format

RETRYABLE = (408, 409, 429)
"""Statuses below 500 after which the same request may succeed."""
_OVERLOADED = (429, 503, 529)
"""Too many requests; no capacity; Anthropic's status for no capacity."""
_NO_RESOURCES = re.compile(r"resource[ _]?unavailable|capacity_exceeded")
"""Codes and messages of a service tier without resources: OpenAI and Azure (429), Groq (498)."""
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

    @classmethod
    def read(cls, status: int, body: Any) -> Self:
        """The error in a body (the JSON value, or its ``error``) of any shape."""
        # Gemini wraps its errors in a list.
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


def too_long(error: ServerError) -> bool:
    """Whether the prompt exceeds the context window; limits of tokens per minute do not count."""
    if error.status == 429 or "rate_limit_exceeded" in error.names:
        return False
    return bool(error.names & _TOO_LONG_CODES or _TOO_LONG.search(error.message.casefold()))


def free_tokens(error: ServerError, bound: int) -> int | None:
    """What the context window leaves for the reply, if a refusal of ``bound`` new tokens names it, and it suffices."""
    text = _normalized(error.message)
    window, prompt, total = (_stated(pattern, text) for pattern in (_WINDOW, _PROMPT, _TOTAL))
    if prompt is None and total is not None:
        prompt = total - bound
    if window is None or prompt is None or not too_long(error):
        return None
    return free if MIN_FREE <= (free := window - prompt) < bound else None


def unexplained(error: ServerError) -> bool:
    """Whether a refusal may concern any field of the request: it is neither about the prompt nor a dialect's."""
    return error.status == 400 and "content_filter" not in error.names and not too_long(error)


def no_resources(error: ServerError) -> bool:
    """Whether a service tier has no resources at the moment, rather than that too many calls were sent."""
    stated = (*error.names, error.message.casefold())
    return error.status == 498 or (error.status == 429 and any(map(_NO_RESOURCES.search, stated)))


def refused_completion(
    error: ServerError, where: str, *, attempts: int, retry_after: float | None = None, at_tier: bool = False
) -> Completion:
    """The completion, ``filtered`` or ``too_long``, if the server refuses this prompt.

    ``at_tier``: the request named a service tier, which may have no resources.

    Raises:
        CallError: The attempt failed for another reason. It is retryable for 408, 409, 429 and 5xx, except for unpaid
            accounts. For status 200 the error's own code decides; an unknown code is retryable.
    """
    reason = f"{where}: {error.message}"
    if "content_filter" in error.names:
        return Completion(outcome="filtered", error=reason, finish_reason="error", attempts=attempts)
    if too_long(error):
        return Completion(outcome="too_long", error=reason, finish_reason="error", attempts=attempts)
    if at_tier and no_resources(error):
        raise CallError(reason, retryable=True, retry_after=retry_after, unavailable=True)
    retryable = error.status in RETRYABLE or error.status >= 500
    if error.status == 200:
        retryable = not any(map(_LASTING.search, error.names))
    if any(map(_PAYMENT.search, error.names)) or _UNPAID.search(error.message.casefold()):
        retryable = False
    overloaded = retryable and error.status in _OVERLOADED
    raise CallError(reason, retryable=retryable, retry_after=retry_after, overloaded=overloaded)


def field(value: Any, *names: str) -> Any:
    """A field of nested mappings or objects; None if it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def text_of(value: Any, *names: str) -> str:
    """A string field of nested mappings; the empty string if it is missing or of another type."""
    found = field(value, *names)
    return writable(found) if isinstance(found, str) else ""


def _status(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _message(body: Any) -> str:
    """The server's message, followed by that of the provider behind it (OpenRouter's ``raw``)."""
    message = field(body, "message") or field(body, "detail") or body
    try:
        text = writable(message) if isinstance(message, str) else json.dumps(message, default=str)
    except RecursionError:
        text = "an error that is nested too deep to show"
    raw = text_of(body, "metadata", "raw")
    return f"{text}: {raw}" if raw else text


class Dialect(BaseModel, extra="forbid", frozen=True):
    """The request format that one model at one endpoint accepts. The defaults fit most servers."""

    max_tokens: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    """Name of the field that limits completion tokens; ``none``: the field is not sent."""
    most_tokens: PositiveInt | None = None
    """Largest limit that the server accepts; higher limits are lowered to it."""
    temperature: bool = True
    seed: bool = True
    stop: bool = True
    """False: stop strings are not sent; the client cuts the reply at them."""
    system: bool = True
    """False: the system text is put before the first user message."""
    stream: bool | None = None
    """True: the server only streams. False: it never does. None: it streams if somebody listens to the reply, and as
    long as the server is not known to be fast (:mod:`madke.endpoints.patience`)."""
    stream_options: bool = True
    """Whether the server accepts ``stream_options``, which make a stream report its usage."""
    json_schema: bool = True
    """Whether the server keeps to a ``response_format`` with a JSON schema. False: requests are in their free form."""
    schema_limits: bool = True
    """Whether a schema may bound the length of texts and lists (``maxLength``, ``maxItems``)."""
    slots: bool = False
    """Whether the server keeps what it has read in slots, which calls at the same time do not share (llama.cpp)."""
    prompt_cache_key: bool = False
    """Whether requests name their question by a hash, so that a provider sends them to one machine (OpenAI)."""
    cache_control: bool = False
    """Whether the ends of the system text and of the first user message are marked, for providers that keep only
    beginnings with a mark (Anthropic)."""

    def body(self, model: str, request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
        """The JSON of a request. ``stream``: it is streamed if the server can, and reports the usage then."""
        request = request.in_form(bound=self.json_schema)
        messages: Sequence[Mapping[str, Any]]
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        messages = messages if self.system else without_system(messages)
        body: dict[str, Any] = {"model": model, "messages": _with_marks(messages) if self.cache_control else messages}
        if self.prompt_cache_key:
            body["prompt_cache_key"] = sha256(f"{model}\0{request.purpose.question}".encode()).hexdigest()[:32]
        if self.max_tokens != "none":
            body[self.max_tokens] = min(request.max_tokens, self.most_tokens or request.max_tokens)
        if self.temperature:
            body["temperature"] = request.temperature
        if request.stop and self.stop:
            body["stop"] = list(request.stop)
        if request.seed is not None and self.seed:
            body["seed"] = request.seed
        if request.bound is not None:
            body["response_format"] = response_format(request.bound.schema, limits=self.schema_limits)
        if self.stream or (self.stream is None and (request.on_delta or (stream and self.stream_options))):
            body["stream"] = True
            if self.stream_options:
                body["stream_options"] = {"include_usage": True}
        return body

    def stated(self) -> dict[str, Any]:
        """The fields that differ from the default, in the form of ``models.yaml``."""
        return self.model_dump(exclude_defaults=True)

    def after(self, error: ServerError, sent: Mapping[str, Any]) -> Dialect | None:
        """The dialect in which a refused request may succeed; None if the refusal has another cause."""
        if error.status not in REFUSALS:
            return None
        text = _normalized(f"{' '.join(sorted(error.names))} {error.param} {error.message}")
        bound = sent.get(self.max_tokens)
        change: dict[str, Any] = {}
        if "content_filter" not in error.names and too_long(error):
            # A limit above half of the window is the cause; with a smaller one, the prompt is. Where this prompt leaves
            # room for a reply, only this call needs a lower limit.
            half = (_stated(_WINDOW, text) or 0) // 2
            if half and bound and bound > half and (bound >= 2 * half or free_tokens(error, bound) is None):
                change = {"most_tokens": half}
        elif any(message["role"] == "system" for message in sent["messages"]) and _NO_SYSTEM.search(text):
            change = {"system": False}
        elif error.status == _TEMPLATE_FAILED:
            change = {"json_schema": False} if "response_format" in sent and REFUSED.search(text) else {}
        elif "stream" not in sent and _ONLY_STREAM.search(text):
            change = {"stream": True}
        elif name := _refused_field(text, sent):
            instead = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "none"}
            change = {"max_tokens": instead[name]} if name in instead else {name: False}
        elif bound and _TOO_MANY.search(text):
            most = _largest_below(text, bound)
            change = {"most_tokens": most} if most else {"max_tokens": "none"}
        elif "response_format" in sent and self.schema_limits and LIMITS_REFUSED.search(text):
            change = {"schema_limits": False}
        elif "response_format" in sent and (error.status == 422 or REFUSED.search(text)):
            change = {"json_schema": False}
        elif "stream" in sent and _NO_STREAM.search(text):
            change = {"stream": False}
        return self.model_copy(update=change) if change else None


def _with_marks(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages with marks on the system text and on the first user message: what siblings share ends there."""
    first = next((n for n, message in enumerate(messages) if message["role"] == "user"), 0)
    marked = [n for n in range(first + 1) if messages[n]["role"] in ("system", "user")]
    mark = {"cache_control": {"type": "ephemeral"}}
    return [
        {**message, "content": [{"type": "text", "text": message["content"], **mark}]} if n in marked else message
        for n, message in enumerate(messages)
    ]


def without_system(messages: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Chat messages with the system texts moved to the start of the first user message."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    first = next((n for n, message in enumerate(rest) if message["role"] == "user"), None)
    if not system or first is None:
        return rest or [{"role": "user", "content": "\n\n".join(system)}]
    rest[first] = {"role": "user", "content": "\n\n".join([*system, rest[first]["content"]])}
    return rest


_TEMPLATE_FAILED = 500
"""Status of llama.cpp when the model's chat template raises."""
REFUSALS = (400, 416, 422, _TEMPLATE_FAILED)
"""Statuses of refusals that another dialect may avoid."""

_NAME = (
    r"(max_completion_tokens|max_tokens|temperature|seed|stop|stream_options|stream|prompt_cache_key|cache_control)\b"
)
_REFUSED = (
    # OpenAI, Azure, Gemini, xAI, serde: "unsupported value: temperature", "unknown name seed", "not support ... stop"
    re.compile(
        r"(?:\b(?:unsupported|unrecogni[sz]ed|unknown|unexpected)\w*|\bnot (?:supported|permitted|allowed)"
        rf"|\b(?:not|n.t) support)\b[^.;{{}}]{{0,60}}?\b{_NAME}"
    ),
    # Anthropic, Groq: "temperature is deprecated for this model", "property seed is unsupported"
    re.compile(
        rf"\b{_NAME}:? (?:(?:parameter|argument|field) )?(?:(?:is|are) )?(?:currently )?"
        r"(?:not (?:supported|permitted|allowed|available)|unsupported|deprecated|unknown|unrecogni[sz]ed"
        r"|(?:does|do) not support|extra (?:inputs|fields) (?:are )?not permitted)"
    ),
    # Mistral and vLLM, by pydantic, with fields in any order
    re.compile(rf"(?:extra_forbidden|extra inputs)[^}}]{{0,80}}?[\[(]body, ?{_NAME}[\])]"),
    re.compile(rf"[\[(]body, ?{_NAME}[\])][^}}]{{0,80}}?extra[_ ](?:forbidden|inputs)"),
    # Ollama, by Go: a seed that exceeds its integers
    re.compile(rf"struct field \w+\.{_NAME}"),
    # Moonshot, Anthropic with thinking: only the default value is allowed
    re.compile(r"\b(temperature)\b[^.]{0,40}\bonly (?:be )?(?:set to )?1(?:\.0)?\b(?! ?(?:to|and|or|-))"),
    re.compile(r"\b(temperature)\b[^.]{0,40}\bmust be (?:set to |equal to )?1(?:\.0)?\b(?! ?(?:to|and|or|-))"),
)

_NO_SYSTEM = re.compile(
    r"system role (?:is )?not supported|role:? system (?:is |are )?not (?:supported|allowed)"  # templates, Anthropic
    r"|developer instruction is not enabled"  # Gemini
    r"|(?:only|expected) user[^.]{0,60}got system|unexpected role:? system"  # Ministral's template, Anthropic
    r"|\brole does not support system|(?:not|n.t) support (?:the |an? )?system (?:role|message|prompt|instruction)"
    r"|system (?:messages?|prompts?|instructions?) (?:are|is) not supported"
    r"|conversation roles must alternate user/assistant"  # Mistral's and Gemma's templates
)
_ONLY_STREAM = re.compile(
    r"only supports? (?:the )?stream|stream(?:ing)? (?:mode )?is required|stream must be (?:set to )?true"
    r"|non-?stream(?:ing)?\b|(?:enable|set) (?:the )?stream(?:ing)?\b"
)
_NO = r"\b(?:not|cannot|(?:ca|wo|do|does|is)nt|disabled?|unsupported|unavailable|forbidden|denied)\b"
_NO_STREAM = re.compile(rf"\bstream(?:s|ed|ing)?\b[^.;{{}}]{{0,60}}?{_NO}|{_NO}[^.;{{}}]{{0,60}}?\bstream")
_TOKENS = r"max[_ ]?(?:completion|new|output)?[_ ]?tokens"
_TOO_MANY = re.compile(
    rf"{_TOKENS}\b[^;]{{0,80}}?(?:too (?:large|high|big|many)|at most|(?:must|should) be|range|<=|less than|exceed"
    rf"|above|maximum|larger than|greater than|> ?\d)|(?:range of|maximum (?:value )?(?:for|of)|invalid) {_TOKENS}"
)
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
_NUMBER = re.compile(r"(?<![\w.-])(\d[\d,]*)(?![\w-])(?:(?= \(exclusive)( ))?")
_MIN_LIMIT = 16
"""A smaller number in a refusal is not a token limit."""
_READ_CHARACTERS = 20_000


def _normalized(text: str) -> str:
    """The text in lower case, without quotes and escapes, which differ between servers."""
    return " ".join(re.sub(r"[\"'`\\]", "", text[:_READ_CHARACTERS].lower()).split())


def _stated(pattern: re.Pattern[str], text: str) -> int | None:
    """The number that the pattern finds, in whichever of its groups."""
    found = pattern.search(text)
    number = next(filter(None, found.groups()), "") if found else ""
    return int(number.replace(",", "")) if 0 < len(number) < 12 else None


def _refused_field(text: str, sent: Mapping[str, Any]) -> str | None:
    found = (match[1] for pattern in _REFUSED for match in pattern.finditer(text))
    return next((name for name in found if name in sent), None)


def _largest_below(text: str, bound: int) -> int | None:
    """The largest number in a refusal that is below the requested limit."""
    found = ((int(match[1].replace(",", "")), match[2]) for match in _NUMBER.finditer(text) if len(match[1]) < 12)
    fitting = (each for each in found if _MIN_LIMIT <= each[0] < bound and each[0] not in REFUSALS)
    return max((number - bool(exclusive) for number, exclusive in fitting), default=None)
