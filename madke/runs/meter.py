"""How much runs may use, and what a run has done so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

from madke.core.chat import ChatModel, ChatRequest, Completion, Usage
from madke.core.errors import CallError, UserError
from madke.core.events import RunProgress
from madke.engine.parse import TRUNCATED
from madke.llm import Limiter, Limits
from madke.llm.models import UNPAID, kind_of
from madke.llm.prices import Prices, cost, price_of
from madke.runs.run_json import Session

HOPELESS = 20
"""Calls of one model in a row that fail, or come back empty, before no further question begins: a revoked key or a
server that is gone would otherwise fail every question that is left, each after all its retries. With many calls at
once the bound is twice their number, since one short failure can hit all of them."""

HOPELESSLY_TRUNCATED = 3
"""Calls of one model in a row that reach ``max_tokens`` without visible text before no further question begins: it
reasons for longer than it may, and would in every question that is left."""

_COUNTED = ("failed", "calls", "failed_calls", "retries", "prompt_tokens", "cached_tokens", "completion_tokens")


@dataclass(kw_only=True, slots=True)
class Budget:
    """What may be used, and what is used; the runs of an experiment draw on one.

    No question begins once a limit is reached. Those under way are finished, so it is passed by what they use.
    """

    prices: Prices
    max_cost: float | None = None
    """In the currency of the prices; None: no limit."""
    max_tokens: int | None = None
    """Prompt and completion tokens; None: no limit."""
    cost: float = 0.0
    tokens: int = 0

    def check(self, models: Iterable[str]) -> None:
        """Refuse a limit of cost where the calls of a model have no price."""
        for name in models:
            if self.max_cost is not None and price_of(name, self.prices) is None and kind_of(name) not in UNPAID:
                known = f"holds prices for {', '.join(self.prices)}" if self.prices else "is not given"
                raise UserError(f"--max-cost needs the price of {name!r}; --prices {known}")

    def pay(self, model: str, usage: Usage) -> float:
        """Count a call, or the sum of several, that a model made; what it cost, 0 without a price."""
        price = price_of(model, self.prices)
        charged = cost(usage, price) if price else 0.0
        self.tokens += usage.prompt_tokens + usage.completion_tokens
        self.cost += charged
        return charged

    @property
    def reached(self) -> str | None:
        """The limit that is reached, as its option is called; None while more may begin."""
        if self.max_cost is not None and self.cost >= self.max_cost:
            return "--max-cost"
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return "--token-budget"
        return None


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
    truncated_in_a_row: dict[str, int] = field(default_factory=dict)
    """Model -> calls cut off without text since the last one that was not."""
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def count(self, model: str, completion: Completion, *, service: bool = False) -> None:
        """Add a call that has ended. A ``service`` is a search, or an answer scorer: debates go on without them."""
        if self.budget is not None:
            self.cost += self.budget.pay(model, completion.usage)
        self.calls += 1
        self.too_long += completion.outcome == "too_long"
        failed = completion.outcome not in ("ok", "too_long")
        self.failed_calls += failed
        # Only what the endpoint did counts: a refusal or a filter is about one prompt.
        row = self.in_a_row.get(model, 0) + 1 if completion.outcome in ("failed", "empty") else 0
        self.in_a_row[model] = row
        cut = completion.outcome == "empty" and completion.finish_reason.casefold() in TRUNCATED
        cuts = self.truncated_in_a_row[model] = self.truncated_in_a_row.get(model, 0) + 1 if cut else 0
        if (row >= self.hopeless or cuts >= HOPELESSLY_TRUNCATED) and not service and not self.ended:
            self.ended = f"the last {cuts or row} calls of {model} all failed: {completion.error}"
        self.prompt_tokens += completion.usage.prompt_tokens
        self.cached_tokens += completion.usage.cached_tokens
        self.completion_tokens += completion.usage.completion_tokens

    def count_retry(self, failure: CallError, wait: float) -> None:
        """Add an attempt that failed and will be repeated."""
        self.retries += 1

    @property
    def stopped(self) -> str | None:
        """Why no further question may begin; None while they may."""
        return self.ended or (self.budget.reached if self.budget is not None else None)

    def _counts(self) -> dict[str, Any]:
        """What :class:`madke.core.events.RunProgress` and :class:`madke.runs.run_json.Session` both say."""
        return {name: getattr(self, name) for name in _COUNTED}

    def progress(self) -> RunProgress:
        """What was counted so far, for listeners."""
        return RunProgress(
            at=self.clock() - self.started,
            done=self.done,
            total=self.total,
            resumed=self.resumed,
            too_long=self.too_long,
            cost=self.budget.cost if self.budget is not None and self.budget.prices else None,
            in_flight=self.limiter.state().in_flight if self.limiter is not None else 0,
            **self._counts(),
        )

    def session(self) -> Session:
        """What was counted, for ``run.json``."""
        priced = self.budget is not None and self.budget.prices
        return Session(
            seconds=round(self.clock() - self.started, 3),
            ended=(self.stopped if self.left_over else self.ended) or "finished",
            questions=self.done,
            left_over=self.left_over,
            cost=self.cost if priced else None,
            concurrency=asdict(self.limiter.state()) if self.limiter is not None else None,
            **self._counts(),
        )


class Metered:
    """A model whose calls are counted; ``service`` as in :meth:`Meter.count`."""

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


MeterDisplay = Callable[[Meter], AbstractAsyncContextManager[None]]
"""Shows a meter while calls go on."""
