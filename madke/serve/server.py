"""The server: its routes, and its process with slow clients, signals and the end.

To add a door, write a function that returns routes in a module of its own and include it in :func:`create_app`. A
response that takes a debate is a :class:`madke.serve.debates.DebateResponse`; errors are
:class:`madke.serve.gate.Refusal`. All routes are behind :class:`madke.serve.gate.Gate`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from madke._util.concurrency import DaemonThreads, cancel_tasks
from madke.core.errors import UserError
from madke.runs.runner import COLLECTING
from madke.serve.chat import Answer, ChatBody
from madke.serve.debates import Debates
from madke.serve.gate import Gate, Refusal, body_of
from madke.serve.page import page_routes

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_log = logging.getLogger(__name__)

SLOW_SECONDS = 30.0
"""A client that takes longer to send a request, or to read what waits for it, is dropped."""

_KILL_SECONDS = 10.0
"""Seconds after the grace at which a process that hangs is killed."""


def create_app(debates: Debates, keys: Sequence[str] = (), host: str = "127.0.0.1") -> Starlette:
    """The application. Its debates must be entered while it serves; see :func:`serve`."""
    mcp = McpDoor(debates, keys=max(1, len(keys)))
    return Starlette(
        routes=[*openai_routes(debates), *page_routes(debates), Route("/mcp", mcp)],
        middleware=[Middleware(Gate, keys=keys, host=host)],
        exception_handlers={HTTPException: _on_http},
        lifespan=mcp.lifespan,
    )


def openai_routes(debates: Debates) -> list[Route]:
    """The routes that OpenAI's clients use."""
    offers, started = debates.offers, int(time.time())

    def listed(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": started, "owned_by": "madke"}

    async def health(request: Request) -> Response:
        status = "draining" if debates.draining else "ok"
        return JSONResponse({"status": status, "running": debates.running, "waiting": debates.waiting})

    async def models(request: Request) -> Response:
        names = (*offers.variants, *debates.options.aliases)
        return JSONResponse({"object": "list", "data": [listed(name) for name in names]})

    async def model(request: Request) -> Response:
        offers.variant(request.path_params["name"])
        return JSONResponse(listed(request.path_params["name"]))

    async def chat_completions(request: Request) -> Answer:
        return Answer(debates, request, await body_of(request, ChatBody))

    async def other(request: Request) -> Response:
        message = "this server has chat completions only (POST /v1/chat/completions); a proxy can translate other APIs"
        raise Refusal(404, message, code="unknown_url")

    return [
        Route("/health", health),
        Route("/v1/models", models),
        Route("/v1/models/{name}", model),
        Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        Route("/v1/{path:path}", other, methods=["GET", "POST"]),
    ]


class McpDoor:
    """The route ``/mcp``. Hosts, origins and keys are checked by :class:`madke.serve.gate.Gate`.

    The first request opens it: the MCP package takes as long to load as all the rest. Each key has sessions of its own.
    """

    def __init__(self, debates: Debates, *, keys: int) -> None:
        self._debates, self._keys = debates, keys
        self._end = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[list[StreamableHTTPSessionManager]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if self._keeper is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._keeper = asyncio.create_task(self._keep())
        sessions = await asyncio.shield(self._opened)  # others may wait for it too
        await sessions[scope["madke.key"]].handle_request(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """End all sessions with the server."""
        yield
        self._end.set()
        if self._keeper is not None:
            await self._keeper

    async def _keep(self) -> None:
        # In a task of its own: a task group must be left by the task that entered it.
        try:
            sessions = await asyncio.to_thread(self._sessions)
            async with AsyncExitStack() as stack:
                for each in sessions:
                    await stack.enter_async_context(each.run())
                self._opened.set_result(sessions)
                await self._end.wait()
        except Exception as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)

    def _sessions(self) -> list[StreamableHTTPSessionManager]:
        from madke.serve.mcp import http_sessions

        return [http_sessions(self._debates) for _ in range(self._keys)]


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = Refusal(error.status_code, str(error.detail)).response()
    response.headers.update(error.headers or {})
    return response


class Server(uvicorn.Server):
    """A server that drains on the first signal: no further debates start, those at work may finish."""

    def __init__(self, app: Starlette, debates: Debates, *, grace: float) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=1,  # for what :meth:`_end` leaves
        )
        super().__init__(config)
        for name in ("uvicorn.error", "mcp.server.streamable_http_manager"):
            # They warn of each bad request: clients could fill the log.
            logging.getLogger(name).setLevel(logging.ERROR)
        self._debates = debates
        self._grace = grace
        self._draining: asyncio.Task[None] | None = None
        self._late: dict[Any, tuple[object, float]] = {}
        """Connection -> what its client owes, and since when."""

    async def on_tick(self, counter: int) -> bool:
        """Drop slow clients, twice a second."""
        if counter % 5 == 0:
            self._drop_slow()
        return await super().on_tick(counter)

    def _drop_slow(self) -> None:
        now, before = time.monotonic(), self._late
        self._late = {}
        for connection in self.server_state.connections:
            owed = _pending_input(connection)
            if owed is not None:
                known, since = before.get(connection, (None, now))
                since = since if known == owed else now
                self._late[connection] = (owed, since)
                if now - since >= SLOW_SECONDS:
                    connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; a second signal does not wait for debates."""
        if self._draining is None:  # kills the process even if its event loop or a native library hangs
            faulthandler.dump_traceback_later(self._grace + _KILL_SECONDS, exit=True)
        asyncio.get_running_loop().call_soon_threadsafe(self.drain)

    def drain(self) -> None:
        """As on a signal."""
        if self._draining is not None:
            self._end()
            return
        self._debates.draining = True
        self._debates.ends = asyncio.get_running_loop().time() + self._grace
        self._draining = asyncio.create_task(self._finish_debates())

    async def _finish_debates(self) -> None:
        """Two thirds of the grace are for debates; the rest is for calls of models that are under way then."""
        debates = self._debates
        if debates.running:
            _log.warning("shutting down; waiting for %d debates (Ctrl-C: do not wait)", debates.running)
        try:
            async with asyncio.timeout(self._grace * 2 / 3):
                while debates.turns or any(map(_is_unread, self.server_state.connections)):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        except TimeoutError:
            if debates.running:
                _log.warning("%d debates did not finish in time; the same questions go on with them", debates.running)
        self._end()

    def _end(self) -> None:
        """End the process. Connections whose clients are not done are closed, which ends their debates."""
        self.should_exit = True
        for connection in list(self.server_state.connections):
            if _is_unread(connection) or _is_answering(connection):
                connection.transport.abort()


def _pending_input(connection: Any) -> object:
    """What the client owes: to read what waits for it, or a whole request; None if the server has to do something."""
    if _is_unread(connection):
        return "reading"
    if _is_answering(connection) and not connection.cycle.more_body:
        return None
    return connection.cycle or "first request"  # another one for each request


def _is_answering(connection: Any) -> bool:
    return not (connection.cycle is None or connection.cycle.response_complete)


def _is_unread(connection: Any) -> bool:
    return bool(connection.transport.get_write_buffer_size())


def listening_socket(host: str, port: int) -> socket.socket:
    """A listening socket; UserError if the address cannot be used."""
    ipv6 = ":" in host
    family = socket.AF_INET6 if ipv6 else socket.AF_INET
    try:  # clients that come before the server is up wait
        listener = socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=ipv6)
    except OSError as error:
        raise UserError(f"cannot listen at {host} port {port}: {error.strerror or error}") from None
    # asyncio sets TCP_NODELAY only where the protocol is named; without it each reply on a kept connection waits 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listener.detach())


async def serve(
    app: Starlette,
    debates: Debates,
    listening: socket.socket,
    *,
    grace: float,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal; then end within ``grace`` seconds.

    ``ready`` is called once the folder of the debates is open: UserError comes before it.
    """
    gc.set_threshold(*COLLECTING)
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    async with debates:
        ready()
        warming = asyncio.create_task(debates.offers.warm())
        await Server(app, debates, grace=grace).serve([listening])
        await cancel_tasks(warming)
