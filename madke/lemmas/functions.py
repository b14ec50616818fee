"""Completion functions as the engine's chat models."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from madke.adapters import ChatMessages
from madke.core.chat import ChatRequest, Completion, Purpose, Usage
from madke.llm.prices import estimated_usage

T = TypeVar("T")


class Tracer(Protocol):
    """Receives the start and end of the debate and of each completion in it."""

    def start_span(self, name: str, **attrs: Any) -> Any:
        """Start a span; the return value is passed to :meth:`end_span`."""

    def end_span(self, span: Any, **attrs: Any) -> None:
        """End a span, also after an exception."""


@contextmanager
def span(tracer: Tracer | None, name: str, **attrs: Any) -> Iterator[dict[str, Any]]:
    """Trace the block; the entries of the yielded mapping become attributes of the end of the span."""
    results: dict[str, Any] = {}
    opened = tracer.start_span(name, **attrs) if tracer is not None else None
    try:
        yield results
    finally:
        if tracer is not None:
            tracer.end_span(opened, **results)


@dataclass(slots=True)
class Caller:
    """A ChatModel over a completion function."""

    function: Callable[[ChatMessages], Any]
    ask: Ask
    tracer: Tracer | None
    span: Callable[[Purpose], tuple[str, Mapping[str, Any]]]
    """The name and attributes of the span of a call."""
    found: Callable[[str], Mapping[str, Any]]
    """Attributes of the end of the span, from the reply."""
    heard: bool = True
    """False: the engine gets an empty reply."""
    name: str = "function"
    replies: list[str] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> Completion:
        """Call the function. An empty reply is valid; an exception of the function ends the debate."""
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        call = Call(caller=self, messages=messages, purpose=request.purpose)
        reply = await self.ask(call)
        text = _text(reply)
        self.replies.append(text)
        counted = getattr(reply, "usage", None)
        usage = counted if isinstance(counted, Usage) else estimated_usage(request.messages, text)
        return Completion(text=text if self.heard else "", usage=usage, seconds=call.seconds)


@dataclass(kw_only=True, slots=True)
class Call:
    """A pending call of a completion function."""

    caller: Caller
    messages: ChatMessages
    purpose: Purpose
    seconds: float = 0.0

    def make(self) -> Any:
        """Make the call; TypeError if the function is asynchronous."""
        with self._traced() as replies:
            reply = self.caller.function(self.messages)
            if inspect.isawaitable(reply):
                if inspect.iscoroutine(reply):
                    reply.close()
                raise TypeError("debate: an agent is asynchronous; await madke.adebate(...) with it")
            replies.append(reply)
            return reply

    async def make_async(self) -> Any:
        """Make the call, and await its result if it is awaitable."""
        with self._traced() as replies:
            reply = self.caller.function(self.messages)
            replies.append(await reply if inspect.isawaitable(reply) else reply)
            return replies[0]

    @contextmanager
    def _traced(self) -> Iterator[list[Any]]:
        start, replies = time.perf_counter(), list[Any]()
        name, attrs = self.caller.span(self.purpose)
        with span(self.caller.tracer, name, **attrs) as results:
            yield replies
            results.update(self.caller.found(_text(replies[0])))
        self.seconds = time.perf_counter() - start


Ask = Callable[[Call], Awaitable[Any]]


def _text(reply: Any) -> str:
    text: str = (reply or "").strip()
    return text


def in_this_thread(play: Callable[[Ask], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine, and make its calls in this thread, one after another.

    The coroutine runs in an event loop in another thread. This works inside a running loop (a notebook), and the
    completion functions may use thread-local objects of the caller, run their own loop, and be interrupted. An
    exception of a function ends the coroutine and is raised unchanged.
    """
    asked: SimpleQueue[tuple[Call, asyncio.Future[Any]] | None] = SimpleQueue()

    async def ask(call: Call) -> Any:
        answer = loop.create_future()
        asked.put((call, answer))
        return await answer

    with closing(asyncio.new_event_loop()) as loop, ThreadPoolExecutor(1, "madke-debate") as other:
        task = loop.create_task(play(ask))
        played = other.submit(loop.run_until_complete, task)
        played.add_done_callback(lambda _: asked.put(None))
        try:
            while (item := asked.get()) is not None:
                call, answer = item
                loop.call_soon_threadsafe(answer.set_result, call.make())
            return played.result()
        except BaseException:
            loop.call_soon_threadsafe(task.cancel)
            raise
