"""Replies of OpenAI's chat completions as records. The types of the ``openai`` package take half a second to import."""

from typing import Literal

from pydantic import BaseModel

from madke.core.chat import Usage


class ListedModel(BaseModel):
    """A protocol, as clients list it."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "madke"


class ListedModels(BaseModel):
    """All protocols that are served."""

    object: Literal["list"] = "list"
    data: list[ListedModel]


class UrlCitation(BaseModel):
    """A passage that the answer cites."""

    title: str
    url: str
    start_index: int
    """Of its mark in the text."""
    end_index: int


class Annotation(BaseModel):
    """A citation of an answer."""

    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class PromptDetails(BaseModel):
    """Prompt tokens by kind."""

    cached_tokens: int


class CompletionDetails(BaseModel):
    """Completion tokens by kind."""

    reasoning_tokens: int


class ChatUsage(BaseModel):
    """Tokens of all calls for a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails

    @classmethod
    def of(cls, usage: Usage) -> "ChatUsage":
        """Usage in OpenAI's form."""
        return cls(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            total_tokens=usage.prompt_tokens + usage.completion_tokens,
            prompt_tokens_details=PromptDetails(cached_tokens=usage.cached_tokens),
            completion_tokens_details=CompletionDetails(reasoning_tokens=usage.reasoning_tokens),
        )


class ChatReply(BaseModel, extra="allow"):
    """The message of an answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    annotations: list[Annotation]


class ChatChoice(BaseModel):
    """The one answer."""

    index: Literal[0] = 0
    message: ChatReply
    finish_reason: Literal["stop", "length"]
    logprobs: None = None


class ChatCompletion(BaseModel, extra="allow"):
    """A whole answer. ``message`` has the turns as ``reasoning_content``; ``madke`` says how the debate went."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
