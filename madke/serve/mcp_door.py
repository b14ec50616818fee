"""The route ``/mcp``. Its first request loads the MCP package; at the start that would take as long as all the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from madke.serve.debates import Debates

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


def mcp_routes(debates: Debates) -> APIRouter:
    """The route ``/mcp``. Hosts, origins and keys are checked by :class:`madke.serve.gate.Gate`."""
    door = _Door(debates)
    routes = APIRouter(lifespan=door.lifespan)
    routes.routes.append(Route("/mcp", door))
    return routes


class _Door:
    """Opens at the first request, and keeps the sessions until the server ends."""

    def __init__(self, debates: Debates) -> None:
        self._debates = debates
        self._end = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[StreamableHTTPSessionManager]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if self._keeper is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._keeper = asyncio.create_task(self._keep())
        sessions = await asyncio.shield(self._opened)  # others may wait for it too
        await sessions.asgi_app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """End all sessions with the server."""
        yield
        self._end.set()
        if self._keeper is not None:
            await self._keeper

    async def _keep(self) -> None:
        # In a task of its own: a task group must be left by the task that entered it.
        try:
            sessions = await asyncio.to_thread(_sessions, self._debates)
            async with sessions.run():
                self._opened.set_result(sessions)
                await self._end.wait()
        except Exception as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)


def _sessions(debates: Debates) -> StreamableHTTPSessionManager:
    from madke.serve.mcp_tools import http_sessions

    return http_sessions(debates)
