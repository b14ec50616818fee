"""One request for an answer: its debate, its response, and a client that may go away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

from anyio import CancelScope
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from madke.core.events import Event
from madke.engine.parse import without_reasoning
from madke.serve.conversation import Conversation
from madke.serve.debates import Ask, Served, Turn
from madke.serve.narration import Narration
from madke.serve.reply import FinalText, bounded, final_text, tokens
from madke.serve.wire import ChatBody, Record, Refusal

T = TypeVar("T")

KEEP_ALIVE = b": keep-alive\n\n"

SILENCE = 5.0
"""Seconds without data after which a comment is sent: half of what proxies and clients may not outlive."""

_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, kw_only=True)
class Style:
    """How answers are written."""

    think_tags: bool = False
    """Whether turns are between ``<think>`` tags in the content, instead of in ``reasoning_content``."""
    marks: bool = True
    """Whether the text has ``[1]`` where it cites."""


class Answer(Response):
    """The response to a request for an answer. The debate goes on as long as the client is there.

    Args:
        turn: The request's turn, entered: it is admitted.
        body: The request.
        conversation: Its messages.
        plain: Whether to make one call instead of a debate.
        retry: Whether the client says that it asks again.
        style: How answers are written.
        address: Gives the address of a debate's transcript.
        headers: Of the response.
    """

    def __init__(
        self,
        turn: Turn,
        body: ChatBody,
        conversation: Conversation,
        *,
        plain: bool,
        retry: bool,
        style: Style,
        address: Callable[[Served], str],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__()
        self.turn = turn
        self.request = body
        self.conversation = conversation
        self.plain = plain
        self.retry = retry
        self.style = style
        self.address = address
        self.own_headers = headers
        self._id = f"chatcmpl-{uuid4().hex}"
        self._created = int(time.time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless the client goes away first."""
        with closing(self.turn):
            answer = self._stream(send) if self.request.stream else self._whole(scope, receive, send)
            await unless_gone(receive, answer)

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        reasoning: list[str] = []
        try:
            ending = await self._answered(reasoning.append, deltas=False)
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        thoughts, final = "".join(reasoning).strip(), ending.final
        content, shown = final.text, {"reasoning_content": thoughts, "reasoning": thoughts} if thoughts else {}
        if self.style.think_tags and thoughts:
            content, shown = f"<think>\n{thoughts}\n</think>\n\n{final.text}", {}
        message = ChatCompletionMessage(
            role="assistant", content=content, refusal=None, annotations=final.annotations, **shown
        )
        completion = ChatCompletion(
            id=self._id,
            object="chat.completion",
            created=self._created,
            model=self.request.model,
            choices=[Choice(index=0, message=message, finish_reason=final.finish_reason, logprobs=None)],
            usage=ending.usage,
            **ending.own,
        )
        response = JSONResponse(completion.model_dump(exclude_unset=True), headers=self.own_headers)
        await response(scope, receive, send)
        self.turn.delivered()

    async def _stream(self, send: Send) -> None:
        headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", **self.own_headers}
        headers["x-accel-buffering"] = "no"  # nginx would collect the whole stream
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        try:
            async with aclosing(self._lines()) as lines:
                async for line in lines:
                    await send({"type": "http.response.body", "body": line, "more_body": True})
        except Refusal as refusal:
            error = _data(refusal.error.model_dump_json())
            await send({"type": "http.response.body", "body": error + _DONE, "more_body": False})
            return
        await send({"type": "http.response.body", "body": _DONE, "more_body": False})
        self.turn.delivered()

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        """The stream up to its end. A comment breaks each silence, from the start."""
        yield KEEP_ALIVE + self._chunk(role="assistant", content="")
        parts: asyncio.Queue[str | None] = asyncio.Queue()
        tags = self.style.think_tags
        work = asyncio.create_task(self._answered(parts.put_nowait, deltas=not tags))
        work.add_done_callback(lambda _: parts.put_nowait(None))
        thought = False
        try:
            while True:
                try:
                    async with asyncio.timeout(SILENCE):
                        part = await parts.get()
                except TimeoutError:
                    yield KEEP_ALIVE
                    continue
                if part is None:
                    break
                if tags:
                    yield self._chunk(content=part if thought else f"<think>\n{part}")
                else:
                    yield self._chunk(reasoning_content=part, reasoning=part)
                thought = True
            ending = await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        if tags and thought:
            yield self._chunk(content="</think>\n\n")
        final = ending.final
        cited = {"annotations": [each.model_dump() for each in final.annotations]} if final.annotations else {}
        yield self._chunk(content=final.text, **cited)
        last = {"index": 0, "delta": {}, "finish_reason": final.finish_reason}
        yield self._event(choices=[last], **ending.own)
        if self.request.stream_options is not None and self.request.stream_options.include_usage:
            yield self._event(choices=[], usage=ending.usage.model_dump())

    async def _answered(self, tell: Callable[[str], object], *, deltas: bool) -> _Ending:
        """The debate, or the one call; ``tell`` gets the turns as they happen."""
        body, talk = self.request, self.conversation
        if self.plain:
            completion = await self.turn.plain(body.model, talk.plain, body.limit)
            text, finish_reason = bounded(without_reasoning(completion.text), body)
            final = FinalText(text=text, finish_reason=finish_reason, annotations=[])
            return _Ending(final=final, usage=tokens(completion.usage))
        narration = Narration(tags=self.style.think_tags)

        def hear(event: Event) -> None:
            if part := narration.hear(event):
                tell(part)

        ask = Ask(
            protocol=body.model,
            question=talk.question,
            instructions=talk.instructions,
            condensing=talk.condensing if talk.earlier else (),
            retry=self.retry,
        )
        served = await self.turn.debate(ask, hear, deltas=deltas)
        transcript, address = served.transcript, self.address(served)
        return _Ending(
            final=final_text(transcript, served.pool, body, address, marks=self.style.marks),
            usage=tokens(served.usage),
            record=Record(status=transcript.status, rounds=len(transcript.rounds), transcript=address),
        )

    def _chunk(self, **delta: Any) -> bytes:
        return self._event(choices=[{"index": 0, "delta": delta, "finish_reason": None}])

    def _event(self, **fields: Any) -> bytes:
        chunk = ChatCompletionChunk(
            id=self._id,
            object="chat.completion.chunk",
            created=self._created,
            model=self.request.model,
            **fields,
        )
        return _data(chunk.model_dump_json(exclude_unset=True))


@dataclass(frozen=True, kw_only=True)
class _Ending:
    """What is known when the debate is over."""

    final: FinalText
    usage: CompletionUsage
    record: Record | None = None

    @property
    def own(self) -> dict[str, Any]:
        """What madke adds to OpenAI's form."""
        return {} if self.record is None else {"madke": self.record.model_dump()}


def refused(refusal: Refusal) -> JSONResponse:
    """The response for a refusal, in OpenAI's form."""
    return JSONResponse(refusal.error.model_dump(), status_code=refusal.status_code, headers=refusal.headers)


def _data(data: str) -> bytes:
    return f"data: {data}\n\n".encode("utf-8", "replace")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Do the work, but end it as soon as the client has gone; then the result is None."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, waiting = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        waiting.cancel()
        with CancelScope(shield=True):  # a scope of the caller would cancel this wait again and again
            await asyncio.gather(working, waiting, return_exceptions=True)
    return None if working.cancelled() else working.result()
