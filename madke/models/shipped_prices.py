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


SHIPPED = "shipped"
"""``--prices shipped``: the shipped prices count by the model's name, at whatever address it is called."""


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
    for model in models:
        host, name = _place(model, entries, base_url)
        known = providers()
        hosts = [host] if host in known and name in known[host].models else [*known] if anywhere else []
        for provider in (known[each] for each in hosts if name in known[each].models):
            stated = provider.models[name].model_dump(exclude_unset=True)
            found.setdefault(model, ShippedPrice(**stated, source=provider.source, date=provider.date))
    return found


def elsewhere_note(models: Iterable[str], entries: ModelEntries, base_url: str | None) -> str | None:
    """Why no shipped price counts for models that have one by name, but not at their address; None without any."""
    models = list(models)
    here = shipped_prices(models, entries, base_url)
    by_name = shipped_prices(models, entries, base_url, anywhere=True)
    other = {_place(model, entries, base_url)[0]: model for model in by_name if model not in here}
    if not other:
        return None
    names = ", ".join(other.values())
    return (
        f"madke ships prices of {names} at the provider's own address; these are called at {', '.join(other)}. "
        f"--prices {SHIPPED} applies them."
    )


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
