"""Limits on the cost of runs, and counters of a run."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from madke.core.chat import Completion, Usage
from madke.core.errors import UserError
from madke.core.events import Listener, RunProgress
from madke.engine.parse.reply import TRUNCATED
from madke.models.endpoint import read_models, shipped_prices
from madke.models.limiter import Limits
from madke.models.model_names import model_kind
from madke.models.prices import BATCH, SHIPPED, Prices, billed_as, cost, price_of, read_prices
from madke.models.store import CallStore
from madke.runs.request import RunOptions

MAX_FAILED_IN_A_ROW = 20
"""Number of consecutive failed or empty calls of one model after which no further question starts. A revoked key or an
unreachable server would otherwise fail every remaining question, each after all its retries. With high concurrency the
limit is twice the concurrency, since one short outage can fail all calls in flight."""

MAX_TRUNCATED_IN_A_ROW = 3
"""The same for calls that reach ``max_tokens`` without visible text: reasoning that exceeds the limit always will."""

_PROGRESS_SECONDS = 0.5

_COUNTED = ("failed", "calls", "failed_calls", "retries", "prompt_tokens", "cached_tokens", "completion_tokens")


@dataclass(kw_only=True, slots=True)
class Budget:
    """Limits of cost, tokens and time, and the amounts used. The runs of an experiment share one budget.

    No question starts once a limit is reached. Running debates finish, so their usage can exceed the limit.
    """

    prices: Prices
    shipped: Callable[[Iterable[str]], Prices] | None = None
    """The shipped prices of models, for a budget without other prices."""
    max_cost: float | None = None
    """In the currency of the prices; None: no limit."""
    max_tokens: int | None = None
    """Prompt and completion tokens; None: no limit."""
    until: float | None = None
    """Time after which no call starts, as :func:`time.monotonic`; None: no deadline."""
    cost: float = 0.0
    tokens: int = 0

    @property
    def seconds(self) -> float | None:
        """The time left until the deadline."""
        return None if self.until is None else self.until - time.monotonic()

    def check(self, models: Iterable[str]) -> None:
        """Look up shipped prices if no other is given. UserError if a cost limit lacks the price of a model."""
        models = list(models)
        if self.shipped is not None:
            self.prices = {**self.prices, **self.shipped(models)}
        for name in models:
            if self.max_cost is not None and price_of(name, self.prices) is None and not model_kind(name).is_unpaid:
                known = f"holds prices for {', '.join(self.prices)}" if self.prices else "is not given"
                raise UserError(f"--max-cost needs the price of {name!r}; --prices {known}")

    def pay(self, model: str, usage: Usage) -> float:
        """Count the usage of one or more calls of a model, named as billed; returns their cost, 0 without a price."""
        charged, tokens = self._bill(model, usage)
        self.tokens += tokens
        self.cost += charged
        return charged

    def _bill(self, model: str, usage: Usage) -> tuple[float, int]:
        price = price_of(model, self.prices)
        return cost(usage, price) if price else 0.0, usage.prompt_tokens + usage.completion_tokens

    def allow_batch(self, model: str, usage: Usage) -> None:
        """UserError if a batch of calls with this usage may exceed a limit."""
        charged, tokens = self._bill(billed_as(model, BATCH), usage)
        again = "raise it, and the same command goes on; everything so far is kept"
        if self.max_cost is not None and self.cost + charged > self.max_cost:
            spent = f"{self.cost:.4f} is spent, and the next batch may cost {charged:.4f}"
            raise UserError(f"--max-cost {self.max_cost:g}: {spent}; {again}")
        if self.max_tokens is not None and self.tokens + tokens > self.max_tokens:
            spent = f"{self.tokens:,} are used, and the next batch may take {tokens:,}"
            raise UserError(f"--token-budget {self.max_tokens}: {spent}; {again}")

    def pay_stored(self, store: CallStore) -> None:
        """Count all paid calls in a store."""
        for (_, model), paid in store.paid().items():
            self.pay(model, paid.usage)

    @property
    def reached(self) -> str | None:
        """The option whose limit is reached, or None."""
        if self.max_cost is not None and not self.cost < self.max_cost:  # reached at once if it is NaN
            return "--max-cost"
        return "--token-budget" if self.max_tokens is not None and self.tokens >= self.max_tokens else None


def prices_of(options: RunOptions, models: Iterable[str] = ()) -> Prices:
    """The prices in the price file and in ``models.yaml``; the price file wins.

    If neither has one, the shipped prices of ``models``: a mixture could be of two currencies. They count at the
    provider's own address, and with ``--prices shipped`` at any.
    """
    entries = read_models()
    prices = {name: entry.price for name, entry in entries.entries.items() if entry.price is not None}
    anywhere = options.prices is not None and str(options.prices) == SHIPPED
    prices |= read_prices(options.prices) if options.prices and not anywhere else {}
    return prices or shipped_prices(models, entries, options.base_url, anywhere=anywhere)


def planned_prices(prices: Prices, options: RunOptions) -> Prices:
    """The prices that plans assume: with ``--batch`` those of batches."""
    if options.batch is None:
        return prices
    return {name: price for name in prices if (price := price_of(billed_as(name, BATCH), prices))}


def budget_of(options: RunOptions) -> Budget:
    """The budget for a command's options."""
    prices, until = prices_of(options), None
    if options.deadline is not None:
        # Monotonic, so that setting the system clock does not move the deadline.
        until = time.monotonic() + seconds_until(options.deadline, datetime.now())
    return Budget(
        prices=prices,
        shipped=None if prices else lambda models: prices_of(options, models),
        max_cost=options.max_cost,
        max_tokens=options.token_budget,
        until=until,
    )


