"""What a run has done so far, for the progress line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.errors import CallError
from madke.runs.budget import Budget


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
    tokens: int = 0
    """Prompt and completion tokens of all calls."""
    budget: Budget | None = None
    """What the calls are paid from, where there is a price."""
    left_over: int = 0
    """Questions that the budget kept from beginning."""
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def count(self, model: str, completion: Completion) -> None:
        """Add a call that has ended."""
        if self.budget is not None:
            self.budget.pay(model, completion.usage)
        self.calls += 1
        self.too_long += completion.outcome == "too_long"
        self.failed_calls += completion.outcome not in ("ok", "too_long")
        self.tokens += completion.usage.prompt_tokens + completion.usage.completion_tokens

    def count_retry(self, failure: CallError, wait: float) -> None:
        """Add an attempt that failed and will be repeated."""
        self.retries += 1

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
        if self.budget is not None and self.budget.prices:
            parts.append(f"cost {self.budget.spent:.2f}")
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
