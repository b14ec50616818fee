"""Responses that last as long as a debate, to clients that may go away."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from anyio import CancelScope
from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from madke._util.concurrency import Tell, told
from madke.serve.debates import Debates, ServedRequest
from madke.serve.offers import Ask
from madke.serve.wire import Refusal

T = TypeVar("T")
KEEP_ALIVE = b": keep-alive\n\n"

SILENCE = 5.0
"""Seconds without data after which a comment is sent: half of what proxies and clients may not outlive."""


class Debating(StreamingResponse, ABC):
    """A response for which a question is debated as long as its client is there. By default it is a stream.

    Making it raises Refusal if the question cannot be debated; sending it, if not now.
    """

    media_type = "text/event-stream"
    turn: ServedRequest
    """While the response is sent."""
    end = b""
    """What follows the last event of a stream."""

    def __init__(self, debates: Debates, request: Request, ask: Ask) -> None:
        # nginx would collect the whole stream
        super().__init__((), headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        self.debates, self.request, self.ask = debates, request, ask
        debates.offers.check(ask)

    @property
    def opening(self) -> bytes:
        """The first event of a stream, if it does not begin with the debate."""
        return b""

    @abstractmethod
    async def work(self, tell: Tell) -> object:
        """Debate; ``tell`` gets each event that is shown as a line during the debate."""

    @abstractmethod
    def line(self, part: Any) -> bytes:
        """What was told, or the result of the work, as events of a stream."""

    def failed(self, refusal: Refusal) -> bytes:
        """The end of a stream whose debate failed."""
        return data(refusal.error.model_dump_json()) + self.end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless the client goes away first."""
        with self.debates.admitted() as self.turn:
            await unless_gone(receive, self.respond(scope, receive, send))

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        async with aclosing(self._events()) as self.body_iterator:
            await self.stream_response(send)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        """The stream. A comment breaks each silence, from the start."""
        yield KEEP_ALIVE + self.opening
        try:
            async with aclosing(told(self.work, SILENCE)) as parts:
                async for part in parts:
                    yield KEEP_ALIVE if part is None else self.line(part)
        except Refusal as refusal:
            yield self.failed(refusal)
        else:
            yield self.end
            self.turn.delivered()


def data(content: str) -> bytes:
    """An event of a stream."""
    return f"data: {content}\n\n".encode("utf-8", "replace")


def event_of(kind: str, content: str) -> bytes:
    """An event of a stream that names its kind."""
    return f"event: {kind}\n".encode() + data(content)


async def unless_gone(receive: Receive | None, work: Coroutine[Any, Any, T]) -> T | None:
    """Do the work, but end it as soon as the client has gone; then the result is None.

    Without ``receive`` the caller cancels the work itself.
    """
    if receive is None:
        return await work

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
