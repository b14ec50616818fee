"""Responses that last as long as a debate, to clients that may go away."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CancelScope
from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from madke.concurrency import Tell, told
from madke.serve.debates import Served
from madke.serve.offers import Ask
from madke.serve.wire import Refusal

if TYPE_CHECKING:
    from madke.serve.app import State

T = TypeVar("T")
KEEP_ALIVE = b": keep-alive\n\n"

SILENCE = 5.0
"""Seconds without data after which a comment is sent: half of what proxies and clients may not outlive."""

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx would collect the whole stream
}


class Debating(Response, ABC):
    """A response for which a question is debated as long as its client is there. By default it is a stream.

    Args:
        state: Of the server.
        request: The client's.
        ask: The question; Refusal if it cannot be debated, or not now.
    """

    end = b""
    """What follows the last event of a stream."""

    def __init__(self, state: State, request: Request, ask: Ask) -> None:
        super().__init__()
        self.state = state
        self.request = request
        self.ask = ask
        self.own_headers: Mapping[str, str] = {}
        state.debates.offers.check(ask)
        self.turn = state.debates.admitted()

    @property
    @abstractmethod
    def opening(self) -> bytes:
        """The first event of a stream."""

    @abstractmethod
    async def work(self, tell: Tell) -> object:
        """Debate; ``tell`` gets what is worth a line while it goes on."""

    @abstractmethod
    def line(self, part: Any) -> bytes:
        """What was told, or the result of the work, as events of a stream."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless the client goes away first."""
        with closing(self.turn):
            await unless_gone(receive, self.respond(scope, receive, send))

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. A comment breaks each silence, from the start."""
        headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in {**_HEADERS, **self.own_headers}.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": KEEP_ALIVE + self.opening, "more_body": True})
        try:
            async with aclosing(told(self.work, SILENCE)) as parts:
                async for part in parts:
                    line = KEEP_ALIVE if part is None else self.line(part)
                    await send({"type": "http.response.body", "body": line, "more_body": True})
        except Refusal as refusal:
            await send({"type": "http.response.body", "body": data(refusal.error.model_dump_json()) + self.end})
        else:
            await send({"type": "http.response.body", "body": self.end})
            self.turn.delivered()

    def address(self, served: Served) -> str:
        """The address of the transcript."""
        return self.state.transcripts.address(served, self.request)


def data(content: str) -> bytes:
    """An event of a stream."""
    return f"data: {content}\n\n".encode("utf-8", "replace")


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
