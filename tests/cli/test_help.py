"""The help of every verb at 80 columns: its common options fit one screen."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from madke.cli import app

SCREEN = 40


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name in getattr(command, "commands", {}):
        yield from verbs(command.get_command(None, name), (*path, name))


MADKE: Any = typer.main.get_command(app.app)
VERBS = [*verbs(MADKE)]


@pytest.fixture(params=VERBS, ids=" ".join)
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(app.app, [*request.param, "--help"])
    assert done.exit_code == 0
    return done.stdout.strip("\n").splitlines()


def test_common_options_fit_one_screen(shown: list[str]) -> None:
    (start,) = [n for n, line in enumerate(shown) if line.startswith("╭─ Options ")]
    end = next(n for n, line in enumerate(shown) if n > start and line.startswith("╰"))
    assert end < SCREEN
