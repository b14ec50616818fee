"""OpenAI's Responses API as records: its requests, and the parts of its replies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Field

from madke.serve.chat_form import Annotation, ChatUsage
from madke.serve.wire import Body, ChatBody, Part, Refusal, check_extras, without_effect

_NOT_STORED = "no response is stored; send the whole conversation as input"

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "background": (False,),
    "conversation": (),
    "previous_response_id": (),
    "prompt": (),
    "store": (False,),
    "tool_choice": ("none", "auto"),
    "top_logprobs": (0,),
    "truncation": ("auto", "disabled"),
}
"""Field -> accepted values, besides null. Any other value asks for something that a debate cannot give."""

_REASONS = dict.fromkeys(("conversation", "previous_response_id", "store"), _NOT_STORED)

_KNOWN = ("include", "metadata", "parallel_tool_calls", "prompt_cache_key", "safety_identifier", "service_tier", "user")
"""Fields that no client misses if they have no effect."""

_ABOUT_TOOLS = ("_call", "_call_output", "_approval_request", "_approval_response", "mcp_list_tools")
"""How the types of items end that are calls of tools, or what tools returned."""


class InputItem(BaseModel, extra="allow"):
    """A part of the conversation: a message, or an item of an earlier response."""

    type: str = "message"
    role: str | None = None
    content: str | list[Part] | None = None

    def message(self) -> dict[str, Any] | None:
        """The item as a message; None for reasoning and tools, which are left out. Refusal for other items."""
        if self.type == "reasoning" or self.type.endswith(_ABOUT_TOOLS):
            return None
        if self.type != "message" or self.role not in ("system", "developer", "user", "assistant"):
            raise Refusal(400, f"an item of type {self.type!r} and role {self.role!r} is not read", param="input")
        parts = self.content if isinstance(self.content, str) else [each.model_dump() for each in self.content or ()]
        return {"role": self.role, "content": parts}


class ResponsesBody(Body, extra="allow"):
    """A request for a response. Fields of OpenAI's API that are not named here are described in docs/serve.md."""

    model: Annotated[str, Field(description="The name of a protocol, from /v1/models.", examples=["madke"])]
    input: str | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    text: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None

    def check(self) -> None:
        """Refuse what a debate cannot give."""
        check_extras(self.model_extra, _NEUTRAL, _REASONS)

    @property
    def ignored(self) -> list[str]:
        """The fields that have a value and no effect."""
        return without_effect(self.model_extra, (*_NEUTRAL, *_KNOWN))

    def as_chat(self) -> ChatBody:
        """The same request as one for a chat completion."""
        if not (messages := [*self._messages()]):
            raise Refusal(400, "the input has no message", param="input")
        chat = {
            "model": self.model,
            "messages": messages,
            "stream": self.stream,
            "max_tokens": self.max_output_tokens,
            "response_format": self._form(),
        }
        return ChatBody.model_validate(chat)

    def _messages(self) -> Iterator[dict[str, Any]]:
        if self.instructions:
            yield {"role": "system", "content": self.instructions}
        if isinstance(self.input, str):
            yield {"role": "user", "content": self.input}
            return
        for item in self.input:
            if message := item.message():
                yield message

    def _form(self) -> dict[str, Any] | None:
        wanted = (self.text or {}).get("format")
        if wanted is None:
            return None
        if not isinstance(wanted, dict):
            raise Refusal(400, "text.format is not an object", param="text.format")
        if wanted.get("type") != "json_schema":
            return wanted
        return {"type": "json_schema", "json_schema": {name: each for name, each in wanted.items() if name != "type"}}


def message_item(name: str, text: str, annotations: list[dict[str, Any]], status: str) -> dict[str, Any]:
    """The answer as an item of a response."""
    part = output_text(text, annotations)
    return {"id": name, "type": "message", "status": status, "role": "assistant", "content": [part]}


def output_text(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    """The text of an answer."""
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def reasoning_item(name: str, parts: list[str], status: str) -> dict[str, Any]:
    """The turns of a debate as an item of a response."""
    return {"id": name, "type": "reasoning", "status": status, "summary": [*map(summary_text, parts)]}


def summary_text(text: str) -> dict[str, str]:
    """One turn."""
    return {"type": "summary_text", "text": text}


def flat(citation: Annotation) -> dict[str, Any]:
    """A citation as responses have it."""
    return {"type": citation.type, **citation.url_citation.model_dump()}


def response_usage(usage: ChatUsage) -> dict[str, Any]:
    """Usage as responses have it. Cache writes are not counted apart."""
    cached, reasoning = usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": usage.total_tokens,
    }
