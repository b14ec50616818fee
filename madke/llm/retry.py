"""Repeat calls that may succeed later; make a value of those that do not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from madke.core.chat import ChatModel, ChatRequest, Completion, retry_seed
from madke.core.errors import CallError
from madke.engine.parse import TRUNCATED, checked
from madke.llm.human import SILENCE
from madke.llm.prices import added

_NOT_AGAIN = TRUNCATED | {SILENCE}
"""Finish reasons of replies without text that are not asked for again: the next one would cost and end the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often and for how long a call is tried."""

    attempts: int = 6
    """Requests at most, the first one included."""
    timeouts: int = 2
    """Requests at most that are not answered in time: they may be charged."""
    empties: int = 3
    """Further requests at most after replies without text."""
    total_wait: float = 120.0
    """Seconds at most between all attempts of one call; a longer wait is not begun."""
    first_wait: float = 1.0
    longest_wait: float = 30.0


class Retrying:
    """A model whose retryable failures are tried again, and whose calls never raise :class:`CallError`.

    The n-th wait is ``min(first_wait * 2**(n-1), longest_wait)``, less a random part of up to half of it. A server's
    Retry-After is a lower bound, with up to ``first_wait`` on top, so that waiting clients do not return all at once.
    A call that is given up is a completion with outcome ``failed`` and the last reason.

    A reply without text is asked for again at once, with another seed, unless it was cut off at ``max_tokens``. It is
    the same logical call: usage and seconds are those of all replies.

    Args:
        model: Who is asked; it raises CallError for a failed attempt.
        policy: The bounds.
        sleep: Waits for so many seconds.
        random: Draws from [0, 1).
        on_event: Told of each failure that is about to be retried, and of the seconds until then.
    """

    def __init__(
        self,
        model: ChatModel,
        policy: RetryPolicy = RetryPolicy(),
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
        on_event: Callable[[CallError, float], None] | None = None,
    ) -> None:
        self.name = model.name
        self._model = model
        self._policy = policy
        self._sleep = sleep
        self._random = random
        self._on_event = on_event or (lambda failure, wait: None)

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask until an attempt succeeds or the policy's bounds are reached."""
        policy, asked = self._policy, request
        attempts = timeouts = empties = 0
        left = policy.total_wait
        spent: Completion | None = None  # the replies without text so far, added up
        while True:
            try:
                said = checked(await self._model.complete(asked), request.max_tokens)
            except CallError as failure:
                attempts += 1
                timeouts += failure.timed_out
                reason, wait = failure.reason, self._wait(attempts, failure.retry_after)
                if failure.retryable and attempts < policy.attempts and timeouts < policy.timeouts:
                    if wait <= left:
                        self._on_event(failure, wait)
                        await self._sleep(wait)
                        left -= wait
                        continue
                    used_up = failure.retry_after is not None and failure.retry_after > policy.total_wait
                    longer = f"the server asks to wait longer than {policy.total_wait:g} s; a used-up quota?"
                    reason += f" ({longer if used_up else f'to wait {wait:.0f} s more is beyond the limit'})"
                failed = Completion(outcome="failed", error=reason, finish_reason="error", attempts=attempts)
                return _together(spent, failed)
            attempts += said.attempts
            said = _together(spent, replace(said, attempts=attempts))
            again = said.outcome == "empty" and said.finish_reason.casefold() not in _NOT_AGAIN
            if not again or empties >= policy.empties or attempts >= policy.attempts:
                return said
            spent = said
            empties += 1
            asked = replace(request, seed=retry_seed(request.seed, attempts + 1))
            self._on_event(CallError(said.error or said.outcome, retryable=True), 0.0)

    def _wait(self, attempt: int, retry_after: float | None) -> float:
        policy = self._policy
        backoff = min(policy.first_wait * 2.0 ** (attempt - 1), policy.longest_wait) * (1 - self._random() / 2)
        if retry_after is None:
            return backoff
        return max(backoff, retry_after + self._random() * policy.first_wait)


def _together(spent: Completion | None, last: Completion) -> Completion:
    """The last reply of a call, with the usage and the seconds of those before it."""
    if spent is None:
        return last
    return replace(last, usage=added(spent.usage, last.usage), seconds=spent.seconds + last.seconds)
