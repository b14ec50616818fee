"""Hugging Face models in this process, as a ChatModel: requests that wait together are answered together."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError, UserError
from madke.llm.local_model import LocalModel

DEFAULT_BATCH_SIZE = 16
"""As many as questions are under way by default."""

_Waiting = tuple[ChatRequest, "asyncio.Future[Completion | CallError]"]


class HFChat:
    """Any causal chat model of the Hugging Face Hub, or of a folder, in this process.

    One thread runs the model. Requests that came while it was busy form its next batch, in the order in which they
    came, of whatever question, stage, temperature, ``max_tokens`` and stop strings. See
    :class:`madke.llm.local_model.LocalModel` for sampling, seeds and usage. One HFChat belongs to one event loop.

    Args:
        model: A folder, or a name on the Hub.
        device: ``cuda``, ``cpu``, ...; by default ``cuda`` where there is one.
        batch_size: Requests in a batch at most; by default the environment's ``MADKE_HF_BATCH_SIZE``, else
            :data:`DEFAULT_BATCH_SIZE`. Where memory runs out, it is halved.

    Raises:
        UserError: ``MADKE_HF_BATCH_SIZE`` is no number above 0.
    """

    def __init__(self, model: str, *, device: str | None = None, batch_size: int | None = None) -> None:
        self.name = f"hf/{model}"
        self._path = model
        self._device = device
        self._batch_size = batch_size or _batch_size()
        self._local: LocalModel | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hf")
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None

    def load(self) -> LocalModel:
        """Load the weights now; by default the first request does it.

        Raises:
            UserError: They cannot be loaded; see :class:`madke.llm.local_model.LocalModel`.
        """
        if self._local is None:
            self._local = LocalModel(self._path, self._device, batch_size=self._batch_size)
        return self._local

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, together with others.

        Raises:
            CallError: It failed, as :meth:`madke.llm.local_model.LocalModel.generate` lists.
        """
        answer: asyncio.Future[Completion | CallError] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        result = await answer
        if isinstance(result, CallError):
            raise result
        return result

    async def aclose(self) -> None:
        """End the batch under way and the thread."""
        if self._local is not None:
            self._local.close()
        await asyncio.to_thread(self._thread.shutdown)

    async def _work(self) -> None:
        """Answer batch after batch until nothing waits."""
        while self._waiting:
            # Whoever is about to ask, as long as each step of the loop brings another, joins the batch.
            before = 0
            while before < len(self._waiting) < self._batch_size:
                before = len(self._waiting)
                await asyncio.sleep(0)
            batch = self._next_batch()
            try:
                results = await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._generate, [request for request, _ in batch]
                )
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), result in zip(batch, results, strict=True):
                if not answer.done():
                    answer.set_result(result)

    def _generate(self, requests: list[ChatRequest]) -> list[Completion | CallError]:
        return self.load().generate(requests) if requests else []

    def _next_batch(self) -> list[_Waiting]:
        """Take those that wait longest; forget whoever no longer waits."""
        waiting = [(request, answer) for request, answer in self._waiting if not answer.done()]
        size = self._local.batch_size if self._local else self._batch_size
        self._waiting = waiting[size:]
        return waiting[:size]


def _batch_size() -> int:
    text = os.environ.get("MADKE_HF_BATCH_SIZE", "").strip()
    if not text:
        return DEFAULT_BATCH_SIZE
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UserError(f"MADKE_HF_BATCH_SIZE is {text!r}; expected how many requests a batch may hold, at least 1")
    return int(text)
