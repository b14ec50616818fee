"""The server process: slow clients, signals, the end."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from madke.core.errors import UserError
from madke.runs.runner import COLLECTING
from madke.serve.app import State

_log = logging.getLogger(__name__)

SLOW_SECONDS = 30.0
"""A client that takes longer to send the head of a request, or to read what waits for it, is dropped."""

_BUFFER = 64 << 10
"""Bytes that may wait for a client before it counts as slow."""


class Connection(H11Protocol):
    """A connection that is dropped if its client is too slow."""

    _slow: asyncio.TimerHandle | None = None
    _silent: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the client time for its first request."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_BUFFER)
        self._silent = self.loop.call_later(SLOW_SECONDS, self._drop_without_request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        for timer in filter(None, (self._slow, self._silent)):
            timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read: give it time."""
        self.flow.pause_writing()
        self._slow = self.loop.call_later(SLOW_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        self.flow.resume_writing()
        if self._slow is not None:
            self._slow.cancel()

    def _drop_without_request(self) -> None:
        if self.cycle is None:
            self.transport.abort()


class Server(uvicorn.Server):
    """A server that drains on the first signal: no further debates start, those at work may finish."""

    def __init__(self, app: FastAPI, state: State, *, grace: float) -> None:
        config = uvicorn.Config(
            app, http=Connection, ws="none", log_config=None, access_log=False, server_header=False, lifespan="on"
        )
        super().__init__(config)
        self._state = state
        self._grace = grace
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; a second signal does not wait for debates."""
        self._loop.call_soon_threadsafe(self._drain)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Remember the loop, for signals."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def _drain(self) -> None:
        if self._draining is not None:
            self._cancel()
            return
        self._state.debates.draining = True
        self._draining = asyncio.create_task(self._drained())

    async def _drained(self) -> None:
        debates = self._state.debates
        if debates.running:
            _log.warning("shutting down; waiting for %d debates (Ctrl-C: do not wait)", debates.running)
        try:
            async with asyncio.timeout(self._grace):
                while debates.turns:
                    await asyncio.sleep(0.05)
            self.should_exit = True
        except TimeoutError:
            _log.warning("%d debates did not finish in time; the same questions go on with them", debates.running)
            self._cancel()

    def _cancel(self) -> None:
        """End the process: connections that are still open are closed, which ends their debates."""
        self.should_exit = True
        for connection in list(self.server_state.connections):
            if (cycle := getattr(connection, "cycle", None)) is not None and not cycle.response_complete:
                connection.transport.abort()


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; UserError if the address cannot be used."""
    ipv6 = ":" in host
    family = socket.AF_INET6 if ipv6 else socket.AF_INET
    try:  # clients that come before the server is up wait
        return socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=ipv6)
    except OSError as error:
        raise UserError(f"cannot listen at {host} port {port}: {error.strerror or error}") from None


async def serve(app: FastAPI, state: State, listening: socket.socket, *, grace: float) -> None:
    """Serve until a signal; then wait at most ``grace`` seconds for debates."""
    gc.set_threshold(*COLLECTING)
    async with state.debates:
        await Server(app, state, grace=grace).serve([listening])
