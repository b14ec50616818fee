"""Errors as OpenAI-compatible servers word them, in the body of any status, and what follows from them.

An error ends an attempt, is an outcome of the call, or tells how the server wants its requests: its dialect. The
wordings of refusals are in ``tests/llm/test_dialects.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, PositiveInt

from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError

RETRYABLE = (408, 409, 429)
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

    @classmethod
    def read(cls, status: int, body: Any) -> Self:
        """The error in a body (the JSON value, or its ``error``) of any shape."""
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


def too_long(error: ServerError) -> bool:
    """Whether the prompt does not fit; a limit of tokens per minute is another matter."""
    if error.status == 429 or "rate_limit_exceeded" in error.names:
        return False
    return bool(error.names & _TOO_LONG_CODES or _TOO_LONG.search(error.message.casefold()))


def refused(error: ServerError, where: str, *, attempts: int, retry_after: float | None = None) -> Completion:
    """The completion, ``filtered`` or ``too_long``, where the server does not take this very prompt.

    Raises:
        CallError: The attempt failed for another reason. 408, 409, 429 and 5xx may succeed later, unless nobody pays
            for the account. Under a status of 200 the error's own code decides. One that is unknown may pass.
    """
    reason = f"{where}: {error.message}"
    if "content_filter" in error.names:
        return Completion(outcome="filtered", error=reason, finish_reason="error", attempts=attempts)
    if too_long(error):
        return Completion(outcome="too_long", error=reason, finish_reason="error", attempts=attempts)
    retryable = error.status in RETRYABLE or error.status >= 500
    if error.status == 200:
        retryable = not any(map(_LASTING.search, error.names))
    if any(map(_PAYMENT.search, error.names)) or _UNPAID.search(error.message.casefold()):
        retryable = False
    overloaded = retryable and error.status in _OVERLOADED
    raise CallError(reason, retryable=retryable, retry_after=retry_after, overloaded=overloaded)


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
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _message(body: Any) -> str:
    """The server's own words, and those of the provider behind it (OpenRouter's ``raw``)."""
    message = field(body, "message") or field(body, "detail") or body
    try:
        said = as_text(message) if isinstance(message, str) else json.dumps(message, default=str)
    except RecursionError:
        said = "an error that is nested too deep to be shown"
    raw = text_of(body, "metadata", "raw")
    return f"{said}: {raw}" if raw else said


class Dialect(BaseModel):
    """What one model at one endpoint takes. The default is what most servers take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_tokens: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    """The name of the bound on completion tokens; ``none`` leaves it out."""
    most_tokens: PositiveInt | None = None
    """The largest bound that the server takes; a request for more is sent with this one."""
    temperature: bool = True
    seed: bool = True
    stop: bool = True
    """False: stop strings are not sent; the reply is cut at them here."""
    system: bool = True
    """False: system text stands before the first user message."""
    stream: bool = False
    """True: the server only streams. The stream is read to its end and assembled."""
    stream_options: bool = True
    """Whether a stream takes ``stream_options``, by which it tells its usage."""

    def body(self, model: str, request: ChatRequest) -> dict[str, Any]:
        """The JSON of a request."""
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        body: dict[str, Any] = {"model": model, "messages": messages if self.system else without_system(messages)}
        if self.max_tokens != "none":
            body[self.max_tokens] = min(request.max_tokens, self.most_tokens or request.max_tokens)
        if self.temperature:
            body["temperature"] = request.temperature
        if request.stop and self.stop:
            body["stop"] = list(request.stop)
        if request.seed is not None and self.seed:
            body["seed"] = request.seed
        if self.stream:
            body["stream"] = True
            if self.stream_options:
                body["stream_options"] = {"include_usage": True}
        return body

    def stated(self) -> dict[str, Any]:
        """The fields that differ from the default, as ``models.yaml`` takes them."""
        return self.model_dump(exclude_defaults=True)

    def after(self, error: ServerError, sent: Mapping[str, Any]) -> Dialect | None:
        """The dialect in which a refused request may be taken; None where the refusal is about something else."""
        if error.status not in REFUSALS:
            return None
        said = _plain(f"{' '.join(sorted(error.names))} {error.param} {error.message}")
        bound = sent.get(self.max_tokens)
        change: dict[str, Any] = {}
        if "content_filter" not in error.names and too_long(error):
            # A bound beyond half of the context is what does not fit; a smaller one leaves the prompt as the cause.
            found = _CONTEXT.search(said)
            half = int(found[1].replace(",", "")) // 2 if found else 0
            if half and bound and bound > half:
                change = {"most_tokens": half}
        elif any(message["role"] == "system" for message in sent["messages"]) and _NO_SYSTEM.search(said):
            change = {"system": False}
        elif error.status == _TEMPLATE_FAILED:
            return None
        elif "stream" not in sent and _ONLY_STREAM.search(said):
            change = {"stream": True}
        elif name := _refused(said, sent):
            instead = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "none"}
            change = {"max_tokens": instead[name]} if name in instead else {name: False}
        elif bound and _TOO_MANY.search(said):
            most = _largest_below(said, bound)
            change = {"most_tokens": most} if most else {"max_tokens": "none"}
        return self.model_copy(update=change) if change else None


