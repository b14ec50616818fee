"""Retry failed calls. A call that fails for good becomes a completion, not an exception."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from madke.core.chat import ChatModel, ChatRequest, Completion, retry_seed, takes_schemas
from madke.core.errors import CallError
from madke.engine.parse import TRUNCATED, checked


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """Limits on the attempts of a call."""

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
    tier_wait: float = 900.0
    """The same for a service tier that has no resources. These attempts cost nothing and are not among ``attempts``."""
    first_wait: float = 1.0
    longest_wait: float = 30.0


class Retrying:
    """A model that retries failures, and whose calls never raise :class:`CallError`.

    The n-th wait is ``min(first_wait * 2**(n-1), longest_wait)``, minus a random part of up to half of it. A server's
    Retry-After is a lower bound; up to ``first_wait`` is added, so that waiting clients do not return all at once.
    A call that fails for good is a completion with outcome ``failed`` and the last reason. A service tier that has no
    resources is asked again for up to ``tier_wait`` seconds.

    An empty reply is retried at once with another seed, unless it was cut off at ``max_tokens``; one that holds only
    hidden reasoning is retried once. The retry belongs to
    the same logical call: usage and seconds are summed over all replies.

    ``random`` draws from [0, 1). ``on_event`` gets the failure and the wait in seconds before each retry.
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
        self.takes_schemas = takes_schemas(model)
        self._model = model
        self._policy = policy
        self._sleep = sleep
        self._random = random
        self._on_event = on_event or (lambda failure, wait: None)

    async def complete(self, request: ChatRequest) -> Completion:
        """Call the model until an attempt succeeds or the policy ends the retries."""
        policy, current = self._policy, request
        attempts = timeouts = empties = unavailable = 0
        waited = {True: 0.0, False: 0.0}  # for a tier's resources, and for all other reasons
        spent: Completion | None = None  # the empty replies so far, summed
        while True:
            try:
                reply = checked(await self._model.complete(current), request.max_tokens)
            except CallError as failure:
                attempts += 1
                timeouts += failure.timed_out
                unavailable += failure.unavailable
                counted = unavailable if failure.unavailable else attempts - unavailable
                most = policy.rejections if failure.overloaded else policy.attempts
                reason, wait = failure.reason, self._wait(counted, failure.retry_after)
                total = policy.tier_wait if failure.unavailable else policy.total_wait
                again = failure.retryable and (failure.unavailable or counted < most)
                if again and timeouts < policy.timeouts:
                    if waited[failure.unavailable] + wait <= total:
                        self._on_event(failure, wait)
                        await self._sleep(wait)
                        waited[failure.unavailable] += wait
                        continue
                    used_up = failure.retry_after is not None and failure.retry_after > total
                    longer = f"the server asks to wait longer than {total:g} s; a used-up quota?"
                    reason += f" ({longer if used_up else f'a further wait of {wait:.0f} s exceeds the limit'})"
                failed = Completion(outcome="failed", error=reason, finish_reason="error", attempts=attempts)
                return _summed(spent, failed)
            attempts += reply.attempts
            reply = _summed(spent, replace(reply, attempts=attempts))
            again = reply.outcome == "empty" and reply.finish_reason.casefold() not in TRUNCATED
            most = policy.only_reasoning if reply.reasoning else policy.empties
            if not again or empties >= most or attempts - unavailable >= policy.attempts:
                return reply
            spent = reply
            empties += 1
            current = replace(request, seed=retry_seed(request.seed, attempts + 1))
            self._on_event(CallError(reply.error or reply.outcome, retryable=True), 0.0)

    def _wait(self, attempt: int, retry_after: float | None) -> float:
        first = self._policy.first_wait
        backoff = min(first * 2.0 ** min(attempt - 1, 60), self._policy.longest_wait) * (1 - self._random() / 2)
        return backoff if retry_after is None else max(backoff, retry_after + self._random() * first)


def _summed(spent: Completion | None, last: Completion) -> Completion:
    """The last reply of a call, with usage and seconds of the earlier ones added."""
    if spent is None:
        return last
    # Replies of two tiers are billed as standard ones, never too low.
    tier = spent.tier if last.outcome == "failed" or last.tier == spent.tier else ""
    return replace(last, usage=spent.usage + last.usage, seconds=spent.seconds + last.seconds, tier=tier)
