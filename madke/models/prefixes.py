"""Calls whose prompts begin alike: one leads, the others follow when the server has read the shared beginning.

A debate is one pool that is read many times. A server that keeps the beginnings of prompts computes, or bills, each of
them once, but only for calls that come after it has read it. Siblings that are sent together all miss.

A call waits if a call of the same question is being read that shares at least ``tokens`` of its prompt, and if the
server has not read that part within the time to live. It goes when the leader's first token arrives. It waits for the
leader's reply at a server with slots, which do not share what they have read (llama.cpp), at one whose followers miss
the cache, and at a local server that is not known yet. A leader that fails, is cancelled or gives no sign for ``bound``
seconds releases its followers too. Waiting calls hold no slot of the limiter, and their time limits have not begun.

``on`` and ``off`` are orders. ``auto`` is on for servers on the local network, and in batches for endpoints that have
reported cached tokens; it ends where followers keep missing the cache.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from madke.core.chat import ChatRequest, Completion, Message, shared_length
from madke.models.endpoint import AtEndpoint

HOSTED_TOKENS, LOCAL_TOKENS = 1024, 64
"""Default of ``prefix_tokens``: what providers cache at least, and what is worth a wait on a server of one's own."""
HOSTED_SECONDS, LOCAL_SECONDS = 300.0, 30.0
"""Time after which a beginning that was not used counts as forgotten. A local server keeps few prompts."""
MIN_SAVED_TOKENS = 64
"""A wait must save at least so many tokens, and at least an eighth of ``tokens``."""
MAX_MISSES = 6
"""More misses than hits of followers after which they wait for the reply, and after which ``auto`` gives up then."""
CHARACTERS_PER_TOKEN = 4.0
"""Until the server has counted a prompt."""


@dataclass(eq=False, slots=True)
class PrefixedCall:
    """A call that may lead others."""

    request: ChatRequest
    gate: Prefixes
    is_read: asyncio.Future[bool]
    """Done when followers may go: True if the server has read the prompt."""
    expected: float = 0.0
    """Tokens that it should find in the cache; 0 if it waited for no sibling."""
    timer: asyncio.TimerHandle | None = None

    def mark_sent(self) -> ChatRequest:
        """Note that the call is in flight; returns the request to send."""
        self.timer = asyncio.get_running_loop().call_later(self.gate.bound, self.release, False)
        if not self.gate.on or self.gate.waits_for_reply or self.is_read.done():
            return self.request
        return replace(self.request, on_token=lambda: self.gate.note_read(self))

    def release(self, read: bool) -> None:
        """Let the followers go."""
        if self.timer is not None:
            self.timer.cancel()
        if not self.is_read.done():
            self.is_read.set_result(read)


class Prefixes:
    """The calls of one model at one endpoint, in one event loop, before they reach the limiter.

    Args:
        model: The model at its endpoint. Its dialect says whether the server has slots.
        interactive: Whether somebody waits for each debate: ``auto`` is then on for local servers only.
        bound: Seconds for which a leader in flight is waited for.
    """

    def __init__(self, model: AtEndpoint, *, interactive: bool = False, bound: float) -> None:
        entry, self._is_local = model.endpoint.entry, model.endpoint.is_local
        self._model = model
        self._mode = entry.prefix or "auto"
        self._interactive = interactive
        self._tokens = entry.prefix_tokens or (LOCAL_TOKENS if self._is_local else HOSTED_TOKENS)
        self._seconds = LOCAL_SECONDS if self._is_local else HOSTED_SECONDS
        self.bound = bound
        self._is_known = not self._is_local
        self._reads_late = self._reports_cache = False  # whether it keeps a prompt only once it has answered it
        self._misses = 0
        self._characters = CHARACTERS_PER_TOKEN
        self._in_flight: dict[str, list[PrefixedCall]] = {}
        """Question -> its calls in flight."""
        self._read: OrderedDict[str, dict[tuple[Message, ...], float]] = OrderedDict()
        """Question -> prompts that the server has read -> when it last did."""

    @property
    def on(self) -> bool:
        """Whether calls wait for a leader."""
        if self._mode != "auto":
            return self._mode == "on"
        return self._misses < MAX_MISSES and (self._is_local or (self._reports_cache and not self._interactive))

    @property
    def waits_for_reply(self) -> bool:
        """Whether followers wait for the leader's whole reply rather than for its first token."""
        return self._reads_late or self._model.dialect.slots or not self._is_known

    @asynccontextmanager
    async def call(self, request: ChatRequest) -> AsyncIterator[PrefixedCall]:
        """Wait for a leader if there is one; the block then makes the call. Cancelling it releases its followers."""
        call = PrefixedCall(request, self, asyncio.get_running_loop().create_future())
        while self.on and (leader := self._leader(request)) is not None:
            await asyncio.wait([leader.is_read])
            if not leader.is_read.result():
                call.expected = 0.0
                break
            call.expected = self._warm_characters(request) / self._characters
        siblings = self._in_flight.setdefault(request.purpose.question, [])
        siblings.append(call)
        try:
            yield call
        finally:
            call.release(False)
            siblings.remove(call)
            if not siblings:
                self._in_flight.pop(request.purpose.question, None)

    def note_read(self, call: PrefixedCall) -> None:
        """Note that the server has read the prompt of a call: its followers go."""
        question, now = call.request.purpose.question, asyncio.get_running_loop().time()
        self._read.setdefault(question, {})[call.request.messages] = now
        self._read.move_to_end(question)
        while now - max(next(iter(self._read.values())).values()) > self._seconds:
            self._read.popitem(last=False)
        call.release(True)

    def note_reply(self, call: PrefixedCall, completion: Completion) -> None:
        """Note the reply of a call, and what it shows of the server's cache."""
        usage = completion.usage
        if completion.outcome == "too_long":
            return
        self.note_read(call)
        self._is_known = True
        if usage.cached_tokens and not self._reports_cache:
            self._reports_cache, self._misses = True, 0
        if completion.outcome == "ok" and not usage.estimated and usage.prompt_tokens:
            length = sum(len(message.content) for message in call.request.messages)
            self._characters = max(1.0, length / usage.prompt_tokens)
        if completion.outcome == "ok" and call.expected:
            hit = usage.cached_tokens >= call.expected / 2
            self._misses = max(0, self._misses - 1) if hit else self._misses + 1
            if self._misses >= MAX_MISSES and not self.waits_for_reply:
                self._reads_late, self._misses = True, 0

    def _leader(self, request: ChatRequest) -> PrefixedCall | None:
        """The call that has most of this prompt and that it is worth to wait for; None if there is none."""
        # Slots do not share what they have read: siblings go one after the other.
        known = 0 if self._model.dialect.slots else self._warm_characters(request)
        least = self._characters * self._tokens
        least = max(least, known + max(MIN_SAVED_TOKENS, self._tokens / 8) * self._characters)
        leader = None
        for call in self._in_flight.get(request.purpose.question, ()):
            shared = 0 if call.is_read.done() else shared_length(request.messages, call.request.messages)
            if shared >= least:
                leader, least = call, shared
        return leader

    def _warm_characters(self, request: ChatRequest) -> int:
        """Characters of the prompt's beginning that the server has read within the time to live."""
        since = asyncio.get_running_loop().time() - self._seconds
        known = (each for each, at in self._read.get(request.purpose.question, {}).items() if at >= since)
        return max((shared_length(request.messages, each) for each in known), default=0)
