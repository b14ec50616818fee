"""The server: its routes, and its process with slow clients, signals and the end.

To add a door, write a function ``router(debates: Debates) -> APIRouter`` in a module of its own and include it in
:func:`create_app`. Its response is a :class:`madke.serve.streaming.Debating`; errors are
:class:`madke.serve.wire.Refusal`. All routes are behind :class:`madke.serve.gate.Gate`.
"""

import asyncio
import gc
import logging
import socket
import time
from collections.abc import Callable
from types import FrameType

import h11
import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from madke._util.logs import quieten_servers
from madke.core.errors import UserError
from madke.runs.runner import COLLECTING
from madke.serve import mcp_door, page
from madke.serve.answer import Answer
from madke.serve.chat_form import ChatCompletion, ListedModel, ListedModels
from madke.serve.debates import Debates
from madke.serve.gate import Access, Gate
from madke.serve.wire import ERRORS, ChatBody, Health, Refusal

_log = logging.getLogger(__name__)

SLOW_SECONDS = 30.0
"""A client that takes longer to send a request, or to read what waits for it, is dropped."""

_BUFFER = 64 << 10
"""Bytes that may wait for a client before it counts as slow."""


def create_app(debates: Debates, access: Access) -> FastAPI:
    """The application. Its debates must be entered while it serves; see :func:`serve`."""
    app = FastAPI(title="madke", summary="Debates behind OpenAI's chat completions.")
    for routes in (
        openai_routes(debates),
        page.page_routes(debates, lists=access.is_private),
        mcp_door.mcp_routes(debates),
    ):
        app.include_router(routes)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_middleware(Gate, access=access)
    if access.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=access.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


def openai_routes(debates: Debates) -> APIRouter:
    """The routes that OpenAI's clients use."""
    routes = APIRouter(responses=ERRORS)
    offers, started = debates.offers, int(time.time())

    def listed(name: str) -> ListedModel:
        return ListedModel(id=name, created=started)

    @routes.get("/health")
    async def health() -> Health:
        """What the server is doing; needs no key."""
        return Health(status="draining" if debates.draining else "ok", running=debates.running, waiting=debates.waiting)

    @routes.get("/v1/models")
    async def models() -> ListedModels:
        """The protocols that are served."""
        return ListedModels(data=[listed(name) for name in offers.variants])

    @routes.get("/v1/models/{name}")
    async def model(name: str) -> ListedModel:
        """One protocol."""
        return listed(offers.variant(name).name)

    @routes.post(
        "/v1/chat/completions",
        response_model=ChatCompletion,
        responses={200: {"content": {"text/event-stream": {}}, "description": "The answer, whole or as a stream."}},
    )
    async def chat_completions(body: ChatBody, request: Request) -> Answer:
        """Debate the last message of the user."""
        return await Answer.to(debates, request, body)

    @routes.api_route("/v1/{path:path}", methods=["GET", "POST"], include_in_schema=False)
    async def other(path: str) -> None:
        """Other APIs of OpenAI."""
        message = "this server has chat completions only (POST /v1/chat/completions); a proxy can translate other APIs"
        raise Refusal(404, message, code="unknown_url")

    return routes


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return Refusal(
            400, f"the body is not JSON: {first['ctx']['error']}, at character {first['loc'][-1]}"
        ).response()
    place = ".".join(str(part) for part in first["loc"][1:])
    reason = first["msg"].removeprefix("Value error, ")
    return Refusal(400, f"{place or 'the body'}: {reason}", param=place or None).response()


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error, Refusal):
        return error.response()
    response = Refusal(error.status_code, str(error.detail)).response()
    response.headers.update(error.headers or {})
    return response


