"""The end of a debate whose client has gone: calls that wait are not made, calls under way finish and are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.errors import CallError

T = TypeVar("T")

_DEBATE: ContextVar[_Debate | None] = ContextVar("debate", default=None)
"""The debate that the present task belongs to; the tasks of its debaters inherit it."""


class _Debate:
    """The calls of one debate that are not under way."""

    def __init__(self) -> None:
        self.left = False
        self._waiting: set[asyncio.Task[Any] | None] = set()
        """Tasks whose calls wait: for the limiter, for the next attempt, or for an equal call of another debate."""

    def waits(self) -> None:
        """The present task is about to make a call; cancels it if the client has gone."""
        if self.left:
            raise asyncio.CancelledError
        self._waiting.add(asyncio.current_task())

    def is_sent(self) -> None:
        """The call of the present task is under way, or over."""
        self._waiting.discard(asyncio.current_task())

    def leave(self) -> None:
        """The client has gone."""
        self.left = True
        for task in filter(None, self._waiting):
            task.cancel()


class Landings:
    """The debates of clients that have gone, as long as they have calls under way."""

    def __init__(self) -> None:
        self._left: set[asyncio.Task[Any]] = set()

    async def land(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work. If the caller is cancelled, the work ends after its calls under way."""
        debate, context = _Debate(), copy_context()
        context.run(_DEBATE.set, debate)
        task = asyncio.get_running_loop().create_task(work, context=context)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            debate.leave()
            self._left.add(task)
            task.add_done_callback(self._forget)
            raise

    async def landed(self, seconds: float) -> None:
        """Wait for all calls under way, at most so long."""
        if self._left:
            await asyncio.wait(self._left, timeout=seconds)
        for task in self._left:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it


class Leavable:
    """A model, as debates see it: outside of call store, retries and limiter."""

    def __init__(self, model: ChatModel) -> None:
        self.name = model.name
        self._model = model

    async def complete(self, request: ChatRequest) -> Completion:
        """Forward the request, unless the debate's client has gone."""
        if (debate := _DEBATE.get()) is None:
            return await self._model.complete(request)
        debate.waits()
        try:
            return await self._model.complete(request)
        finally:
            debate.is_sent()


class Sent:
    """A model inside of the limiter: a request that gets here is sent."""

    def __init__(self, model: ChatModel) -> None:
        self.name = model.name
        self._model = model

    async def complete(self, request: ChatRequest) -> Completion:
        """Send the request; from now on it finishes."""
        if (debate := _DEBATE.get()) is None:
            return await self._model.complete(request)
        debate.is_sent()
        try:
            return await self._model.complete(request)
        except CallError:
            debate.waits()  # for the next attempt, which a client that has gone does not get
            raise

    @property
    def hold(self) -> float:
        """Seconds during which no call should start, as the model's endpoint says."""
        return float(getattr(self._model, "hold", 0.0))