def without_system(messages: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Chat messages with the system texts at the head of the first user message."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    first = next((n for n, message in enumerate(rest) if message["role"] == "user"), None)
    if not system or first is None:
        return rest or [{"role": "user", "content": "\n\n".join(system)}]
    rest[first] = {"role": "user", "content": "\n\n".join([*system, rest[first]["content"]])}
    return rest


def missing_field(error: ServerError, sent: Mapping[str, Any]) -> str | None:
    """A field that the server wants and that the request does not have, if it misses one."""
    if error.status not in REFUSALS:
        return None
    found = (name for match in _MISSING.finditer(_plain(error.message)) for name in match.groups() if name)
    return next((name for name in found if name not in sent and name not in ("field", "body")), None)


_TEMPLATE_FAILED = 500
"""The status of llama.cpp where the model's chat template raises."""
REFUSALS = (400, 416, 422, _TEMPLATE_FAILED)
"""Statuses of refusals that another dialect may undo."""

_NAME = r"(max_completion_tokens|max_tokens|temperature|seed|stop|stream_options)\b"
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
    # Mistral and vLLM, by pydantic, whose fields stand in any order
    re.compile(rf"(?:extra_forbidden|extra inputs)[^}}]{{0,80}}?[\[(]body, ?{_NAME}[\])]"),
    re.compile(rf"[\[(]body, ?{_NAME}[\])][^}}]{{0,80}}?extra[_ ](?:forbidden|inputs)"),
    # Ollama, by Go: a seed beyond its integers
    re.compile(rf"struct field \w+\.{_NAME}"),
    # Moonshot, Anthropic with thinking: one value only, which is the default
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
_TOKENS = r"max[_ ]?(?:completion|new|output)?[_ ]?tokens"
_TOO_MANY = re.compile(
    rf"{_TOKENS}\b[^;]{{0,80}}?(?:too (?:large|high|big|many)|at most|(?:must|should) be|range|<=|less than|exceed"
    rf"|above|maximum|larger than|greater than|> ?\d)|(?:range of|maximum (?:value )?(?:for|of)|invalid) {_TOKENS}"
)
_CONTEXT = re.compile(r"(?:maximum context length (?:is|of)|max_new_tokens must be <=) (\d[\d,]*)")
_NUMBER = re.compile(r"(?<![\w.-])(\d[\d,]*)(?![\w-])(?:(?= \(exclusive)( ))?")
_FEWEST = 16
"""A smaller number in a refusal is no bound on a reply."""
_READ = 20_000
_MISSING = re.compile(
    r"missing required (?:parameter|field|argument)s?:? (\w+)|missing field (\w+)|parameter\.(\w+) must be"
    r"|[\[(]body, ?(\w+)[\])][^}]{0,80}?(?:field required|missing)|missing,[^}]{0,40}?[\[(]body, ?(\w+)[\])]"
    r"|\b(\w+):? (?:field required|is a required property)|\b(\w+) is required\b"
)


def _plain(text: str) -> str:
    """In lower case, without quotes and escapes, which servers set as they like."""
    return " ".join(re.sub(r"[\"'`\\]", "", text[:_READ].lower()).split())


def _refused(said: str, sent: Mapping[str, Any]) -> str | None:
    found = (match[1] for pattern in _REFUSED for match in pattern.finditer(said))
    return next((name for name in found if name in sent), None)


def _largest_below(said: str, bound: int) -> int | None:
    """The largest number in a refusal that is smaller than what was asked for."""
    found = ((int(match[1].replace(",", "")), match[2]) for match in _NUMBER.finditer(said) if len(match[1]) < 12)
    fitting = (each for each in found if _FEWEST <= each[0] < bound and each[0] not in REFUSALS)
    return max((number - bool(exclusive) for number, exclusive in fitting), default=None)
