"""Repeat calls that may succeed later; make a value of those that do not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.errors import CallError


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often, and for how long, a call is tried."""

    attempts: int = 6
    """Requests at most, the first one included."""
    timeouts: int = 2
    """Requests at most that are not answered in time: what was generated until then is lost, and may be charged."""
    total_wait: float = 120.0
    """Seconds at most between all attempts of one call; a longer wait is not begun."""
    first_wait: float = 1.0
    """Seconds before the second attempt; doubled for each further one."""
    longest_wait: float = 30.0
    """Seconds at which the doubling ends."""


class Retrying:
    """A model whose retryable failures are tried again, and whose calls never raise :class:`CallError`.

    The n-th wait is ``min(first_wait * 2**(n-1), longest_wait)``, of which a random half is taken off. A server's
    Retry-After is a lower bound of it, with up to ``first_wait`` on top, so that waiting clients do not return at
    once. A call that is given up is a completion with outcome ``failed`` and the last reason. Exceptions other than
    CallError are bugs or bad input, and pass.

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
        self._on_event = on_event

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask until an attempt succeeds or the policy's bounds are reached."""
        attempt = 1
        timeouts = 0
        left = self._policy.total_wait
        while True:
            try:
                completion = await self._model.complete(request)
                return replace(completion, attempts=attempt - 1 + completion.attempts) if attempt > 1 else completion
            except CallError as error:
                failure = error
            timeouts += failure.timed_out
            if not failure.retryable or attempt >= self._policy.attempts or timeouts >= self._policy.timeouts:
                return _failed(failure.reason, attempt)
            if (asked := failure.retry_after) is not None and asked > self._policy.total_wait:
                longest = f"{self._policy.total_wait:g} s"
                return _failed(
                    f"{failure.reason} (the server asks to wait longer than {longest}; a used-up quota?)", attempt
                )
            wait = self._wait(attempt, asked)
            if wait > left:
                return _failed(f"{failure.reason} (to wait {wait:.0f} s more is beyond the limit)", attempt)
            if self._on_event:
                self._on_event(failure, wait)
            await self._sleep(wait)
            left -= wait
            attempt += 1

    def _wait(self, attempt: int, retry_after: float | None) -> float:
        policy = self._policy
        backoff = min(policy.first_wait * 2.0 ** (attempt - 1), policy.longest_wait) * (1 - self._random() / 2)
        if retry_after is None:
            return backoff
        return max(backoff, retry_after + self._random() * policy.first_wait)


def _failed(reason: str, attempts: int) -> Completion:
    return Completion(outcome="failed", error=reason, finish_reason="error", attempts=attempts)
