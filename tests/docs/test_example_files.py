"""The example files are valid, and the pages show them as they are."""

from __future__ import annotations

from pathlib import Path

from madke._util.assets import asset
from madke.models.endpoint import read_models
from madke.models.prices import price_of, read_prices
from madke.retrieval.named import HttpSpec, read_sources, services_of


def example(name: str) -> Path:
    return asset("examples", f"{name}.example.yaml")


def test_prices() -> None:
    prices = read_prices(example("prices"))
    assert price_of("openai/gpt-4o-mini", prices).cached == 0.075
    assert price_of("openai/my-model@http://gpu-1:8000/v1", prices).prompt == 0.05
    assert price_of("openai/another", prices) == prices["openai"]


def test_models() -> None:
    models = read_models(example("models"))
    assert set(models.entries) == {"referee", "small", "embedder"}
    assert models.entry("referee").key == "REFEREE_KEY"
    assert {name for name, entry in models.entries.items() if entry.price} == {"referee"}


def test_sources() -> None:
    assert set(read_sources(example("sources"))) == {"wiki", "wiki-bm25", "wiki-dense", "google", "snippets"}


def test_search_services() -> None:
    entries = read_sources(example("search"), named=True)
    news = entries["news"].spec
    assert isinstance(news, HttpSpec)
    assert news.http.url == "http://localhost:9200/news/_search"
    assert news.http.keys == ["NEWS_API_KEY"]
    assert [service.keys for service in services_of(entries["tavily"].spec)] == [["TAVILY_API_KEY"]]