@dataclass(kw_only=True, slots=True)
class Meter:
    """Counters of one run, from its start in this process; see :class:`madke.core.events.RunProgress`.

    Calls answered by the store are not counted. ``total``: questions times repeats, also those done before.
    """

    total: int
    resumed: int = 0
    done: int = 0
    failed: int = 0
    calls: int = 0
    failed_calls: int = 0
    too_long: int = 0
    """Prompts over a model's context window. The protocol decides whether they fail or are shortened."""
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """Cost of the calls of models with a price."""
    budget: Budget | None = None
    """The budget that pays for the calls; None if nothing is paid (a replay)."""
    limits: Limits | None = None
    left_over: int = 0
    """Questions without an outcome because the run was stopped."""
    ended: str = ""
    """What stopped the run: ``--deadline``, ``interrupted``, an error, or a model whose calls all fail."""
    max_failed: int = MAX_FAILED_IN_A_ROW
    """Number of consecutive failed calls of one model that stops the run."""
    in_a_row: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """(model, whether only those without text count) -> number of consecutive failed calls."""
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def count(self, model: str, completion: Completion, *, service: bool = False) -> None:
        """Count a finished call. A ``service`` is a search or an answer scorer; its failures do not stop the run."""
        usage, outcome = completion.usage, completion.outcome
        if self.budget is not None:
            self.cost += self.budget.pay(billed_as(model, completion.tier), usage)
        self.calls += 1
        self.too_long += outcome == "too_long"
        self.failed_calls += outcome not in ("ok", "too_long")
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens
        self.completion_tokens += usage.completion_tokens
        # Count only failures of the endpoint: refusals and filters concern one prompt.
        cut = outcome == "empty" and completion.finish_reason.casefold() in TRUNCATED
        for kind, failed, most in (
            (False, outcome in ("failed", "empty"), self.max_failed),
            (True, cut, MAX_TRUNCATED_IN_A_ROW),
        ):
            row = self.in_a_row[model, kind] = self.in_a_row[model, kind] + 1 if failed else 0
            if row >= most and not service and not self.ended:
                self.ended = f"the last {row} calls of {model} all failed: {completion.error}"

    def count_retry(self) -> None:
        """Count an attempt that is followed by another one."""
        self.retries += 1

    @property
    def stopped(self) -> str | None:
        """Why no further question may start, or None."""
        return self.ended or (self.budget.reached if self.budget is not None else None)

    def progress(self) -> RunProgress:
        """The counts so far, for listeners."""
        own = {each.name: getattr(self, each.name) for each in fields(RunProgress) if hasattr(self, each.name)}
        in_flight = self.limits.in_flight if self.limits is not None else 0
        cost = self.budget.cost if self.budget is not None and self.budget.prices else None
        return RunProgress(**{**own, "at": self.clock() - self.started, "cost": cost, "in_flight": in_flight})

    @asynccontextmanager
    async def reporting_to(self, listen: Listener) -> AsyncIterator[None]:
        """Send the counts to a listener, twice a second during the block and once at its end."""

        async def send() -> None:
            while True:
                await asyncio.sleep(_PROGRESS_SECONDS)
                listen(self.progress())

        sending = asyncio.create_task(send())
        try:
            yield
        finally:
            sending.cancel()
            listen(self.progress())

    def session(self) -> dict[str, Any]:
        """The work of one command, for ``run.json``; ``concurrency`` is the state of the limiters."""
        return {
            "seconds": round(self.clock() - self.started, 3),
            "ended": (self.stopped if self.left_over else self.ended) or "finished",
            "questions": self.done,
            "left_over": self.left_over,
            "cost": self.cost if self.budget is not None and self.budget.prices else None,
            "concurrency": self.limits.state() if self.limits is not None else None,
            **{name: getattr(self, name) for name in _COUNTED},
        }


_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)


def seconds_until(text: str, now: datetime) -> float:
    """Seconds from now until a deadline; its form is in the help text of :attr:`madke.RunOptions.deadline`."""
    text = text.strip()
    if text and (duration := _DURATION.fullmatch(text)):
        hours, minutes, seconds = (float(part or 0) for part in duration.groups())
        left = 3600 * hours + 60 * minutes + seconds
    else:
        try:
            if time := _TIME.fullmatch(text):
                until = now.replace(hour=int(time[1]), minute=int(time[2]), second=0, microsecond=0)
                until += timedelta(days=until <= now)
            else:
                until = datetime.fromisoformat(text)
                until = until if until.tzinfo else until.replace(tzinfo=now.tzinfo)
            # Use timestamps, since a change to or from summer time may come between two times of day.
            left = until.timestamp() - now.timestamp()
        except (ValueError, OverflowError):
            raise UserError(f"--deadline {text!r}: expected 90s, 45m, 1h30m, 06:30 or 2027-01-31T06:30") from None
    if left <= 0:
        raise UserError(f"--deadline {text!r} is past; expected a future time")
    return left
