"""Calls whose client has gone: those that wait are not made, those under way finish and are stored."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from dataclasses import dataclass

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.errors import CallError


@dataclass(slots=True)
class _Call:
    sent: bool = False
    """Whether it is under way. Before that it waits: for the limiter, for the next attempt, or for an equal call."""
    left: bool = False
    """Whether its client has gone."""


_CALL: ContextVar[_Call] = ContextVar("call")


class Leavable:
    """A model, as debates see it: outside of call store, retries and limiter.

    Args:
        model: The wrapped model.
        landing: Gets the calls under way whose clients have gone.
    """

    def __init__(self, model: ChatModel, landing: set[asyncio.Task[Completion]]) -> None:
        self.name = model.name
        self._model = model
        self._landing = landing

    async def complete(self, request: ChatRequest) -> Completion:
        """Forward the request. If the debate is cancelled, a call that was sent still finishes."""
        call, context = _Call(), copy_context()
        context.run(_CALL.set, call)
        task = asyncio.get_running_loop().create_task(self._model.complete(request), context=context)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            call.left = True
            self._landing.add(task)
            task.add_done_callback(self._landed)
            if not call.sent:
                task.cancel()
            raise

    def _landed(self, task: asyncio.Task[Completion]) -> None:
        self._landing.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it


class Sent:
    """A model inside of the limiter and of :class:`Leavable`: a request that gets here is sent."""

    def __init__(self, model: ChatModel) -> None:
        self.name = model.name
        self._model = model

    async def complete(self, request: ChatRequest) -> Completion:
        """Send the request; from now on it finishes."""
        call = _CALL.get()
        call.sent = True
        try:
            return await self._model.complete(request)
        except CallError:
            call.sent = False
            if call.left:  # there is no next attempt for a client that has gone
                raise asyncio.CancelledError from None
            raise

    @property
    def hold(self) -> float:
        """Seconds during which no call should start, as the model's endpoint says."""
        return float(getattr(self._model, "hold", 0.0))
