"""How much runs may cost, and what they have cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from madke.core.chat import Usage
from madke.core.errors import UserError
from madke.llm.prices import Prices, cost, price_of

_FREE = ("offline", "scripted", "human")
"""Kinds of models whose calls nobody charges for."""


@dataclass(kw_only=True, slots=True)
class Budget:
    """What may be spent, and what is spent; the runs of an experiment pay from one.

    No question begins once the limit is reached. Those under way are finished, so it is passed by what they cost.
    """

    prices: Prices
    most: float | None = None
    """In the currency of the prices; None: no limit."""
    spent: float = 0.0

    def check(self, models: Iterable[str]) -> None:
        """See to it that a limit can be kept.

        Raises:
            UserError: There is a limit, and a model's calls have no price.
        """
        for name in models:
            if self.most is not None and price_of(name, self.prices) is None and name.split("/")[0] not in _FREE:
                known = f"holds prices for {', '.join(self.prices)}" if self.prices else "is not given"
                raise UserError(f"--max-cost needs the price of {name!r}; --prices {known}")

    def pay(self, model: str, usage: Usage) -> None:
        """Count a call, or the sum of several, that a model made."""
        if price := price_of(model, self.prices):
            self.spent += cost(usage, price)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may begin."""
        return self.most is not None and self.spent >= self.most
