"""The example files of ``examples/`` are valid, and ``compose.yaml`` opens madke to this machine alone, with a key."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from madke._util.assets import asset
from madke.cli import app
from madke.models.endpoint import read_models
from madke.models.prices import price_of, read_prices
from madke.retrieval.named import read_sources, services_of
from tests.docs.page_runner import CHECKOUT


def example(name: str) -> Path:
    return asset("examples", f"{name}.example.yaml")


def test_each_is_valid() -> None:
    prices = read_prices(example("prices"))
    assert price_of("openai/gpt-4o-mini", prices).cached == 0.075
    assert price_of("openai/my-model@http://gpu-1:8000/v1", prices).prompt == 0.05
    assert read_models(example("models")).entry("referee").key == "REFEREE_KEY"
    assert {"wiki-bm25", "wiki-dense", "snippets"} <= set(read_sources(example("sources")))
    entries = read_sources(example("search"), named=True)
    assert [service.keys for service in services_of(entries["tavily"].spec)] == [["TAVILY_API_KEY"]]


def services(**environment: str) -> Any:
    """Those of compose.yaml, with variables as compose replaces them: ``${NAME:-default}`` and ``${NAME:?reason}``."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if name not in environment and kind == ":?":
            raise KeyError(name)
        return environment.get(name, rest)

    text = (CHECKOUT / "examples" / "compose.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", value, text))["services"]


@pytest.mark.parametrize(
    ("environment", "model"), [({}, "offline"), ({"MADKE_MODEL": "openai/gpt-4o-mini"}, "openai/gpt-4o-mini")]
)
def test_the_command_of_the_container_is_one_of_madkes(environment: dict[str, str], model: str) -> None:
    program, verb, *arguments = services(MADKE_KEY="k", **environment)["madke"]["command"]
    command = typer.main.get_command(app.app)
    assert (program, verb) == ("madke", "serve")
    chosen = command.get_command(None, verb).make_context(verb, arguments).params  # type: ignore[attr-defined]
    assert (chosen["host"], chosen["model"], chosen["no_auth"]) == ("0.0.0.0", model, False)


def test_only_this_machine_reaches_the_containers_with_a_key_of_the_environment() -> None:
    with pytest.raises(KeyError, match="MADKE_KEY"):
        services()
    both = services(MADKE_KEY="secret-1")
    madke, webui = both["madke"]["environment"], both["open-webui"]["environment"]
    assert [port for service in both.values() for port in service.get("ports", [])] == ["127.0.0.1:3000:8080"]
    assert webui["OPENAI_API_BASE_URL"] == "http://madke:8000/v1"
    assert madke["MADKE_SERVE_KEYS"] == webui["OPENAI_API_KEY"] == "secret-1"
    assert madke["OPENAI_API_KEY"] is None  # compose passes on that of the environment
