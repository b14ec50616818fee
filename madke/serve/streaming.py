"""Streams of what a debate tells, to a client that may go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from typing import Any, TypeVar

from anyio import CancelScope
from starlette.types import Receive, Send

T = TypeVar("T")

KEEP_ALIVE = b": keep-alive\n\n"

SILENCE = 5.0
"""Seconds without data after which a comment is sent: half of what proxies and clients may not outlive."""


async def told(work: asyncio.Task[Any], parts: asyncio.Queue[T | None]) -> AsyncGenerator[T | None, None]:
    """What a task puts into a queue, until it ends; None for each silence. The task ends with the generator."""
    work.add_done_callback(lambda _: parts.put_nowait(None))
    try:
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    part = await parts.get()
            except TimeoutError:
                yield None
                continue
            if part is None:
                return
            yield part
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def start_stream(send: Send, headers: Mapping[str, str]) -> None:
    """Send the head of a response with server-sent events."""
    own = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    own["x-accel-buffering"] = "no"  # nginx would collect the whole stream
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in {**own, **headers}.items()]
    await send({"type": "http.response.start", "status": 200, "headers": raw})


async def send_all(send: Send, lines: AsyncIterator[bytes]) -> None:
    """Send the lines of a stream, but not its end."""
    async for line in lines:
        await send({"type": "http.response.body", "body": line, "more_body": True})


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