class Connection(H11Protocol):
    """A connection that is dropped if its client is too slow."""

    _owed: asyncio.TimerHandle | None = None
    """Runs while a request is due or on its way: from the start, or from the last response, to its last byte."""
    _unread: asyncio.TimerHandle | None = None
    """Runs while the client has too much to read, or a whole response."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the client time for its first request."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_BUFFER)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        for timer in filter(None, (self._owed, self._unread)):
            timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; what completes a request ends its time, and what follows is another."""
        sending = self.cycle if self.conn.their_state is h11.SEND_BODY else None
        super().data_received(data)
        if sending is not None and (self.cycle is not sending or self.conn.their_state is not h11.SEND_BODY):
            self._arrived()
        self._watch()

    def on_response_complete(self) -> None:
        """Give the client time to read it, and for the next request."""
        super().on_response_complete()
        if self.is_unread and self._unread is None:
            self._unread = self.loop.call_later(SLOW_SECONDS, self._drop_unread)
        self._watch()

    def pause_writing(self) -> None:
        """The client does not read: give it time."""
        self.flow.pause_writing()
        self._unread = self._unread or self.loop.call_later(SLOW_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        self.flow.resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    @property
    def is_unread(self) -> bool:
        """Whether bytes wait for the client."""
        return self.transport.get_write_buffer_size() > 0

    def end(self) -> None:
        """Close the connection now, unless it is idle: the server closes those itself."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.is_unread or self.conn.their_state is h11.SEND_BODY:
            self.transport.abort()

    def _watch(self) -> None:
        """Let the timer run while the client owes the rest of a request."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._arrived()
        elif self._owed is None and not self.transport.is_closing():
            self._owed = self.loop.call_later(SLOW_SECONDS, self._drop_late)

    def _arrived(self) -> None:
        if self._owed is not None:
            self._owed.cancel()
            self._owed = None

    def _drop_late(self) -> None:
        cycle = self.cycle
        if self.conn.their_state is h11.SEND_BODY and cycle is not None and not cycle.response_started:
            message = f"the request took longer than {SLOW_SECONDS:g} s to arrive"
            response = Refusal(408, message, code="too_slow").response()
            head = h11.Response(status_code=408, headers=[*response.raw_headers, (b"connection", b"close")])
            for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            cycle.disconnected = True
            cycle.message_event.set()
            self.transport.close()
            self._unread = self._unread or self.loop.call_later(SLOW_SECONDS, self.transport.abort)
        else:
            self.transport.abort()

    def _drop_unread(self) -> None:
        self._unread = None
        if self.is_unread:
            self.transport.abort()


class Server(uvicorn.Server):
    """A server that drains on the first signal: no further debates start, those at work may finish."""

    def __init__(self, app: FastAPI, debates: Debates, *, grace: float) -> None:
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=1,  # for what :meth:`_end` leaves
        )
        super().__init__(config)
        quieten_servers()
        self._debates = debates
        self._grace = grace
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; a second signal does not wait for debates."""
        asyncio.get_running_loop().call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        if self._draining is not None:
            self._end()
            return
        self._debates.draining = True
        self._draining = asyncio.create_task(self._drained())

    async def _drained(self) -> None:
        debates = self._debates
        if debates.running:
            _log.warning("shutting down; waiting for %d debates (Ctrl-C: do not wait)", debates.running)
        try:
            async with asyncio.timeout(self._grace):
                while debates.turns or any(connection.is_unread for connection in self._connections):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        except TimeoutError:
            if debates.running:
                _log.warning("%d debates did not finish in time; the same questions go on with them", debates.running)
        self._end()

    def _end(self) -> None:
        """End the process. Connections whose clients are not done are closed, which ends their debates."""
        self.should_exit = True
        for connection in self._connections:
            connection.end()

    @property
    def _connections(self) -> list[Connection]:
        return [each for each in self.server_state.connections if isinstance(each, Connection)]


def listening_socket(host: str, port: int) -> socket.socket:
    """A listening socket; UserError if the address cannot be used."""
    ipv6 = ":" in host
    family = socket.AF_INET6 if ipv6 else socket.AF_INET
    try:  # clients that come before the server is up wait
        made = socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=ipv6)
    except OSError as error:
        raise UserError(f"cannot listen at {host} port {port}: {error.strerror or error}") from None
    # asyncio sets TCP_NODELAY only where the protocol is named; without it each reply on a kept connection waits 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())


async def serve(
    app: FastAPI,
    debates: Debates,
    listening: socket.socket,
    *,
    grace: float,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal; then wait at most ``grace`` seconds for debates.

    ``ready`` is called once the folder of the debates is open: UserError comes before it.
    """
    gc.set_threshold(*COLLECTING)
    async with debates:
        ready()
        await Server(app, debates, grace=grace).serve([listening])
