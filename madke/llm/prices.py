"""Tokens where nobody counted them, and what tokens cost at prices that somebody wrote down."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from madke.core.chat import Message, Usage

_PerMillion = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(BaseModel):
    """What a model's tokens cost, in any one currency for a million of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: _PerMillion
    completion: _PerMillion
    """Hidden reasoning is part of the completion."""
    cached: _PerMillion | None = None
    """Prompt tokens that the server's prefix cache held; None: as ``prompt``."""


Prices = Mapping[str, Price]
"""Model name, as ``--model`` takes it, or a kind of models (``openai``) -> its price."""


def read_prices(path: Path) -> dict[str, Price]:
    """The prices of a YAML file: ``openai/NAME: {prompt: 0.15, cached: 0.075, completion: 0.6}``."""
    from madke.yaml_file import read_mapping, validated

    return {
        str(name): validated(content, Price, file=path, within=(str(name),))
        for name, content in read_mapping(path).items()
    }


_ADDED = re.compile(r"@https?://.*$|#[^#/]*$", re.DOTALL)
"""What a model's own name has beyond the one that it is opened by: an endpoint, a script's fingerprint."""


def price_of(model: str, prices: Prices) -> Price | None:
    """The price of a model, if there is one: of ``openai/NAME@URL``, else of ``openai/NAME``, else of ``openai``."""
    names = (model, _ADDED.sub("", model), model.partition("/")[0])
    return next((prices[name] for name in names if name in prices), None)


def cost(usage: Usage, price: Price) -> float:
    """The cost of some calls of one model, in the currency of the price."""
    cached = price.prompt if price.cached is None else price.cached
    fresh = usage.prompt_tokens - usage.cached_tokens
    return (fresh * price.prompt + usage.cached_tokens * cached + usage.completion_tokens * price.completion) / 1e6


def estimated_usage(messages: Iterable[Message], text: str) -> Usage:
    """Usage guessed from lengths, and marked so: a token for every four characters of the prompt, and of the text.

    That is close to what byte-pair tokenizers make of English prose, too low for other scripts and for numbers.
    """
    prompt = sum(len(message.content) for message in messages)
    return Usage(prompt_tokens=math.ceil(prompt / 4), completion_tokens=math.ceil(len(text) / 4), estimated=True)


def added(one: Usage, two: Usage) -> Usage:
    """The usage of two requests together; an estimate where one of them is."""
    counts = {field.name: getattr(one, field.name) + getattr(two, field.name) for field in fields(Usage)}
    return Usage(**{**counts, "estimated": one.estimated or two.estimated})
