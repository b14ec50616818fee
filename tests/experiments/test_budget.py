"""Prices, and the budget that runs pay from."""

import math
from pathlib import Path

import pytest

from madke.core.chat import Usage
from madke.core.errors import UserError
from madke.models.prices import Price, price_of, read_prices
from madke.runs.meter import Budget

MINI = Price(prompt=0.15, cached=0.075, completion=0.6)
USAGE = Usage(prompt_tokens=1_000_000, cached_tokens=400_000, completion_tokens=500_000)


def test_a_price_is_found_with_and_without_the_endpoint() -> None:
    prices = {"openai/mini": MINI, "azure/x@https://b.example": Price(prompt=1, completion=1)}
    assert price_of("openai/mini@http://localhost:1", prices) is MINI
    assert price_of("azure/x@https://b.example", prices).prompt == 1
    assert price_of("openai/maxi", prices) is None
    assert price_of("offline/extractive-3", {"offline": MINI}) is price_of("offline", {"offline": MINI}) is MINI


def test_a_price_file_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("openai/mini: {prompt: 0.15, completion: 0.6}\n")
    assert read_prices(file) == {"openai/mini": Price(prompt=0.15, completion=0.6)}
    for wrong in ("{prompt: -1, completion: 0.6}", "{prompt: 1}", "{prompt: 1, completion: 1, flex: 2}"):
        file.write_text(f"openai/mini: {wrong}\n")
        with pytest.raises(UserError, match=r"prices\.yaml:1: openai/mini: "):
            read_prices(file)


def test_a_budget_is_exhausted_when_the_limit_is_reached_or_is_not_a_number() -> None:
    budget = Budget(prices={"openai/mini": MINI}, max_cost=0.42)
    budget.check(["openai/mini", "offline", "scripted/x.json"])  # which need no price
    assert budget.reached is None
    budget.pay("openai/mini@http://localhost:1", USAGE)
    assert budget.reached == "--max-cost"
    assert Budget(prices={"openai/mini": MINI}, max_cost=math.nan).reached == "--max-cost"
