"""Calls that finish and are stored although the debate that made them has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.errors import CallError
from madke.llm import Limited, Limiter

Landed = Callable[[ChatRequest, Completion], Awaitable[None]]
"""Stores the completion of a call for which nobody waits any more."""


@dataclass(eq=False)
class _Flight:
    """A call, waiting for a slot of the limiter or under way."""

    task: asyncio.Task[Completion]
    sent: bool = False
    waiting: int = 0
    """How many debates wait for it."""
    landing: asyncio.Task[None] | None = None


class Landing:
    """A model behind a limiter. When a caller is cancelled, its call ends only if it has not been sent yet.

    A call that was sent goes on, keeps its slot, and is passed to ``landed``. An equal request joins it, so a client
    that comes back meanwhile does not cause the call again.
    """

    def __init__(self, model: ChatModel, limiter: Limiter, landed: Landed) -> None:
        self.name = model.name
        self._limited = Limited(_Sent(model, self._mark_sent), limiter)
        self._landed = landed
        self._flights: dict[ChatRequest, _Flight] = {}
        self.landing: set[asyncio.Task[None]] = set()
        """Calls under way for which nobody waits."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Make the call, or join an equal one."""
        flight = self._flights.get(request)
        if flight is None:
            flight = self._flights[request] = _Flight(asyncio.create_task(self._limited.complete(request)))
            flight.task.add_done_callback(lambda _: self._flights.pop(request))
        if flight.landing is not None:
            flight.landing.cancel()
            flight.landing = None
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            if flight.waiting == 1:
                self._leave(request, flight)
            raise
        finally:
            flight.waiting -= 1

    def _mark_sent(self, request: ChatRequest) -> None:
        self._flights[request].sent = True

    def _leave(self, request: ChatRequest, flight: _Flight) -> None:
        if flight.sent:
            flight.landing = asyncio.create_task(self._land(request, flight.task))
            self.landing.add(flight.landing)
            flight.landing.add_done_callback(self.landing.discard)
        else:
            flight.task.cancel()

    async def _land(self, request: ChatRequest, task: asyncio.Task[Completion]) -> None:
        try:
            completion = await asyncio.shield(task)
        except CallError:
            return  # the attempt failed; a later debate makes the call again
        await self._landed(request, completion)


class _Sent:
    """A model that tells when a request is sent."""

    def __init__(self, model: ChatModel, sent: Callable[[ChatRequest], None]) -> None:
        self.name = model.name
        self.model = model
        self._sent = sent

    async def complete(self, request: ChatRequest) -> Completion:
        self._sent(request)
        return await self.model.complete(request)

    @property
    def hold(self) -> float:
        """Seconds during which no call should start, as the model's endpoint says."""
        return float(getattr(self.model, "hold", 0.0))
