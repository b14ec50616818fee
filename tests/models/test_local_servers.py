"""Model servers on this machine, on ports that the test chooses, as ``madke doctor`` and ``madke ask`` name them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from madke.cli.doctor import _local_servers
from madke.core.errors import UserError
from madke.models.endpoint import local_servers
from tests.support.cli import madke
from tests.support.loopback import QuietHandler, serving


@contextmanager
def listening(content: Any, status: int = 200, **headers: str) -> Iterator[tuple[int, list[str]]]:
    """A port of 127.0.0.1 that answers this, and the heads of the requests to it."""
    heads: list[str] = []
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            heads.append(f"{self.requestline}\n{self.headers}")
            self.answer(status, headers, body)

    with serving(Handler) as address:
        yield int(address.rpartition(":")[2]), heads


def models(*names: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], list[str]]:
    def ask(*ports: object) -> list[str]:
        monkeypatch.setenv("MADKE_LOCAL_PORTS", ",".join(map(str, ports)))
        return local_servers()

    return ask


def test_a_server_is_found_with_what_uses_it_and_no_key_is_sent(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-2718281828")
    names = models("nomic-embed-text:latest", "qwen2.5:7b", "llama3.2")
    with listening(names) as (port, heads), listening({"error": "no key"}, 401) as (locked, _):
        first, second = found(port, locked)
    # What does not look like a chat model comes last.
    use = f"--model openai/qwen2.5:7b --base-url http://127.0.0.1:{port}/v1"
    assert first == f"a model server is on port {port}: qwen2.5:7b and 2 more models; to use it: {use}"
    assert "it asks for a key" in second
    assert heads[0].startswith("GET /v1/models HTTP/1.1\n")
    assert "canary" not in heads[0]
    assert "authorization" not in heads[0].lower()


def test_ports_are_probed_at_the_same_time(found: Any) -> None:
    both = threading.Barrier(2, timeout=10)

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            both.wait()
            self.answer(200, {}, json.dumps(models("m")).encode())

    with serving(Handler) as one, serving(Handler) as other:
        assert len(found(*(address.rpartition(":")[2] for address in (one, other)))) == 2


def test_names_that_a_command_line_could_read_as_something_else_are_left_out(found: Any) -> None:
    shell = ["$(reboot)", "a b", "a;b", "`id`", "x\x1b[31m", "a\nb", "\u202egguf", "m" * 201, "", None, 7]
    content = models(*shell, "x@http://evil.example/v1", "x@https://evil.example", "good")
    content["data"] += [7, {}]  # malformed entries hide no server
    with listening(content) as (port, _):
        (line,) = found(port)
    assert f"{port}: good; to use it: --model openai/good " in line


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 302),
        (b"<html>", 404),
        (b"<html>", 200),
        ({"data": [7, None]}, 200),
        (b"[" * 100_000, 200),
        (json.dumps(models("m")).encode() + b" " * (64 << 20), 200),  # the end is not waited for
    ],
    ids=["redirect", "404", "html", "entries", "deep", "flood"],
)
def test_other_servers_are_none_of_a_model(content: Any, status: int, found: Any) -> None:
    with listening(content, status, Location="http://127.0.0.1:9/v1/models") as (port, _):
        assert found(port) == []


@pytest.mark.parametrize("port", ["x", "0", "65536", "\u0661"])
def test_other_ports_are_refused(port: str, found: Any) -> None:
    with pytest.raises(UserError, match="MADKE_LOCAL_PORTS"):
        found(port)


def test_doctor_says_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(models("small")) as (port, _):
        monkeypatch.setenv("MADKE_LOCAL_PORTS", f"{port},9")
        assert "--model openai/small" in _local_servers()
    monkeypatch.setenv("MADKE_LOCAL_PORTS", "9")
    assert _local_servers() == "none found on the ports 9"
    monkeypatch.setenv("MADKE_LOCAL_PORTS", "")
    assert _local_servers() == "not looked for"


@pytest.mark.parametrize(
    ("args", "named"),
    [((), 1), (("--json",), 0), (("--model", "scripted/s.yaml"), 0), (("--cast", "answerer=scripted/s.yaml"), 0)],
)
def test_a_question_without_a_model_names_the_server_once(args: Any, named: int, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("- reply: The answer is Baikal.\n")
    with listening(models("small")) as (port, _):
        question = ("ask", "Which lake is the deepest?", "--protocol", "standard")
        done = madke(*question, *args, cwd=tmp_path, MADKE_LOCAL_PORTS=str(port))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"madke: a model server is on port {port}: small; ") == named
    assert "model server" not in done.stdout
