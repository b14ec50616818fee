"""What a run has done so far, for the progress line."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.errors import CallError
from madke.engine.parse import CUT
from madke.llm import Limiter, Limits
from madke.runs.budget import Budget
from madke.runs.run_json import Session

HOPELESS = 20
"""Calls of one model in a row that fail, or come back empty, before no further question begins: a revoked key or a
server that is gone would otherwise fail every question that is left, each after all its retries. With many calls at
once the bound is twice their number, since one short failure can hit all of them."""

HOPELESSLY_CUT = 3
"""Calls of one model in a row that reach ``max_tokens`` without visible text before no further question begins: it
reasons for longer than it may, and would in every question that is left."""


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
    limiter: Limits | Limiter | None = None
    """What the calls wait for."""
    left_over: int = 0
    """Questions that did not begin, or did not end, since the run was stopped."""
    ended: str = ""
    """What stopped the run: ``--deadline``, ``interrupted``, an error, or a model all of whose calls fail."""
    hopeless: int = HOPELESS
    """Failed calls of one model in a row after which it is stopped."""
    in_a_row: dict[str, int] = field(default_factory=dict)
    """Model -> failed calls since the last one that did not fail."""
    cut_in_a_row: dict[str, int] = field(default_factory=dict)
    """Model -> calls cut off without text since the last one that was not."""
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def count(self, model: str, completion: Completion, *, service: bool = False) -> None:
        """Add a call that has ended.

        Args:
            model: The model's own name.
            completion: What came back.
            service: It is a search, or an estimator: debates go on without them.
        """
        if self.budget is not None:
            self.cost += self.budget.pay(model, completion.usage)
        self.calls += 1
        self.too_long += completion.outcome == "too_long"
        failed = completion.outcome not in ("ok", "too_long")
        self.failed_calls += failed
        # Only what the endpoint did counts: a refusal or a filter is about one prompt.
        row = self.in_a_row.get(model, 0) + 1 if completion.outcome in ("failed", "empty") else 0
        self.in_a_row[model] = row
        cut = completion.outcome == "empty" and completion.finish_reason.casefold() in CUT
        cuts = self.cut_in_a_row[model] = self.cut_in_a_row.get(model, 0) + 1 if cut else 0
        if (row >= self.hopeless or cuts >= HOPELESSLY_CUT) and not service and not self.ended:
            self.ended = f"the last {cuts or row} calls of {model} all failed: {completion.error}"
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
        return self.ended or (self.budget.reached if self.budget is not None else None)

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

    def session(self) -> Session:
        """What was counted, for ``run.json``."""
        priced = self.budget is not None and self.budget.prices
        return Session(
            seconds=round(self.clock() - self.started, 3),
            ended=(self.stopped if self.left_over else self.ended) or "finished",
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
            parts.append(f"cost {self.budget.cost:.4g}")
        if self.too_long:
            parts.append(f"{self.too_long} prompts too long")
        return ", ".join(parts) + (f", {left:.0f} s left" if left is not None else "")


class Metered:
    """A model whose calls are counted.

    Args:
        model: Who is asked.
        meter: Where they are counted.
        service: See :meth:`Meter.count`.
    """

    def __init__(self, model: ChatModel, meter: Meter, *, service: bool = False) -> None:
        self.name = model.name
        self._model = model
        self._meter = meter
        self._service = service

    async def complete(self, request: ChatRequest) -> Completion:
        """Pass the request on and count what comes back."""
        completion = await self._model.complete(request)
        self._meter.count(self.name, completion, service=self._service)
        return completion


Watch = Callable[[Meter], AbstractAsyncContextManager[None]]
"""Shows a meter while calls go on."""
