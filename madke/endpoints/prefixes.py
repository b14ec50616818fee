"""Calls whose prompts begin alike: one leads, the others follow when the server has read the shared beginning.

**Why.** A debate is one pool that is read many times. A server that keeps the beginnings of prompts computes, or bills,
each of them once, but only for calls that come after it has read it. Siblings that are sent together all miss.

**Leader and followers.** A call waits if a call of the same question is being read that shares at least ``tokens`` of
its prompt, and if the server has not read that part within :data:`TIME_TO_LIVE`. It is released by the leader's
*sign*. It then goes, unless another leader has more of its prompt. A leader that fails, is cancelled, or gives no sign
for ``bound`` seconds releases its followers too, and those do not wait again. Waiting calls hold no place of the
limiter, and their time limits have not begun.

**The sign** depends on the server, so it is learned from the cached tokens that followers report:

- ``token``: the first token, as for caches of blocks (vLLM, SGLang);
- ``reply``: the whole reply;
- ``turn``: the whole reply, and one follower at a time. Slots do not share what they have read (llama.cpp).

A server on the local network is first waited for until a reply, which tells whether it is llama.cpp. After
:data:`_EVIDENCE` more misses than hits the next sign in this order is used; a hosted endpoint has no slots.

**When.** ``on`` and ``off`` are orders. ``auto`` is on for servers on the local network, and in batches for endpoints
that have reported cached tokens. It ends where followers miss with the last sign too, and where beginnings that the
server has answered before are not reported as cached.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from madke.core.chat import ChatRequest, Completion, Message, Prefix, shared_length
from madke.endpoints.endpoint import AtEndpoint

Sign = Literal["token", "reply", "turn"]

HOSTED_TOKENS, LOCAL_TOKENS = 1024, 64
"""Default of ``prefix_tokens``: what providers cache at least, and what is worth a wait on a server of one's own."""
TIME_TO_LIVE = 300.0
LOCAL_TIME_TO_LIVE = 30.0
"""Seconds after which a beginning that was not used counts as forgotten. A local server keeps few prompts. A wait that
was not needed costs little there."""
_STEP = 64
"""A wait must save at least so many tokens, and at least an eighth of ``tokens``."""
_EVIDENCE = 3
"""Misses minus hits after which the sign is taken as too early."""
_HOSTED_EVIDENCE = 8
"""The same for a hosted endpoint before ``auto`` gives up: its calls may reach other machines."""
_CHARACTERS = 4.0
"""Of a token, until the server has counted a prompt."""


@dataclass(eq=False, slots=True)
class GatedCall:
    """A call that has passed the gate."""

    request: ChatRequest
    gate: Prefixes
    followed: asyncio.Future[bool]
    """Done when followers may go: True if the server has read the prompt."""
    expected: float = 0.0
    """Tokens that it should find in the cache. 0 if it waited for no sibling."""
    sign: Sign = "token"
    """What its leader was waited for."""
    repeats: bool = False
    """Whether the server has answered a prompt with this beginning, and so could have kept it."""
    timer: asyncio.TimerHandle | None = None

    def sent(self) -> ChatRequest:
        """Note that the call is in flight; returns the request to send."""
        loop = asyncio.get_running_loop()
        self.timer = loop.call_later(self.gate.bound, self.release, False)
        if self.gate.sign != "token" or self.followed.done():
            return self.request
        return replace(self.request, on_token=lambda: self.gate.read(self))

    def release(self, read: bool) -> None:
        """Let the followers go."""
        if self.timer is not None:
            self.timer.cancel()
        if not self.followed.done():
            self.followed.set_result(read)


