"""Models and services that answer requests in batches."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from madke.core.chat import ChatRequest, Completion


class Batching(ABC):
    """Answers one batch at a time, in one event loop. Requests that arrive meanwhile form the next batch."""

    def __init__(self, name: str, batch_size: int = 100_000) -> None:
        self.name = name
        self._batch_size = batch_size
        self._waiting: list[tuple[ChatRequest, asyncio.Future[Completion]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, in a batch with others."""
        answer: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        results: Sequence[Completion | Exception]
        while self._waiting:
            # Yield to the loop as long as each step adds a request, so that imminent requests join the batch.
            before = 0
            while before < len(self._waiting) < self._batch_size:
                before = len(self._waiting)
                await asyncio.sleep(0)
            waiting = [(request, answer) for request, answer in self._waiting if not answer.done()]
            batch, self._waiting = waiting[: self._batch_size], waiting[self._batch_size :]
            started = time.monotonic()
            try:
                results = await self._answer([request for request, _ in batch])
            except Exception as error:  # noqa: BLE001
                results = [error] * len(batch)
            seconds = time.monotonic() - started
            for (_, answer), result in zip(batch, results, strict=True):
                if answer.done():
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(replace(result, seconds=seconds))

    @abstractmethod
    async def _answer(self, requests: Sequence[ChatRequest]) -> Sequence[Completion | Exception]:
        """A completion for each request, or the exception that its call raises."""
