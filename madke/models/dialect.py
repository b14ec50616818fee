"""The request format that a model at an endpoint accepts, and what a refusal says of it.

Examples of refusals are in ``tests/models/test_dialects.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

from pydantic import BaseModel, PositiveInt

from madke.core.chat import ChatRequest, Schema, SchemaField
from madke.models.openai_wire import ServerError, free_tokens, normalize, stated_window, too_long

MAX_QUOTE = 300
"""Characters of a quote. A small model that copies never ends without a limit."""


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
    """True: the server only streams. False: it never does. None: it streams if somebody listens to the reply."""
    stream_options: bool = True
    """Whether the server accepts ``stream_options`` and then reports the usage of a stream."""
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

    def body(self, model: str, request: ChatRequest) -> dict[str, Any]:
        """The JSON of a request."""
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
        if self.stream or (self.stream is None and (request.on_delta or (request.on_token and self.stream_options))):
            body["stream"] = True
            if self.stream_options:
                body["stream_options"] = {"include_usage": True}
        return body

    def non_defaults(self) -> dict[str, Any]:
        """The fields that differ from the default, in the form of ``models.yaml``."""
        return self.model_dump(exclude_defaults=True)

    def after(self, error: ServerError, sent: Mapping[str, Any]) -> Dialect | None:
        """The dialect in which a refused request may succeed; None if the refusal has another cause."""
        if error.status not in REFUSALS:
            return None
        text = normalize(f"{' '.join(sorted(error.names))} {error.param} {error.message}")
        bound = sent.get(self.max_tokens)
        change: dict[str, Any] = {}
        if "content_filter" not in error.names and too_long(error):
            # A limit above half of the window is the cause; with a smaller one, the prompt is. Where this prompt leaves
            # room for a reply, only this call needs a lower limit.
            half = (stated_window(text) or 0) // 2
            if half and bound and bound > half and (bound >= 2 * half or free_tokens(error, bound) is None):
                change = {"most_tokens": half}
        elif any(message["role"] == "system" for message in sent["messages"]) and _NO_SYSTEM.search(text):
            change = {"system": False}
        elif error.status == _TEMPLATE_FAILED:
            change = {"json_schema": False} if "response_format" in sent and _SCHEMA_REFUSED.search(text) else {}
        elif "stream" not in sent and _ONLY_STREAM.search(text):
            change = {"stream": True}
        elif name := next((m[1] for each in _REFUSED for m in each.finditer(text) if m[1] in sent), None):
            instead = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "none"}
            change = {"max_tokens": instead[name]} if name in instead else {name: False}
        elif bound and _TOO_MANY.search(text):
            most = _largest_below(text, bound)
            change = {"most_tokens": most} if most else {"max_tokens": "none"}
        elif "response_format" in sent and self.schema_limits and _LIMITS_REFUSED.search(text):
            change = {"schema_limits": False}
        elif "response_format" in sent and (error.status == 422 or _SCHEMA_REFUSED.search(text)):
            change = {"json_schema": False}
        elif "stream" in sent and _NO_STREAM.search(text):
            change = {"stream": False}
        return self.model_copy(update=change) if change else None


def response_format(schema: Schema, *, limits: bool) -> dict[str, Any]:
    """The field of a request. Without ``limits`` it does not bound the length of texts and lists."""
    fields: dict[str, Any] = {each.name: _property(each, limits) for each in schema.fields}
    named = {"name": schema.name, "strict": True, "schema": _record(fields)}
    return {"type": "json_schema", "json_schema": named}


def _record(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _property(each: SchemaField, limits: bool) -> dict[str, Any]:
    limit = each.max_length if limits else None
    if each.numbers is not None:
        items: dict[str, Any] = {"type": "integer", "enum": list(each.numbers)}
        if each.with_texts:
            text = {"type": "string"} | ({"maxLength": MAX_QUOTE} if limits else {})
            items = _record({"passage": items, "text": text})
        return {"type": "array", "items": items} | ({} if limit is None else {"maxItems": limit})
    string: dict[str, Any] = {"type": "string"}
    if each.words:
        return string | {"enum": list(each.words)}
    return string | ({} if limit is None else {"maxLength": limit})


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

_SCHEMA_REFUSED = re.compile(
    r"\bresponse_?format\b|\bjson_?schema\b|\b(?:structured|guided)[ _](?:outputs?|decoding|json|generation)\b"
    r"|\bjson mode\b|\bgrammars?\b|\bschemas?\b"
)
"""Words of a refusal that concerns the schema, in lower case."""
_LIMITS_REFUSED = re.compile(r"\bmax_?(?:length|items)\b")

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
_NUMBER = re.compile(r"(?<![\w.-])(\d[\d,]*)(?![\w-])(?:(?= \(exclusive)( ))?")
_MIN_LIMIT = 16
"""A smaller number in a refusal is not a token limit."""


def _largest_below(text: str, bound: int) -> int | None:
    """The largest number in a refusal that is below the requested limit."""
    numbers = ((int(match[1].replace(",", "")), match[2]) for match in _NUMBER.finditer(text) if len(match[1]) < 12)
    fitting = (each for each in numbers if _MIN_LIMIT <= each[0] < bound and each[0] not in REFUSALS)
    return max((number - bool(exclusive) for number, exclusive in fitting), default=None)
