"""Which failed attempts of a call are followed by another one, and after which wait."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from madke.core.chat import ChatRequest, Completion, retry_seed
from madke.core.errors import CallError
from madke.engine.parse import TRUNCATED


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
    tier_wait: float = 900.0
    """The same for a service tier that has no resources. These attempts cost nothing and are not among ``attempts``."""
    first_wait: float = 1.0
    longest_wait: float = 30.0

    def wait(self, attempt: int, retry_after: float | None, draw: float) -> float:
        """Seconds before the next request; ``draw`` is from [0, 1)."""
        backoff = min(self.first_wait * 2.0 ** min(attempt - 1, 60), self.longest_wait) * (1 - draw / 2)
        return backoff if retry_after is None else max(backoff, retry_after + draw * self.first_wait)


DEFAULT_RETRIES = RetryPolicy()


class Attempts:
    """The attempts of one call so far.

    An empty reply is followed at once by a request with another seed, unless the reply was cut off at ``max_tokens``.
    All of them are one logical call: its completion has their summed usage and seconds.

    Attributes:
        current: The request of the next attempt.
    """

    def __init__(self, request: ChatRequest, policy: RetryPolicy, draw: Callable[[], float] = random.random) -> None:
        self.current = request
        self._request, self._policy, self._draw = request, policy, draw
        self._attempts = self._timeouts = self._empties = self._unavailable = 0
        self._waited = {True: 0.0, False: 0.0}  # for a tier's resources, and for all other reasons
        self._spent: Completion | None = None
        """The empty replies so far, summed."""

    def after_failure(self, failure: CallError) -> float | Completion:
        """Seconds before the next attempt, or the completion of a call that failed for good."""
        policy = self._policy
        self._attempts += 1
        self._timeouts += failure.timed_out
        self._unavailable += failure.unavailable
        counted = self._unavailable if failure.unavailable else self._attempts - self._unavailable
        most = policy.rejections if failure.overloaded else policy.attempts
        reason = failure.reason
        if failure.retryable and (failure.unavailable or counted < most) and self._timeouts < policy.timeouts:
            total = policy.tier_wait if failure.unavailable else policy.total_wait
            wait = policy.wait(counted, failure.retry_after, self._draw())
            if self._waited[failure.unavailable] + wait <= total:
                self._waited[failure.unavailable] += wait
                return wait
            if failure.retry_after is not None and failure.retry_after > total:
                reason += f" (the server asks to wait longer than {total:g} s; a used-up quota?)"
            else:
                reason += f" (a further wait of {wait:.0f} s exceeds the limit)"
        failed = Completion(outcome="failed", error=reason, finish_reason="error", attempts=self._attempts)
        return self._summed(failed)

    def after_reply(self, reply: Completion) -> float | Completion:
        """The completion of the call; 0 seconds if an empty reply is followed by another attempt."""
        self._attempts += reply.attempts
        reply = self._summed(replace(reply, attempts=self._attempts))
        empty = reply.outcome == "empty" and reply.finish_reason.casefold() not in TRUNCATED
        most = self._policy.only_reasoning if reply.reasoning else self._policy.empties
        if not empty or self._empties >= most or self._attempts - self._unavailable >= self._policy.attempts:
            return reply
        self._spent = reply
        self._empties += 1
        self.current = replace(self._request, seed=retry_seed(self._request.seed, self._attempts + 1))
        return 0.0

    def _summed(self, last: Completion) -> Completion:
        """The last reply, with usage and seconds of the earlier ones added."""
        spent = self._spent
        if spent is None:
            return last
        # Replies of two tiers are billed as standard ones, never too low.
        tier = spent.tier if last.outcome == "failed" or last.tier == spent.tier else ""
        return replace(last, usage=spent.usage + last.usage, seconds=spent.seconds + last.seconds, tier=tier)
