"""The one way from a debate to a model: call store, prefix leader, limit, retries, meter, call store."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from madke.core.chat import ChatModel, ChatRequest, Completion, takes_schemas
from madke.core.errors import CallError
from madke.engine.parse import checked
from madke.models.limiter import Limits
from madke.models.prices import billed_as
from madke.models.retry import DEFAULT_RETRIES, Attempts, RetryPolicy
from madke.models.store import CallStore, call_key


class CallMeter(Protocol):
    """Counts the calls that reach a model, and their retries."""

    def count(self, model: str, completion: Completion, *, service: bool = False) -> None:
        """Count a finished call. A ``service`` is a search or a scorer."""

    def count_retry(self) -> None:
        """Count an attempt that is followed by another one."""


@dataclass(frozen=True, kw_only=True)
class CallPipeline:
    """What the calls of a run go through; its models and services share it.

    A stored completion with outcome ``ok`` answers; any other call is made again. Under ``replay`` the last stored
    completion answers, errors included. A completion is ``paid`` if ``payer``, this run among those that share the
    store, made the call. Calls with equal keys at the same time become one.

    A request with a bound form is looked up in this form first, then in the free one, in which its call was stored if
    the endpoint takes no schema. Another run's free call does not answer it: that run may not have wanted a schema.
    """

    limits: Limits
    meter: CallMeter | None = None
    store: CallStore | None = None
    replay: bool = False
    """Whether only the store answers."""
    payer: str = ""
    """Identifies the run among those that share the store."""
    retries: RetryPolicy = DEFAULT_RETRIES
    note_model: Callable[[ChatModel], None] = lambda model: None
    """Is told of a model after each of its replies, before the reply is stored."""
    sending: Callable[[], AbstractContextManager[None]] = nullcontext
    """A block around each attempt: within it, the request is at the model."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random
    """Draws from [0, 1), for the jitter of waits."""

    def model(self, model: ChatModel) -> ChatModel:
        """A model whose calls go through the pipeline."""
        return PipelineModel(self, model, is_service=False)

    def service(self, service: ChatModel) -> ChatModel:
        """A search or an answer scorer. Failed calls are not retried and do not stop the run."""
        return PipelineModel(self, service, is_service=True)

    async def call(self, model: ChatModel, request: ChatRequest, *, is_service: bool = False) -> Completion:
        """Make one call, step by step. A call that fails for good is a completion with its reason, not an exception."""
        key = call_key(model.name, request) if self.store is not None else ""
        if (known := await self._known(key, model.name, request)) is not None:
            return known
        with self._in_flight(key) as result:
            completion = await (self._serve if is_service else self._send)(model, request)
            self.note_model(model)
            if self.meter is not None:
                self.meter.count(model.name, completion, service=is_service)
            if self.store is not None:
                await self._write(self.store, key, model.name, request, completion)
            result.set_result(completion)
            return completion

    async def _known(self, key: str, name: str, request: ChatRequest) -> Completion | None:
        """The completion that the store has, or that an equal call in flight gets; None if the call must be made."""
        if self.store is None:
            return None
        while True:
            found = self._stored(self.store, key, name, request)
            if found is not None:
                return found
            if self.replay:
                return Completion(outcome="failed", error="not in the call store", attempts=0, paid=False)
            if key not in self.store.in_flight:
                return None
            equal = self.store.in_flight[key]
            await asyncio.wait([equal])
            if not equal.cancelled():
                return replace(equal.result(), paid=False)

    def _stored(self, store: CallStore, key: str, name: str, request: ChatRequest) -> Completion | None:
        found = store.find(key, payer=self.payer, only_ok=not self.replay)
        if found is not None or request.bound is None:
            return found
        free = call_key(name, request.in_form(bound=False))
        found = store.find(free, payer=self.payer, only_ok=not self.replay)
        return found if found is not None and (found.paid or found.bound is not None) else None

    @contextmanager
    def _in_flight(self, key: str) -> Iterator[asyncio.Future[Completion]]:
        """Equal calls wait for the result; without one (Ctrl-C, a bug) they must call the model themselves."""
        result: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        in_flight = self.store.in_flight if self.store is not None else {}
        in_flight[key] = result
        try:
            yield result
        finally:
            del in_flight[key]
            result.cancel()

    async def _serve(self, service: ChatModel, request: ChatRequest) -> Completion:
        async with self.limits.services.slot(request.purpose.question):
            with self.sending():
                return await service.complete(request)

    async def _send(self, model: ChatModel, request: ChatRequest) -> Completion:
        """Attempts until one succeeds or the policy ends them; a call that waits for the next one holds no slot."""
        attempts = Attempts(request, self.retries, self.draw)
        while True:
            try:
                reply = await self._attempt(model, attempts.current)
                following = attempts.after_reply(checked(reply, request.max_tokens))
            except CallError as failure:
                following = attempts.after_failure(failure)
            if isinstance(following, Completion):
                return following
            if self.meter is not None:
                self.meter.count_retry()
            if following:
                await self.sleep(following)

    async def _attempt(self, model: ChatModel, request: ChatRequest) -> Completion:
        """One attempt, after a sibling with the same beginning and within the limits of the model's endpoint."""
        limiter, siblings = self.limits.of(model), self.limits.prefixes_of(model)
        async with siblings.call(request) if siblings is not None else nullcontext() as sibling:
            async with limiter.slot(request.purpose.question):
                try:
                    with self.sending():
                        completion = await model.complete(request if sibling is None else sibling.sent())
                except CallError as failure:
                    if failure.overloaded or failure.timed_out:
                        limiter.rejected(failure)
                    raise
                limiter.spend(completion.usage.prompt_tokens + completion.usage.completion_tokens)
            if siblings is not None and sibling is not None:
                siblings.note_reply(sibling, completion)
            return completion

    async def _write(self, store: CallStore, key: str, name: str, request: ChatRequest, completion: Completion) -> None:
        sent = request.in_form(bound=bool(completion.bound))
        if request.bound is not None and not completion.bound:
            key = call_key(name, sent)
        await store.write(key, billed_as(name, completion.tier), sent, completion, payer=self.payer)


class PipelineModel:
    """A model whose calls go through a pipeline."""

    def __init__(self, pipeline: CallPipeline, model: ChatModel, *, is_service: bool) -> None:
        self.name = model.name
        self.takes_schemas = takes_schemas(model)
        self._pipeline, self._model, self._is_service = pipeline, model, is_service

    async def complete(self, request: ChatRequest) -> Completion:
        """See :meth:`CallPipeline.call`."""
        return await self._pipeline.call(self._model, request, is_service=self._is_service)
