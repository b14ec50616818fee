"""One request for a chat completion: its conversation, its debate, and its response."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self
from uuid import uuid4

from fastapi import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from madke._util.assets import asset
from madke._util.concurrency import Tell
from madke._util.yaml_file import read_mapping
from madke.core.chat import Message
from madke.core.events import Event
from madke.engine.view import without_tags
from madke.serve.chat_form import ChatChoice, ChatCompletion, ChatReply, ChatUsage
from madke.serve.debates import Debates
from madke.serve.offers import Ask
from madke.serve.reply import FinalText, Narration, bounded, final_text
from madke.serve.streaming import Debating, data
from madke.serve.wire import ChatBody, ChatMessage, Refusal, header_of

_TASK_HEADERS = ("x-openwebui-task", "x-madke-plain")
"""Headers that mark a user interface's request for a title, tags or follow-up questions."""

_TASK = "### Task:"
"""How the requests of user interfaces for titles, tags and follow-up questions begin."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The messages of a request, by what they are for."""

    question: str
    """The last message of the user."""
    instructions: str
    """All system messages."""
    earlier: tuple[Message, ...]
    """The turns before the question, without calls of tools and their results."""

    @classmethod
    def read(cls, messages: Sequence[ChatMessage]) -> Conversation:
        """Sort the messages; Refusal if the last one is not a question."""
        system = [message.text for message in messages if message.role in ("system", "developer")]
        turns = [message for message in messages if message.role not in ("system", "developer")]
        if not turns or turns[-1].role != "user" or not (question := turns[-1].text.strip()):
            raise Refusal(400, "the last message must be a question of the user, with text", param="messages")
        earlier = tuple(
            Message(role="user" if message.role == "user" else "assistant", content=message.text)
            for message in turns[:-1]
            if not message.is_about_tools
        )
        instructions = "\n\n".join(text.strip() for text in system if text.strip())
        return cls(question=question, instructions=instructions, earlier=earlier)

    @property
    def plain(self) -> tuple[Message, ...]:
        """The messages of a plain call without a debate."""
        system = (Message(role="system", content=self.instructions),) if self.instructions else ()
        return (*system, *self.earlier, Message(role="user", content=self.question))

    @property
    def condensing(self) -> tuple[Message, ...]:
        """The prompt for the standalone question that the last message means."""
        wording = _wording()
        said = (f'<message from="{turn.role}">\n{_quoted(turn.content)}\n</message>' for turn in self.earlier)
        conversation = "\n".join(["<conversation>", *said, "</conversation>"])
        last = f'The last message:\n<message from="user">\n{_quoted(self.question)}\n</message>'
        content = "\n\n".join((wording["instruction"], conversation, last, wording["closing"]))
        return Message(role="system", content=wording["system"]), Message(role="user", content=content)


@cache
def _wording() -> Mapping[str, str]:
    return read_mapping(asset("prompts", "serving", "condense.yaml"))


def _is_filled(request: Request, name: str) -> bool:
    """Whether the header has a value. Open WebUI sends ``{{TASK}}`` unchanged if there is no task."""
    value = request.headers.get(name, "").strip()
    return value != "" and not value.startswith("{{")


def _quoted(text: str) -> str:
    return without_tags(text, ("conversation", "message"))


