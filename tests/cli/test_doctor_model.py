"""``madke doctor --model``: one screen, JSON, interrupts, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.audit import models
from tests.support.cli import madke, refused
from tests.support.openai_server import openai_server


def doctor(url: str, *args: object, **env: Any) -> subprocess.CompletedProcess[str]:
    return madke("doctor", "--model", "openai/m", "--base-url", url, *args, **env)


def test_the_findings_are_one_screen_with_an_advice_at_its_end() -> None:
    with openai_server(models.Servile()) as server:
        done = doctor(server.url)

    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0] == f"openai/m at {server.url}"
    assert lines[1].startswith("15 calls, 0 failed; ")
    assert "wrong, peer right       1 of 1 become right" in lines
    assert "schemas                 1 of 1 taken" in lines
    assert lines[-1] == "Do not trust its agreement, because it follows whoever speaks."
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_a_dead_endpoint_is_a_finding_with_exit_status_1() -> None:
    done = doctor("http://127.0.0.1:9/v1")

    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stdout.splitlines()[1].startswith("2 calls, 2 failed; 0 prompt and 0 new tokens")
    assert "error: connection failed" in done.stdout
    assert done.stdout.splitlines()[-1] == "It cannot be used: every call failed; see the error above."


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--json",), "need --model"),
        (("--model", "human"), "cannot be audited"),
        (("--model", "openai/m", "--prompts", "missing"), "is not a folder"),
        (("--model", "nonsense"), "unknown model"),
    ],
)
def test_bad_input_is_one_line(args: Any, why: str, tmp_path: Path) -> None:
    assert why in refused("doctor", *args, cwd=tmp_path)
