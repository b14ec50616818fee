"""The prices that ship with madke: whom they concern, what replaces them, and that they are shown as such."""

from datetime import date
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.models.endpoint import ModelEntries, ModelEntry, shipped_prices
from madke.models.prices import price_of, providers
from madke.runs.meter import budget_of, prices_of
from madke.runs.request import RunOptions
from tests.support.cli import madke

MINI = "openai/gpt-5-mini"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_BASE_URL", "MADKE_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_each_price_has_a_source_and_a_date() -> None:
    for host, provider in providers().items():
        assert "." in host
        assert provider.source.startswith("https://")
        assert date.fromisoformat(provider.date) >= date(2026, 11, 26)
        for name, price in provider.models.items():
            assert (price.cached or 0) < price.prompt < price.completion or name == "ministral-8b-latest"


def test_a_price_needs_the_host_and_the_name() -> None:
    entries = ModelEntries(
        entries={
            "mini": ModelEntry(model="gpt-5-mini"),
            "gpt-5-mini": ModelEntry(base_url="http://localhost:8000/v1"),
            "judge": ModelEntry(base_url="https://api.anthropic.com/v1/", model="claude-haiku-4-5"),
        }
    )
    local = "openai/gpt-5-mini@http://localhost:8000/v1"
    asked = [MINI, local, "mini", "gpt-5-mini", "judge", "azure/gpt-5-mini", "openai/none", "offline"]
    assert list(shipped_prices(asked, entries, None)) == [MINI, "mini", "judge"]
    assert list(shipped_prices(asked, entries, "http://localhost:1/v1")) == ["judge"]


def test_prices_shipped_count_at_any_address_and_a_plan_names_them_with_source_and_date() -> None:
    relayed = f"{MINI}@http://localhost:4000/v1"
    prices = prices_of(RunOptions(prices=Path("shipped")), [relayed, "openai/none"])
    assert price_of(relayed, prices) == price_of(MINI, prices_of(RunOptions(), [MINI]))
    assert list(prices) == [relayed]
    Path("q.csv").write_text("question,answers\nWhich is deeper?,Baikal\n")

    def plan(*more: str) -> str:
        asked = ("run", "q.csv", "--out", "out", "--sources", "none", "--plan", *more)
        return " ".join(madke(*asked).stdout.split())

    unknown = "The cost is not known: give prices with --prices FILE, or `--prices shipped`"
    assert unknown in plan("--model", relayed)
    assert "Prices that ship with madke" in plan("--model", relayed, "--prices", "shipped")
    said, provider = plan("--model", MINI), providers()["api.openai.com"]
    assert f"Prices that ship with madke, in US dollars: {MINI} ({provider.source}, {provider.date})" in said
    assert "--prices FILE replaces them" in said


def test_a_limit_of_cost_can_rest_on_them() -> None:
    budget = budget_of(RunOptions(max_cost=1))
    budget.check([MINI])
    with pytest.raises(UserError, match="needs the price of 'openai/none'"):
        budget_of(RunOptions(max_cost=1)).check([MINI, "openai/none"])
