"""The prices of common models that ship with madke, each with its source and date."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from madke.models.endpoint import OPENAI_URL, ModelEntries
from madke.models.model_names import ADDRESS, kind_of
from madke.models.prices import Price, Prices

_HOST = re.compile(r"https?://([^/:?#]+)")
_FILE = Path(__file__).with_suffix(".yaml")
SHIPPED = "shipped"
"""``--prices shipped``: the shipped prices count by the model's name, at whatever address it is called."""


class ShippedPrice(Price):
    """A price that nobody gave for this run: in US dollars, as its provider published it on a date."""

    source: str
    date: str
    one_place = True


class _Provider(BaseModel, extra="forbid", frozen=True):
    source: str
    date: str
    models: dict[str, Price]


@cache
def providers() -> dict[str, _Provider]:
    """Host -> its prices."""
    from madke._util.yaml_file import read_mapping, validated

    content = read_mapping(_FILE)
    return {host: validated(each, _Provider, file=_FILE, within=(host,)) for host, each in content.items()}


def shipped_prices(
    models: Iterable[str], entries: ModelEntries, base_url: str | None, *, anywhere: bool = False
) -> dict[str, ShippedPrice]:
    """Model -> its shipped price, for models that are called at a known host under a known name.

    Args:
        models: Names as in ``--model``, or entries of ``models.yaml``.
        entries: Those entries.
        base_url: The address of ``openai/`` models. Default: ``OPENAI_BASE_URL``, else OpenAI's.
        anywhere: Whether the name alone decides, for servers that pass calls on to a provider; of providers that share
            a name, the first counts.
    """
    found: dict[str, ShippedPrice] = {}
    default = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    for model in models:
        if (entry := entries.entries.get(model)) is not None:
            address, name = entry.base_url or default, "" if entry.python else entry.model or model
        else:
            plain, address = split.groups() if (split := ADDRESS.fullmatch(model)) else (model, default)
            name = plain.partition("/")[2] if kind_of(plain) == "openai" else ""
        here = matched[1] if (matched := _HOST.match(address)) else ""
        for host, provider in providers().items():
            if name in provider.models and (host == here or anywhere):
                stated = provider.models[name].model_dump(exclude_unset=True)
                found.setdefault(model, ShippedPrice(**stated, source=provider.source, date=provider.date))
    return found


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
