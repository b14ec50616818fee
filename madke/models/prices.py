"""Prices of tokens, and estimates of token counts where the provider sent none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field

from madke.core.chat import Message, Usage

_PerMillion = Annotated[float, Field(ge=0, allow_inf_nan=False)]


FLEX, BATCH = "flex", "batch"
"""Service tiers at a lower price, as requests, replies and the client of batches name them."""
_HALF = 0.5
"""What OpenAI, Azure and Gemini take at flex and for batches, as a part of the standard price."""


class TierPrice(BaseModel, extra="forbid", frozen=True):
    """Price of a model per million tokens at one service tier."""

    prompt: _PerMillion
    completion: _PerMillion
    """Includes hidden reasoning."""
    cached: _PerMillion | None = None
    """Prompt tokens from the server's prefix cache; None: as ``prompt``."""


class Price(TierPrice):
    """Price of a model per million tokens, in any currency."""

    flex: TierPrice | None = None
    """At the tier ``flex``; None: half of the standard price."""
    batch: TierPrice | None = None
    """In the batch interface (``--batch``); None: half of the standard price."""
    one_place: ClassVar[bool] = False
    """Whether it holds only for a model of exactly this name, not for one of the same name at another address."""

    def at(self, tier: TierPrice | None, otherwise: float = 1.0) -> Price:
        """The price at one of its tiers, or this part of the standard price if the tier has none."""
        cached = None if self.cached is None else self.cached * otherwise
        part = {"prompt": self.prompt * otherwise, "completion": self.completion * otherwise, "cached": cached}
        return self.model_copy(update={**(part if tier is None else dict(tier)), "flex": None, "batch": None})


Prices = Mapping[str, Price]
"""Model name as in ``--model``, or a kind of models (``openai``) -> price."""


def read_prices(path: Path) -> dict[str, Price]:
    """Read prices from a YAML file: ``openai/NAME: {prompt: 0.15, cached: 0.075, completion: 0.6}``."""
    from madke._util.yaml_file import read_mapping, validated

    return {
        str(name): validated(content, Price, file=path, within=(str(name),))
        for name, content in read_mapping(path).items()
    }


_ADDED = re.compile(r"@https?://.*$|#[^#/]*$", re.DOTALL)
"""Suffixes of a model's name: an address, the fingerprint of a script."""
_AT_TIER = re.compile(f"#({FLEX}|{BATCH})$")


def billed_as(model: str, tier: str) -> str:
    """The name under which the calls of a model at a service tier are counted; :func:`price_of` reads it."""
    return f"{model}#{tier}" if tier else model


def plain_name(billed: str) -> str:
    """The model's name, without its service tier."""
    return _AT_TIER.sub("", billed)


def price_of(model: str, prices: Prices) -> Price | None:
    """The price of a model, or None. ``openai/NAME@URL`` wins over ``openai/NAME``, which wins over ``openai``.

    ``NAME#flex`` and ``NAME#batch`` are the prices of NAME at those tiers.
    """
    plain = plain_name(model)
    names = (plain, _ADDED.sub("", plain), plain.partition("/")[0])
    known = (name for name in names if name in prices and (name == plain or not prices[name].one_place))
    found = next((prices[name] for name in known), None)
    tier = model.removeprefix(plain).removeprefix("#")
    return found if found is None or not tier else found.at(found.flex if tier == FLEX else found.batch, _HALF)


def cost(usage: Usage, price: Price) -> float:
    """The cost of calls of one model, in the currency of the price."""
    cached = price.prompt if price.cached is None else price.cached
    fresh = usage.prompt_tokens - usage.cached_tokens
    return (fresh * price.prompt + usage.cached_tokens * cached + usage.completion_tokens * price.completion) / 1e6


def prices_paid(prices: Prices, paid: Iterable[tuple[str, Usage]]) -> dict[str, Price]:
    """The prices with those at which each model's calls were paid: at a service tier, or at a mean of several.

    ``paid``: (model, named as billed; usage of its calls).
    """
    by_model: dict[str, list[tuple[Price, Usage]]] = {}
    for billed, used in paid:
        if price := price_of(billed, prices):
            by_model.setdefault(plain_name(billed), []).append((price, used))
    found = dict(prices)
    for model, calls in by_model.items():
        found[model], *others = {price: None for price, _ in calls}
        standard = price_of(model, prices)
        if others and standard and (whole := sum(cost(used, standard) for _, used in calls)):
            found[model] = standard.at(None, sum(cost(used, price) for price, used in calls) / whole)
    return found


def estimated_usage(messages: Iterable[Message], text: str) -> Usage:
    """Usage at four characters per token: close for English prose, too low for other scripts and for numbers."""
    prompt = sum(len(message.content) for message in messages)
    return Usage(prompt_tokens=math.ceil(prompt / 4), completion_tokens=math.ceil(len(text) / 4), estimated=True)