class Prefixes:
    """The gate before the limiter for the calls of one model at one endpoint, in one event loop.

    Args:
        model: The model at its endpoint. Its dialect says whether the server has slots.
        mode: Default for an endpoint without its own.
        interactive: Whether somebody waits for each debate: ``auto`` is then on for local servers only.
        bound: Seconds for which a leader in flight is waited for.
    """

    def __init__(
        self,
        model: AtEndpoint,
        mode: Prefix = "auto",
        *,
        interactive: bool = False,
        bound: float,
    ) -> None:
        entry, self._local = model.endpoint.entry, model.endpoint.is_local
        self._model = model
        self._mode = entry.prefix or mode
        self._interactive = interactive
        self._tokens = entry.prefix_tokens or (LOCAL_TOKENS if self._local else HOSTED_TOKENS)
        self._time_to_live = LOCAL_TIME_TO_LIVE if self._local else TIME_TO_LIVE
        self.bound = bound
        self._learned: Sign | None = None if self._local else "token"
        self._score = 0
        self._in_vain = False
        self._reports = False
        self._silent = 0
        """Calls that repeat a beginning, before any was reported as cached."""
        self._characters = _CHARACTERS
        self._in_flight: dict[str, list[GatedCall]] = {}
        """Question -> calls that are being read, or with slots: that have no reply."""
        self._read: OrderedDict[str, dict[tuple[Message, ...], tuple[float, bool]]] = OrderedDict()
        """Question -> prompts that the server has read -> when it last did, and whether it has answered them."""

    @property
    def on(self) -> bool:
        """Whether calls wait for a leader."""
        if self._mode != "auto":
            return self._mode == "on"
        return not self._in_vain and (self._local or (self._reports and not self._interactive))

    @property
    def sign(self) -> Sign:
        """What followers wait for."""
        return "turn" if self._model.dialect.slots else self._learned or "reply"

    @asynccontextmanager
    async def call(self, request: ChatRequest) -> AsyncIterator[GatedCall]:
        """Wait for a leader if there is one; the block then makes the call. Cancelling it releases its followers."""
        made = GatedCall(request, self, asyncio.get_running_loop().create_future())
        question = request.purpose.question
        while (leader := self._leader(request)) is not None:
            made.sign = self.sign
            await asyncio.wait([leader.followed])
            if not leader.followed.result():
                made.expected = 0.0
                break
            made.expected = self._known(request) / self._characters
        if not self._reports:
            made.repeats = self._known(request, answered=True) >= self._tokens * self._characters
        self._in_flight.setdefault(question, []).append(made)
        try:
            yield made
        finally:
            made.release(False)
            self._in_flight[question].remove(made)
            if not self._in_flight[question]:
                del self._in_flight[question]

    def read(self, call: GatedCall, *, answered: bool = False) -> None:
        """Note that the server has read the prompt of a call: its followers go."""
        prompts, now = self._read.setdefault(call.request.purpose.question, {}), _now()
        prompts[call.request.messages] = now, answered or prompts.get(call.request.messages, (now, False))[1]
        self._read.move_to_end(call.request.purpose.question)
        while now - max(next(iter(self._read.values())).values())[0] > self._time_to_live:
            self._read.popitem(last=False)
        call.release(True)

    def hear(self, completion: Completion) -> None:
        """Note whether the endpoint reports cached tokens, as all that is noted while the gate is off."""
        if completion.usage.cached_tokens and not self._reports:
            self._reports, self._in_vain = True, False

    def answered(self, call: GatedCall, completion: Completion) -> None:
        """Note the reply of a call, and what it shows of the server's cache."""
        usage = completion.usage
        self.hear(completion)
        if completion.outcome == "too_long":
            return
        self.read(call, answered=True)
        if self._learned is None:
            self._learned = "token"
        if completion.outcome != "ok":
            return
        if call.repeats and not self._reports:
            self._silent += 1
            if self._silent >= (_EVIDENCE if self._local else _HOSTED_EVIDENCE):
                self._give_up()
        if usage.estimated or not usage.prompt_tokens:
            return
        length = sum(len(message.content) for message in call.request.messages)
        self._characters = max(1.0, length / usage.prompt_tokens)
        if call.expected and call.sign == self.sign:
            self._judge(hit=usage.cached_tokens >= call.expected / 2)

    def _judge(self, *, hit: bool) -> None:
        """Count a hit or a miss of a follower."""
        if self._in_vain:
            return
        self._score = max(0, self._score - 1) if hit else self._score + 1
        last = self.sign == ("turn" if self._local else "reply")
        if self._score < (_EVIDENCE if self._local or not last else _HOSTED_EVIDENCE):
            return
        self._score = 0
        if not last:
            self._learned = "reply" if self.sign == "token" else "turn"
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._in_vain = True
        if not self._reports:
            self._learned = "token"  # nothing shows what this server keeps

    def _leader(self, request: ChatRequest) -> GatedCall | None:
        """The call that has most of this prompt and that it is worth to wait for; None if there is none."""
        least = self._tokens * self._characters
        known = 0.0
        if self.sign != "turn":
            known = self._known(request)
        least = max(least, known + max(_STEP, self._tokens / 8) * self._characters)
        found = None
        for call in self._in_flight.get(request.purpose.question, ()):
            if not call.followed.done() and (shared := shared_length(request.messages, call.request.messages)) >= least:
                found, least = call, shared
        return found

    def _known(self, request: ChatRequest, *, answered: bool = False) -> int:
        """Characters of the prompt's beginning that the server has read, or answered, within the time to live."""
        since, prompts = _now() - self._time_to_live, self._read.get(request.purpose.question, {})
        known = (each for each, (at, done) in prompts.items() if at >= since and (done or not answered))
        return max((shared_length(request.messages, each) for each in known), default=0)


def _now() -> float:
    return asyncio.get_running_loop().time()
