"""The one way from a debate to a model: call store, prefix leader, limit, retries, meter, call store."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from madke.core.chat import ChatModel, ChatRequest, Completion, retry_seed, takes_schemas
from madke.core.errors import CallError
from madke.engine.parse.reply import TRUNCATED, with_empty_outcome
from madke.models.limiter import Limits
from madke.models.prices import billed_as
from madke.models.store import CallStore, call_key


class CallMeter(Protocol):
    """Counts the calls that reach a model, and their retries."""

    def count(self, model: str, completion: Completion, *, service: bool = False) -> None:
        """Count a finished call. A ``service`` is a search or a scorer."""

    def count_retry(self) -> None:
        """Count an attempt that is followed by another one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """Limits on the attempts of a call.

    The n-th wait is ``min(first_wait * 2**(n-1), longest_wait)``, minus a random part of up to half of it. A server's
    Retry-After is a lower bound; up to ``first_wait`` is added, so that waiting clients do not return all at once.
    """

    attempts: int = 6
    """Maximum number of requests, including the first."""
    rejections: int = 12
    """The same for a server that rejects calls as too many (429, 503), which costs nothing: it may count by the minute,
    so the call goes on for at least 90 seconds of waiting."""
    timeouts: int = 3
    """Maximum number of requests that time out, since the provider may charge for them. The second and the third meet
    a server that gets fewer calls at a time."""
    empties: int = 3
    """Maximum number of further requests after empty replies."""
    only_reasoning: int = 1
    """The same if one of them held hidden reasoning: the server is probably set up to take answers for reasoning."""
    total_wait: float = 120.0
    """Maximum sum of the waits of one call, in seconds. A wait beyond it is not started."""
    first_wait: float = 1.0
    longest_wait: float = 30.0

    def wait(self, attempt: int, retry_after: float | None, draw: float) -> float:
        """Seconds before the next request; ``draw`` is from [0, 1)."""
        backoff = min(self.first_wait * 2.0 ** min(attempt - 1, 60), self.longest_wait) * (1 - draw / 2)
        return backoff if retry_after is None else max(backoff, retry_after + draw * self.first_wait)


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
    retries: RetryPolicy = RetryPolicy()
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
        if (known := await self._stored_completion(key, model.name, request)) is not None:
            return known
        with self._in_flight(key) as result:
            if is_service:
                async with self.limits.services.slot(request.purpose.question):
                    with self.sending():
                        completion = await model.complete(request)
            else:
                completion = await self._send(model, request)
            self.note_model(model)
            if self.meter is not None:
                self.meter.count(model.name, completion, service=is_service)
            if self.store is not None:
                sent = request.in_form(bound=bool(completion.bound))
                if sent.bound is None and request.bound is not None:
                    key = call_key(model.name, sent)
                name = billed_as(model.name, completion.tier)
                await self.store.write(key, name, sent, completion, payer=self.payer)
            result.set_result(completion)
            return completion

    async def _stored_completion(self, key: str, name: str, request: ChatRequest) -> Completion | None:
        """The completion that the store has, or that an equal call in flight gets; None if the call must be made."""
        if self.store is None:
            return None
        while True:
            stored = self.store.find(key, payer=self.payer, only_ok=not self.replay)
            if stored is None and request.bound is not None:
                free = call_key(name, request.in_form(bound=False))
                stored = self.store.find(free, payer=self.payer, only_ok=not self.replay)
                # Another run's free call does not answer: that run may not have wanted a schema.
                stored = stored if stored is not None and (stored.paid or stored.bound is not None) else None
            if stored is not None:
                return stored
            if self.replay:
                return Completion(outcome="failed", error="not in the call store", attempts=0, paid=False)
            if key not in self.store.in_flight:
                return None
            equal = self.store.in_flight[key]
            await asyncio.wait([equal])
            if not equal.cancelled():
                return replace(equal.result(), paid=False)

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

    async def _send(self, model: ChatModel, request: ChatRequest) -> Completion:
        """Attempts until one succeeds or the policy ends them; a call that waits for the next one holds no slot.

        An empty reply is followed at once by a request with another seed, unless it was cut off at ``max_tokens``. All
        of them are one logical call: its completion has their summed usage and seconds.
        """
        policy, current = self.retries, request
        attempts = timeouts = empties = 0
        waited, spent = 0.0, Completion()
        while True:
            wait: float | None = None
            try:
                reply = with_empty_outcome(await self._attempt(model, current), request.max_tokens)
            except CallError as failure:
                attempts += 1
                timeouts += failure.timed_out
                reason = failure.reason
                most = policy.rejections if failure.overloaded else policy.attempts
                if failure.retryable and attempts < most and timeouts < policy.timeouts:
                    wait = policy.wait(attempts, failure.retry_after, self.draw())
                    if waited + wait > policy.total_wait:
                        named = failure.retry_after is not None and failure.retry_after > policy.total_wait
                        too_long = f"a further wait of {wait:.0f} s exceeds the limit"
                        quota = f"the server asks to wait longer than {policy.total_wait:g} s; a used-up quota?"
                        reason += f" ({quota if named else too_long})"
                        wait = None
                if wait is None:
                    failed = Completion(outcome="failed", error=reason, finish_reason="error")
                    return replace(failed, attempts=attempts, usage=spent.usage, seconds=spent.seconds)
                waited += wait
            else:
                attempts += reply.attempts
                usage, seconds = spent.usage + reply.usage, spent.seconds + reply.seconds
                reply = replace(reply, attempts=attempts, usage=usage, seconds=seconds)
                empty = reply.outcome == "empty" and reply.finish_reason.casefold() not in TRUNCATED
                most = policy.only_reasoning if reply.reasoning else policy.empties
                if not empty or empties >= most or attempts >= policy.attempts:
                    return reply
                spent, empties, wait = reply, empties + 1, 0.0
                current = replace(request, seed=retry_seed(request.seed, attempts + 1))
            if self.meter is not None:
                self.meter.count_retry()
            if wait:
                await self.sleep(wait)

    async def _attempt(self, model: ChatModel, request: ChatRequest) -> Completion:
        """One attempt, after a sibling with the same beginning and within the limits of the model's endpoint."""
        limiter, siblings = self.limits.of(model), self.limits.prefixes_of(model)
        async with siblings.call(request) if siblings is not None else nullcontext() as sibling:
            async with limiter.slot(request.purpose.question):
                try:
                    with self.sending():
                        completion = await model.complete(request if sibling is None else sibling.mark_sent())
                except CallError as failure:
                    if failure.overloaded or failure.timed_out:
                        limiter.on_rejection(failure)
                    raise
                limiter.spend(completion.usage.prompt_tokens + completion.usage.completion_tokens)
            if siblings is not None and sibling is not None:
                siblings.note_reply(sibling, completion)
            return completion


class PipelineModel:
    """A model whose calls go through a pipeline."""

    def __init__(self, pipeline: CallPipeline, model: ChatModel, *, is_service: bool) -> None:
        self.name = model.name
        self.takes_schemas = takes_schemas(model)
        self._pipeline, self._model, self._is_service = pipeline, model, is_service

    async def complete(self, request: ChatRequest) -> Completion:
        """See :meth:`CallPipeline.call`."""
        return await self._pipeline.call(self._model, request, is_service=self._is_service)
