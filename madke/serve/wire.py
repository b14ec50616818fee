"""OpenAI's chat completions as records: requests and errors."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import HTTPException
from pydantic import BaseModel, Field, model_validator
from starlette.responses import JSONResponse

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "response_format": ({"type": "text"},),
}
"""Field -> accepted values, besides null. Any other value asks for something that a debate cannot give."""

_REASONS = {"response_format": "debates answer in text; ask for JSON in a system message, or use a proxy"}
"""Field -> what a client can do instead."""

_LONGEST_HEADER = 1000


class Refusal(HTTPException):
    """A request that is not answered: its HTTP status, and OpenAI's error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        retryable: bool = True,
    ) -> None:
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        if not retryable:
            headers["x-should-retry"] = "false"  # the SDKs of OpenAI obey it
        super().__init__(status, message, headers)
        self.error = ErrorBody(error=Error(message=message, type=kind, param=param, code=code))

    def response(self) -> JSONResponse:
        """The response, in OpenAI's form."""
        return JSONResponse(self.error.model_dump(), status_code=self.status_code, headers=self.headers)


class Error(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every response that is not a success."""

    error: Error


def header_of(names: Iterable[str]) -> str:
    """Names of a client as the value of a header: percent-encoded, and not all of them if they are too long."""
    value = ", ".join(quote(name) for name in names)
    return value if len(value) <= _LONGEST_HEADER else f"{value[:_LONGEST_HEADER]}..."


ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorBody, "description": "What went wrong."}}
"""For OpenAPI: the errors of a route."""


class Body(BaseModel):
    """A body of a request. All its texts, names of fields too, can be encoded."""

    @model_validator(mode="before")
    @classmethod
    def _encodable(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value  # pydantic refuses it with its own message
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half of a surrogate pair, which is not text") from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return value


class Part(BaseModel, extra="allow"):
    """A part of a message."""

    type: str
    text: str | None = None


class ChatMessage(BaseModel, extra="allow"):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None

    @property
    def is_about_tools(self) -> bool:
        """Whether it calls a tool, or is what a tool returned."""
        return self.role in ("tool", "function") or bool(self.tool_calls or self.function_call)

    @property
    def text(self) -> str:
        """The message's text; Refusal for images, sound and files."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        for part in self.content:
            if part.type not in ("text", "input_text", "output_text", "refusal"):
                raise Refusal(400, f"a message has a part of type {part.type!r}; only text is read", param="messages")
        return "\n".join(part.text or "" for part in self.content)


class ChatBody(Body, extra="allow"):
    """A request for an answer. Fields of OpenAI's API that are not named here are described in docs/serve.md."""

    model: Annotated[str, Field(description="The name of a protocol, from /v1/models.", examples=["madke"])]
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: str | list[str] | None = None

    def check(self) -> None:
        """Refuse what a debate cannot give."""
        check_extras(self.model_extra, _NEUTRAL)

    @property
    def ignored(self) -> list[str]:
        """The fields that have a value and no effect."""
        known = (*_NEUTRAL, "user", "metadata", "store", "parallel_tool_calls", "service_tier")
        return without_effect(self.model_extra, known)

    @property
    def limit(self) -> int | None:
        """The maximum length of the final text, in tokens."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stops(self) -> list[str]:
        """Texts that end the final text."""
        return [each for each in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if each]


def check_extras(given: Mapping[str, Any] | None, neutral: Mapping[str, Sequence[Any]]) -> None:
    """Refuse fields with other values than their ``neutral`` ones, by field."""
    for name, accepted in neutral.items():
        value = (given or {}).get(name)
        known = any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in accepted)
        if value is not None and not known:
            expected = f"expected {accepted[0]!r} or nothing" if accepted else ""
            why = "; ".join(filter(None, (f"{name} = {value!r:.60} is not supported", _REASONS.get(name), expected)))
            raise Refusal(400, why, param=name)


def without_effect(given: Mapping[str, Any] | None, known: Sequence[str]) -> list[str]:
    """The fields that have a value and are not known."""
    return [name for name, value in (given or {}).items() if value not in (None, []) and name not in known]


class Health(BaseModel):
    """What the server is doing."""

    status: Literal["ok", "draining"]
    running: int
    waiting: int
