"""Responses that last as long as a debate, to clients that may go away."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from madke._util.concurrency import Tell, cancelled, told
from madke.serve.debates import Debates, ServedRequest
from madke.serve.gate import Refusal
from madke.serve.offers import Ask

T = TypeVar("T")
KEEP_ALIVE = b": keep-alive\n\n"

SILENCE = 5.0
"""Seconds without data after which a comment is sent: half of what proxies and clients may not outlive."""


class DebateResponse(ABC):
    """A response for which a question is debated as long as its client is there. By default it is a stream."""

    turn: ServedRequest
    ask: Ask
    end = b""
    """What follows the last event of a stream."""

    def __init__(self, debates: Debates, request: Request) -> None:
        self.debates, self.request = debates, request
        self.headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}  # nginx would collect the whole stream

    @property
    def opening(self) -> bytes:
        """The first event of a stream, if it does not begin with the debate."""
        return b""

    @abstractmethod
    def read(self) -> Ask:
        """What the request asks, read once it is admitted; Refusal if it cannot be answered."""

    @abstractmethod
    async def work(self, tell: Tell) -> object:
        """Debate; ``tell`` gets each event that is shown as a line during the debate."""

    @abstractmethod
    def line(self, part: Any) -> bytes:
        """What was told, or the result of the work, as events of a stream."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless the client goes away first; Refusal if the question cannot be debated, or not now."""
        with self.debates.admitted() as self.turn:
            self.ask = self.read()
            self.debates.offers.check(self.ask)
            await unless_gone(receive, self.respond(send))

    async def respond(self, send: Send) -> None:
        """Send the response."""
        async with aclosing(self._events()) as events:
            response = StreamingResponse(events, headers=self.headers, media_type="text/event-stream")
            await response.stream_response(send)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        """The stream. A comment breaks each silence, from the start."""
        yield KEEP_ALIVE + self.opening
        try:
            async with aclosing(told(self.work, SILENCE)) as parts:
                async for part in parts:
                    yield KEEP_ALIVE if part is None else self.line(part)
        except Refusal as refusal:
            yield data(refusal.error) + self.end
        else:
            yield self.end
            self.turn.delivered()


def data(content: object) -> bytes:
    """An event of a stream, as JSON."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Do the work, but end it as soon as the client has gone; then the result is None."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, waiting = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not working.done() or not waiting.done():
            await cancelled(working, waiting)
    return working.result() if working.done() and not working.cancelled() else None
