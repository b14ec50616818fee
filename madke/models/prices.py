"""Prices of tokens, those that ship with madke too, and estimates of token counts where the provider sent none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field

from madke.core.chat import Message, Usage

_PerMillion = Annotated[float, Field(ge=0, allow_inf_nan=False)]

BATCH = "batch"
"""The service tier of calls in batches (``--batch``), as the store and the client of batches name it."""
_BATCH_SHARE = 0.5
"""What providers take for batches, as a part of the standard price."""


class Price(BaseModel, extra="forbid", frozen=True):
    """Price of a model per million tokens, in any currency."""

    prompt: _PerMillion
    completion: _PerMillion
    """Includes hidden reasoning."""
    cached: _PerMillion | None = None
    """Prompt tokens from the server's prefix cache; None: as ``prompt``."""
    one_place: ClassVar[bool] = False
    """Whether it holds only for a model of exactly this name, not for one of the same name at another address."""

    def times(self, factor: float) -> Price:
        """This part of the price."""
        cached = None if self.cached is None else self.cached * factor
        changed = {"prompt": self.prompt * factor, "completion": self.completion * factor, "cached": cached}
        return self.model_copy(update=changed)


Prices = Mapping[str, Price]
"""Model name as in ``--model``, or a kind of models (``openai``) -> price."""


def read_prices(path: Path) -> dict[str, Price]:
    """Read prices from a YAML file: ``openai/NAME: {prompt: 0.15, cached: 0.075, completion: 0.6}``."""
    from madke._util.yaml_file import read_mapping, validate

    return {
        str(name): validate(content, Price, file=path, within=(str(name),))
        for name, content in read_mapping(path).items()
    }


_ADDED = re.compile(r"@https?://.*$|#[^#/]*$", re.DOTALL)
"""Suffixes of a model's name: an address, the fingerprint of a script."""
_AT_TIER = re.compile(r"#(flex|batch)$")
"""Earlier versions had the tier ``flex``, too."""


def billed_as(model: str, tier: str) -> str:
    """The name under which the calls of a model at a service tier are counted; :func:`price_of` reads it."""
    return f"{model}#{tier}" if tier else model


def plain_name(billed: str) -> str:
    """The model's name, without its service tier."""
    return _AT_TIER.sub("", billed)


def price_of(model: str, prices: Prices) -> Price | None:
    """The price of a model, or None. ``openai/NAME@URL`` wins over ``openai/NAME``, which wins over ``openai``.

    ``NAME#batch`` is the price of NAME in batches: half.
    """
    plain = plain_name(model)
    names = (plain, _ADDED.sub("", plain), plain.partition("/")[0])
    known = (name for name in names if name in prices and (name == plain or not prices[name].one_place))
    price = next((prices[name] for name in known), None)
    return price if price is None or model == plain else price.times(_BATCH_SHARE)


def cost(usage: Usage, price: Price) -> float:
    """The cost of calls of one model, in the currency of the price."""
    cached = price.prompt if price.cached is None else price.cached
    fresh = usage.prompt_tokens - usage.cached_tokens
    return (fresh * price.prompt + usage.cached_tokens * cached + usage.completion_tokens * price.completion) / 1e6


def prices_paid(prices: Prices, paid: Iterable[tuple[str, Usage]]) -> dict[str, Price]:
    """The prices at which each model's calls were paid: a mean, if only some of them were in batches.

    ``paid``: (model, named as billed; usage of its calls).
    """
    totals: dict[str, tuple[float, float]] = {}
    for billed, used in paid:
        model = plain_name(billed)
        if (price := price_of(billed, prices)) and (whole := price_of(model, prices)):
            spent, standard = totals.get(model, (0.0, 0.0))
            totals[model] = spent + cost(used, price), standard + cost(used, whole)
    all_prices = dict(prices)
    for model, (spent, standard) in totals.items():
        if spent != standard and (price := price_of(model, prices)):
            all_prices[model] = price.times(spent / standard)
    return all_prices


def estimated_usage(messages: Iterable[Message], text: str) -> Usage:
    """Usage at four characters per token: close for English prose, too low for other scripts and for numbers."""
    prompt = sum(len(message.content) for message in messages)
    return Usage(prompt_tokens=math.ceil(prompt / 4), completion_tokens=math.ceil(len(text) / 4), estimated=True)


SHIPPED = "shipped"
"""``--prices shipped``: the shipped prices count by the model's name, at whatever address it is called."""


class ShippedPrice(Price):
    """A price that nobody gave for this run: in US dollars, as its provider published it on a date."""

    source: str
    date: str
    one_place = True


class Provider(BaseModel, extra="forbid", frozen=True):
    """The shipped prices of a provider, with their source and date."""

    source: str
    date: str
    models: dict[str, Price]


@cache
def providers() -> dict[str, Provider]:
    """Host -> its prices."""
    from madke._util.yaml_file import read_mapping, validate

    file = Path(__file__).with_name("shipped_prices.yaml")
    return {host: validate(each, Provider, file=file, within=(host,)) for host, each in read_mapping(file).items()}


def shipped_note(prices: Prices) -> str | None:
    """The sentence that names the shipped prices among some prices, with sources and dates; None without any."""
    shipped: dict[str, list[str]] = {}
    for name, price in prices.items():
        if isinstance(price, ShippedPrice):
            shipped.setdefault(f"{price.source}, {price.date}", []).append(name)
    if not shipped:
        return None
    where = "; ".join(f"{', '.join(names)} ({source})" for source, names in shipped.items())
    return f"Prices that ship with madke, in US dollars: {where}. --prices FILE replaces them."
