"""Prices of tokens, and estimates of token counts where the provider sent none."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from madke.core.chat import Message, Usage

_PerMillion = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(BaseModel, extra="forbid", frozen=True):
    """Price of a model per million tokens, in any currency."""

    prompt: _PerMillion
    completion: _PerMillion
    """Includes hidden reasoning."""
    cached: _PerMillion | None = None
    """Prompt tokens from the server's prefix cache; None: as ``prompt``."""


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


def price_of(model: str, prices: Prices) -> Price | None:
    """The price of a model, or None. ``openai/NAME@URL`` wins over ``openai/NAME``, which wins over ``openai``."""
    names = (model, _ADDED.sub("", model), model.partition("/")[0])
    return next((prices[name] for name in names if name in prices), None)


def cost(usage: Usage, price: Price) -> float:
    """The cost of calls of one model, in the currency of the price."""
    cached = price.prompt if price.cached is None else price.cached
    fresh = usage.prompt_tokens - usage.cached_tokens
    return (fresh * price.prompt + usage.cached_tokens * cached + usage.completion_tokens * price.completion) / 1e6


def cost_saved(usage: Usage, price: Price) -> float:
    """What cached tokens made cheaper, in the currency of the price."""
    return cost(replace(usage, cached_tokens=0), price) - cost(usage, price)


def estimated_usage(messages: Iterable[Message], text: str) -> Usage:
    """Usage at four characters per token: close for English prose, too low for other scripts and for numbers."""
    prompt = sum(len(message.content) for message in messages)
    return Usage(prompt_tokens=math.ceil(prompt / 4), completion_tokens=math.ceil(len(text) / 4), estimated=True)
