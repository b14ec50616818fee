"""How much runs may use, and what they have used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from madke.core.chat import Usage
from madke.core.errors import UserError
from madke.llm.models import UNPAID, kind_of
from madke.llm.prices import Prices, cost, price_of


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
        """See to it that a limit can be kept.

        Raises:
            UserError: There is a limit of cost, and a model's calls have no price.
        """
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
