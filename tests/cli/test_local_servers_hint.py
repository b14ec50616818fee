"""``madke ask`` and ``madke doctor`` say which model servers run on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from madke.cli.doctor import _local_servers
from tests.support.cli import madke


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server with two models."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": [{"id": "small"}, {"id": "large\x1b[31m"}, {"id": "tiny"}]}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(*args: object, cwd: Path, **env: Any) -> Any:
    return madke("ask", "Which lake is the deepest?", "--protocol", "standard", *args, cwd=cwd, **env)


def test_a_first_question_names_the_server_once(port: int, tmp_path: Path) -> None:
    done = ask(cwd=tmp_path, MADKE_LOCAL_PORTS=str(port))

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("model server") == 1, done.stderr
    assert f"madke: a model server is on port {port}: small and 1 more model. To use it:\n" in done.stderr
    assert f'  madke ask "..." --model openai/small --base-url http://127.0.0.1:{port}/v1\n' in done.stderr
    assert "model server" not in done.stdout


@pytest.mark.parametrize(
    "args",
    [
        ("--json",),
        ("--model", "offline"),
        ("--cast", "debater-1=offline"),
        ("--base-url", "http://127.0.0.1:9/v1", "--model", "offline"),
    ],
)
def test_whoever_chose_a_model_gets_no_hint(args: Any, port: int, tmp_path: Path) -> None:
    done = ask(*args, cwd=tmp_path, MADKE_LOCAL_PORTS=str(port))

    assert "model server" not in done.stdout + done.stderr


def test_doctor_names_each_server(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADKE_LOCAL_PORTS", f"{port},9")
    found = _local_servers()
    monkeypatch.setenv("MADKE_LOCAL_PORTS", "9")
    none = _local_servers()
    monkeypatch.setenv("MADKE_LOCAL_PORTS", "")

    assert "--model openai/small" in found
    assert f"--base-url http://127.0.0.1:{port}/v1" in found
    assert none == "none found on the ports 9"
    assert _local_servers() == "not looked for"
