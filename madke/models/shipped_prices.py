"""The prices of common models that ship with madke, each with its source and date."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel

from madke.models.endpoint import OPENAI_URL, ModelEntries
from madke.models.model_names import ADDRESS, kind_of
from madke.models.prices import Price, Prices

_FILE = Path(__file__).with_suffix(".yaml")


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


def shipped_prices(models: Iterable[str], entries: ModelEntries, base_url: str | None) -> dict[str, ShippedPrice]:
    """Model -> its shipped price, for models that are called at a known host under a known name.

    Args:
        models: Names as in ``--model``, or entries of ``models.yaml``.
        entries: Those entries.
        base_url: The address of ``openai/`` models. Default: ``OPENAI_BASE_URL``, else OpenAI's.
    """
    found = {}
    for model in models:
        host, name = _place(model, entries, base_url)
        provider = providers().get(host)
        if provider is not None and (price := provider.models.get(name)) is not None:
            stated = price.model_dump(exclude_unset=True)
            found[model] = ShippedPrice(**stated, source=provider.source, date=provider.date)
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


def _place(model: str, entries: ModelEntries, base_url: str | None) -> tuple[str, str]:
    """Host and name of a model at its server; empty if it has none."""
    default = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    entry = entries.entries.get(model)
    if entry is not None:
        address, name = entry.base_url or default, entry.model or model
        return ("", "") if entry.python else (_host(address), name)
    plain, address = found.groups() if (found := ADDRESS.fullmatch(model)) else (model, default)
    if kind_of(plain) != "openai":
        return "", ""
    return _host(address), plain.partition("/")[2]


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
