"""What a run has done so far, for the progress line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.errors import CallError
from madke.llm import Limiter
from madke.runs.budget import Budget
from madke.runs.run_json import Session

_HOPELESS = 20
"""Calls that fail one after the other, whatever they ask, before no further question begins: a revoked key or a server
that is gone would otherwise fail every question that is left, each after all its retries."""


@dataclass(kw_only=True, slots=True)
class Meter:
    """Counters of one run, from its start in this process. Calls that a store answers are not counted."""

    total: int
    """Questions times repeats, those done before included."""
    resumed: int = 0
    """Of them, done before this process started."""
    done: int = 0
    failed: int = 0
    calls: int = 0
    failed_calls: int = 0
    too_long: int = 0
    """Prompts that a model found too long: a failure, or the reason for a shorter one, as the protocol says."""
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """Of the calls of models that have a price."""
    budget: Budget | None = None
    """What the calls draw on; None where nothing is paid (a replay)."""
    limiter: Limiter | None = None
    """What the calls wait for, where they are asked from this process."""
    left_over: int = 0
    """Questions that did not begin, or did not end, since the run was stopped."""
    ended: str = ""
    """What stopped the run from outside: ``--deadline``, or ``interrupted``."""
    in_a_row: int = 0
    """Failed calls since the last one that did not fail."""
    reason: str = ""
    """Why the last of them failed."""
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def count(self, model: str, completion: Completion) -> None:
        """Add a call that has ended."""
        if self.budget is not None:
            self.cost += self.budget.pay(model, completion.usage)
        self.calls += 1
        self.too_long += completion.outcome == "too_long"
        failed = completion.outcome not in ("ok", "too_long")
        self.failed_calls += failed
        # Only what the endpoint did: a refusal, or a filter, is about one prompt.
        self.in_a_row = self.in_a_row + 1 if completion.outcome == "failed" else 0
        self.reason = completion.error or "" if failed else self.reason
        self.prompt_tokens += completion.usage.prompt_tokens
        self.cached_tokens += completion.usage.cached_tokens
        self.completion_tokens += completion.usage.completion_tokens

    def count_retry(self, failure: CallError, wait: float) -> None:
        """Add an attempt that failed and will be repeated."""
        self.retries += 1

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens of all calls."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def stopped(self) -> str | None:
        """Why no further question may begin; None while they may."""
        if self.ended:
            return self.ended
        if self.in_a_row >= _HOPELESS:
            return f"the last {self.in_a_row} calls all failed: {self.reason}"
        return self.budget.reached if self.budget is not None else None

    @property
    def calls_per_second(self) -> float:
        """Calls that ended a second of wall time."""
        elapsed = self.clock() - self.started
        return self.calls / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the pace so far; None before the first question ended."""
        if not self.done:
            return None
        return (self.clock() - self.started) / self.done * (self.total - self.resumed - self.done)

    def session(self, started: datetime) -> Session:
        """What was counted, for ``run.json``.

        Args:
            started: When the command began.
        """
        priced = self.budget is not None and self.budget.prices
        return Session(
            started=started.isoformat(timespec="seconds"),
            seconds=round(self.clock() - self.started, 3),
            ended=self.stopped or "finished",
            questions=self.done,
            failed=self.failed,
            left_over=self.left_over,
            calls=self.calls,
            failed_calls=self.failed_calls,
            retries=self.retries,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.completion_tokens,
            cost=self.cost if priced else None,
            concurrency=asdict(self.limiter.state()) if self.limiter is not None else None,
        )

    def line(self) -> str:
        """The counters in one line of plain text."""
        left = self.seconds_left
        parts = [
            f"{self.resumed + self.done}/{self.total} questions",
            f"{self.calls_per_second:.1f} calls/s",
            f"{self.tokens:,} tokens",
            f"{self.retries} retries",
            f"{self.failed_calls} calls and {self.failed} questions failed",
        ]
        if self.limiter is not None:
            state = self.limiter.state()
            parts.insert(2, f"{state.in_flight} of {state.limit} calls at once")
        if self.budget is not None and self.budget.prices:
            parts.append(f"cost {self.budget.cost:.2f}")
        if self.too_long:
            parts.append(f"{self.too_long} prompts too long")
        return ", ".join(parts) + (f", {left:.0f} s left" if left is not None else "")


class Metered:
    """A model whose calls are counted."""

    def __init__(self, model: ChatModel, meter: Meter) -> None:
        self.name = model.name
        self._model = model
        self._meter = meter

    async def complete(self, request: ChatRequest) -> Completion:
        """Pass the request on and count what comes back."""
        completion = await self._model.complete(request)
        self._meter.count(self.name, completion)
        return completion