class Answer(Debating):
    """The response, whole or as a stream; Refusal if the request cannot be answered."""

    end = b"data: [DONE]\n\n"

    @classmethod
    async def to(cls, debates: Debates, request: Request, body: ChatBody) -> Self:
        """The response to a request."""
        body.check()
        return cls(debates, request, body)

    def __init__(self, debates: Debates, request: Request, body: ChatBody) -> None:
        talk = Conversation.read(body.messages)
        ask = Ask(
            protocol=body.model,
            question=talk.question,
            instructions=talk.instructions,
            condensing=talk.condensing if talk.earlier else (),
            retry=request.headers.get("x-stainless-retry-count", "0").strip("0").isdecimal(),
        )
        super().__init__(debates, request, ask)
        self._ignored = {"x-madke-ignored": header_of(body.ignored)} if body.ignored else {}
        self.headers.update(self._ignored)
        self._body, self._talk, self._options = body, talk, debates.options
        self._tags = debates.options.think_tags
        self._plain = talk.question.startswith(_TASK) or any(_is_filled(request, name) for name in _TASK_HEADERS)
        self._thought = False
        self._head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}

    @property
    def opening(self) -> bytes:
        """The role."""
        return self._chunk(role="assistant", content="")

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, or the whole answer."""
        if self._body.stream:
            await super().respond(scope, receive, send)
            return
        told: list[Any] = []
        try:
            final = await self.work(told.append)
        except Refusal as refusal:
            await refusal.response()(scope, receive, send)
            return
        content = self.whole(told, final)
        await JSONResponse(content, headers={**self._ignored, **final.headers})(scope, receive, send)
        self.turn.delivered()

    async def work(self, tell: Tell) -> FinalText:
        """The debate, or the one call; ``tell`` gets the turns as they happen."""
        body = self._body
        if self._plain:
            said, usage = await self.turn.plain(body.model, self._talk.plain, body.limit)
            text, finish_reason = bounded(said, body)
            return FinalText(text=text, finish_reason=finish_reason, usage=ChatUsage.of(usage))
        narration = Narration(tags=self._tags)

        def hear(event: Event) -> None:
            for part in self.heard(narration, event):
                tell(part)

        served = await self.turn.debate(self.ask, hear, deltas=bool(body.stream) and not self._tags)
        address = self.debates.transcripts.address(served, self.request)
        return final_text(served, body, address, marks=self._options.marks)

    def heard(self, narration: Narration, event: Event) -> Sequence[Any]:
        """What an event adds to the turns."""
        return [text] if (text := narration.hear(event)) else []

    def line(self, part: Any) -> bytes:
        """A part of the turns, or the end of the stream."""
        if isinstance(part, FinalText):
            return b"".join(self._ended(part))
        first, self._thought = not self._thought, True
        if self._tags:
            return self._chunk(content=f"<think>\n{part}" if first else part)
        return self._chunk(reasoning_content=part, reasoning=part)

    def _ended(self, final: FinalText) -> Iterator[bytes]:
        if self._tags and self._thought:
            yield self._chunk(content="</think>\n\n")
        cited = {"annotations": [each.model_dump() for each in final.annotations]} if final.annotations else {}
        yield self._chunk(content=final.text, **cited)
        yield self._event(choices=[{"index": 0, "delta": {}, "finish_reason": final.finish_reason}], **final.own)
        if (self._body.stream_options or {}).get("include_usage"):
            yield self._event(choices=[], usage=final.usage.model_dump())

    def whole(self, parts: Sequence[Any], final: FinalText) -> dict[str, Any]:
        """The answer without a stream, after these parts of the turns."""
        thoughts = "".join(parts).strip()
        content, shown = final.text, {"reasoning_content": thoughts, "reasoning": thoughts} if thoughts else {}
        if self._tags and thoughts:
            content, shown = f"<think>\n{thoughts}\n</think>\n\n{final.text}", {}
        message = ChatReply(content=content, annotations=list(final.annotations), **shown)
        choice = ChatChoice(message=message, finish_reason=final.finish_reason)
        completion = ChatCompletion(choices=[choice], usage=final.usage, **self._head, **final.own)
        return completion.model_dump()

    def _chunk(self, **delta: Any) -> bytes:
        return self._event(choices=[{"index": 0, "delta": delta, "finish_reason": None}])

    def _event(self, **fields: Any) -> bytes:
        return data(json.dumps({"object": "chat.completion.chunk", **self._head, **fields}, ensure_ascii=False))
