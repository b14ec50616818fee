"""``madke doctor --model``: one screen, JSON, interrupts, and what is refused."""

import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.audit import models
from tests.support.cli import madke, refused, started
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
    assert "error: connection failed" in done.stdout
    assert "It cannot be used: every call failed; see the error above.\n" in done.stdout


def test_an_interrupt_prints_what_was_found() -> None:
    good = models.Model()

    def reply(body: dict[str, Any], n: int) -> Any:
        if n == 5:
            process.send_signal(signal.SIGINT)
            server.stopping.wait()
        return good(body, n)

    audit = ("doctor", "--model", "openai/m", "--base-url")
    with openai_server(reply) as server, started(*audit, server.url) as process:
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130, err
    assert out.splitlines()[1].startswith("4 calls, 0 failed")
    assert "replies read            select 2 of 2, speak 2 of 2" in out
    assert "Traceback" not in err


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    assert "need --model" in refused("doctor", "--json")
    assert "cannot be audited" in refused("doctor", "--model", "human")
    assert "is not a folder" in refused("doctor", "--model", "openai/m", "--prompts", tmp_path / "missing")
