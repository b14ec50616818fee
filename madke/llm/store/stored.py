"""A model in front of which a call store stands."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.llm.store.call_rows import call_key
from madke.llm.store.call_store import CallStore


class Stored:
    """A model whose calls go through a call store.

    A live look-up is answered by a stored completion whose outcome is ``ok``; anything else is asked anew. What the
    store answers carries the usage of the call that was made. It is ``paid`` if this run made it (before a kill, or in
    the run that is replayed), and not if another run that shares the store did. Calls with equal keys that are under
    way at the same time become one.

    Args:
        model: Who is asked when the store has no answer.
        store: Where calls are looked up and written.
        replay: Never ask the model: answer with whatever was stored last, errors included. What is not there is a
            failed completion.
        payer: Names this run among those that share the store.
    """

    def __init__(self, model: ChatModel, store: CallStore, *, replay: bool = False, payer: str = "") -> None:
        self.name = model.name
        self._model = model
        self._store = store
        self._replay = replay
        self._payer = payer

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer from the store, or ask the model and write down what it said."""
        key = call_key(self.name, request)
        while True:
            known = self._store.find(key, payer=self._payer, only_ok=not self._replay)
            if known is not None:
                return known
            if self._replay:
                return Completion(outcome="failed", error="not in the call store", attempts=0, paid=False)
            running = self._store.in_flight.get(key)
            if running is None:
                return await self._ask(key, request)
            await asyncio.wait([running])
            if not running.cancelled():
                return replace(running.result(), paid=False)

    async def _ask(self, key: str, request: ChatRequest) -> Completion:
        running: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._store.in_flight[key] = running
        try:
            completion = await self._model.complete(request)
            await self._store.write(key, self.name, request, completion, payer=self._payer)
            running.set_result(completion)
            return completion
        finally:
            del self._store.in_flight[key]
            # Without a result (Ctrl-C, a bug) those who wait must ask for themselves.
            running.cancel()
