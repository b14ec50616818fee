"""``POST /v1/responses``: OpenAI's Responses API. The turns of the debate are its reasoning, the answer its message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Self
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import BaseModel

from madke.core.events import Event
from madke.serve.answer import Answer
from madke.serve.debates import Debates
from madke.serve.json_form import JsonForm
from madke.serve.reply import FinalText, Narration, TurnPart
from madke.serve.responses_form import (
    ResponsesBody,
    flat,
    message_item,
    output_text,
    reasoning_item,
    response_usage,
    summary_text,
)
from madke.serve.streaming import event_of
from madke.serve.wire import ERRORS, Refusal, header_of


class ResponseReply(BaseModel, extra="allow"):
    """A response: ``output`` is the debate as a reasoning item, and the answer as a message."""

    id: str
    object: str
    status: str
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None


def responses_routes(debates: Debates) -> APIRouter:
    """The routes of the Responses API."""
    routes = APIRouter(responses=ERRORS)

    @routes.post(
        "/v1/responses",
        response_model=ResponseReply,
        responses={200: {"content": {"text/event-stream": {}}, "description": "The response, whole or as a stream."}},
    )
    async def create(body: ResponsesBody, request: Request) -> ResponseAnswer:
        """Debate the last message of the user."""
        return await ResponseAnswer.of(debates, request, body)

    @routes.get("/v1/responses/{response}", response_model=None)
    async def stored(response: str) -> None:
        """Nothing: responses are not stored."""
        message = "no response is stored; its field madke.transcript is the address of the debate"
        raise Refusal(404, message, code="response_not_found")

    return routes


class ResponseAnswer(Answer):
    """The response, whole or as a stream; Refusal if the request cannot be answered."""

    end = b""

    @classmethod
    async def of(cls, debates: Debates, request: Request, body: ResponsesBody) -> Self:
        """The response to a request."""
        body.check()
        chat = body.as_chat()
        try:
            form = await JsonForm.of_request(chat.response_format)
            made = cls(debates, request, chat, form)
        except Refusal as refusal:
            raise _renamed(refusal) from None
        made._asked = body
        made._ignored = {"x-madke-ignored": header_of(body.ignored)} if body.ignored else {}
        made.headers.update(made._ignored)
        return made

    _asked: ResponsesBody

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._tags = False  # there are reasoning items
        self._ids = {kind: f"{kind}_{uuid4().hex}" for kind in ("resp", "rs", "msg")}
        self._sequence = 0
        self._parts: list[str] = []
        """What was streamed of the turns."""

    @property
    def opening(self) -> bytes:
        """The response without output."""
        empty = self._response("in_progress", [])
        return self._sent("response.created", response=empty) + self._sent("response.in_progress", response=empty)

    def heard(self, narration: Narration, event: Event) -> Sequence[TurnPart]:
        """What an event adds to the turns."""
        return narration.pieces(event)

    def line(self, part: TurnPart | FinalText) -> bytes:
        """A part of a turn, or the end of the stream."""
        return b"".join(self._ended(part) if isinstance(part, FinalText) else self._thinks(part))

    def failed(self, refusal: Refusal) -> bytes:
        """The end of a stream whose debate failed."""
        code = "rate_limit_exceeded" if refusal.status_code == 429 else "server_error"
        error = {"code": code, "message": refusal.error.error.message}
        return self._sent(
            "response.failed", response=self._response("failed", self._reasoning("incomplete"), error=error)
        )

    def whole(self, parts: Sequence[TurnPart], final: FinalText) -> dict[str, Any]:
        """The response without a stream."""
        for part in parts:
            self._add(part)
        return self._finished(final)

    def _add(self, part: TurnPart) -> None:
        if part.begins or not self._parts:
            self._parts.append("")
        self._parts[-1] += part.text

    def _thinks(self, part: TurnPart) -> Iterator[bytes]:
        if not self._parts:
            yield self._item_event("added", 0, reasoning_item(self._ids["rs"], [], "in_progress"))
        if part.begins or not self._parts:
            yield from self._part_ended()
            self._add(part)
            yield self._summary("part.added", part=summary_text(""))
        else:
            self._add(part)
        yield self._summary("text.delta", delta=part.text)

    def _part_ended(self) -> Iterator[bytes]:
        if self._parts:
            yield self._summary("text.done", text=self._parts[-1])
            yield self._summary("part.done", part=summary_text(self._parts[-1]))

    def _ended(self, final: FinalText) -> Iterator[bytes]:
        yield from self._part_ended()
        for item in self._reasoning("completed"):
            yield self._item_event("done", 0, item)
        response = self._finished(final)
        item = response["output"][-1]
        text, cited = final.text, item["content"][0]["annotations"]
        at = {"item_id": item["id"], "output_index": len(response["output"]) - 1, "content_index": 0}
        yield self._item_event("added", at["output_index"], {**item, "status": "in_progress", "content": []})
        yield self._sent("response.content_part.added", **at, part=output_text("", []))
        yield self._sent("response.output_text.delta", **at, delta=text, logprobs=[])
        for place, each in enumerate(cited):
            yield self._sent("response.output_text.annotation.added", **at, annotation_index=place, annotation=each)
        yield self._sent("response.output_text.done", **at, text=text, logprobs=[])
        yield self._sent("response.content_part.done", **at, part=output_text(text, cited))
        yield self._item_event("done", at["output_index"], item)
        yield self._sent(f"response.{response['status']}", response=response)

    def _reasoning(self, status: str) -> list[dict[str, Any]]:
        return [reasoning_item(self._ids["rs"], self._parts, status)] if self._parts else []

    def _finished(self, final: FinalText) -> dict[str, Any]:
        status = "incomplete" if final.finish_reason == "length" else "completed"
        message = message_item(self._ids["msg"], final.text, [*map(flat, final.annotations)], status)
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        output = [*self._reasoning("completed"), message]
        usage = response_usage(final.usage)
        return self._response(status, output, usage=usage, incomplete_details=details, **final.own)

    def _response(self, status: str, output: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        asked = self._asked
        return {
            "id": self._ids["resp"],
            "object": "response",
            "created_at": self._head["created"],
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": asked.metadata or {},
            "model": asked.model,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": None,
            "text": asked.text or {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": None,
            **fields,
        }

    def _item_event(self, what: str, place: int, item: dict[str, Any]) -> bytes:
        return self._sent(f"response.output_item.{what}", output_index=place, item=item)

    def _summary(self, what: str, **fields: Any) -> bytes:
        at = {"item_id": self._ids["rs"], "output_index": 0, "summary_index": max(0, len(self._parts) - 1)}
        return self._sent(f"response.reasoning_summary_{what}", **at, **fields)

    def _sent(self, kind: str, **fields: Any) -> bytes:
        content = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return event_of(kind, json.dumps(content, ensure_ascii=False))


def _renamed(refusal: Refusal) -> Refusal:
    """The refusal, with the names that fields have in this API."""
    error, names = refusal.error.error, {"messages": "input", "response_format": "text.format"}
    for chat, own in names.items():
        error.message = error.message.replace(chat, own) if error.param == chat else error.message
    error.param = names.get(error.param or "", error.param)
    return refusal
