"""``examples/compose.yaml``: its command is one of madke, only this machine reaches it, and keys come from outside."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
import yaml

from madke.cli import app
from tests.docs.page_runner import CHECKOUT

FILE = CHECKOUT / "examples" / "compose.yaml"


def compose(**environment: str) -> Any:
    """The file, with variables as compose replaces them: ``${NAME:-default}`` and ``${NAME:?reason}``."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if name not in environment and kind == ":?":
            raise KeyError(name)
        return environment.get(name, rest)

    return yaml.safe_load(re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", value, FILE.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("environment", "model"), [({}, "offline"), ({"MADKE_MODEL": "openai/gpt-4o-mini"}, "openai/gpt-4o-mini")]
)
def test_the_command_is_one_of_madkes(environment: dict[str, str], model: str) -> None:
    program, verb, *arguments = compose(MADKE_KEY="k", **environment)["services"]["madke"]["command"]
    command = typer.main.get_command(app.app)
    assert (program, verb) == ("madke", "serve")
    chosen = command.get_command(None, verb).make_context(verb, arguments).params  # type: ignore[attr-defined]
    assert (chosen["host"], chosen["model"], chosen["no_auth"]) == ("0.0.0.0", model, False)


def test_only_this_machine_reaches_the_services() -> None:
    services = compose(MADKE_KEY="k")["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:3000:8080"]
    assert services["open-webui"]["environment"]["OPENAI_API_BASE_URL"] == "http://madke:8000/v1"


def test_the_key_comes_from_the_environment() -> None:
    with pytest.raises(KeyError, match="MADKE_KEY"):
        compose()
    services = compose(MADKE_KEY="secret-1")["services"]
    assert services["madke"]["environment"]["MADKE_SERVE_KEYS"] == "secret-1"
    assert services["open-webui"]["environment"]["OPENAI_API_KEY"] == "secret-1"
    assert services["madke"]["environment"]["OPENAI_API_KEY"] is None  # compose passes on that of the environment
