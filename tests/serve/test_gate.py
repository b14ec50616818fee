"""Who is let in, and how much a request may cost the server."""

from __future__ import annotations

import json
import logging
import socket
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from madke.core.errors import UserError
from madke.serve import gate
from madke.serve.gate import keys_from_environment
from tests.serve.serving import Serving, Upstream, body_of, endpoint, post, response, serving, wait_for
from tests.support import cli as commands

QUESTION = "Who wrote book 1?"
THREE = "a=tests,b=docs,c=examples"
"""Three sources: more passages than ``per-document`` has debaters."""
BODY = body_of(QUESTION)


def answer_to(server: Serving, request: bytes) -> tuple[int, dict[str, Any]]:
    """Status and body of the response to a raw request."""
    status, _, body = response(server.raw(request))
    return status, json.loads(body) if body else {}


def test_only_the_keys_open_the_server(
    upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    keys = ["canary-key-one", "canary-key-two-é"]
    with serving(tmp_path, upstream, keys=keys, host="0.0.0.0") as server:
        assert server.text(QUESTION, key=keys[0]) == "Author 1"
        for wrong in ("none", "canary-key-on", "canary-key-one2", ""):
            status, body = answer_to(server, post(BODY, authorization=f"Bearer {wrong}"))
            assert (status, body["error"]["code"]) == (401, "invalid_api_key")
        assert answer_to(server, post(BODY))[0] == 401
        assert answer_to(server, post(BODY, authorization=f"Basic {keys[0]}"))[0] == 401
        for path in ("/v1/models", "/page/choices", "/mcp", "/nothing"):
            assert answer_to(server, f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())[0] == 401
        assert answer_to(server, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")[0] == 200
        assert len(upstream.calls) == 4
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"canary-key" not in file.read_bytes()
    shown = capfd.readouterr()
    assert "canary-key" not in caplog.text + shown.out + shown.err
    assert "POST /v1/chat/completions 200" in caplog.text
    assert QUESTION not in "".join(
        record.getMessage() for record in caplog.records if record.name == "madke.serve.gate"
    )


def test_a_path_is_one_line_of_the_log(upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with serving(tmp_path, upstream) as server:
        assert answer_to(server, b"GET /a%0amadke:%20stopped HTTP/1.1\r\nhost: localhost\r\n\r\n")[0] == 404
    assert "GET /a%0Amadke%3A%20stopped 404" in caplog.text


@pytest.mark.parametrize("value", ["", " , "])
def test_a_variable_without_a_key_is_a_mistake(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gate.KEYS, value)
    with pytest.raises(UserError, match="holds no key"):
        keys_from_environment()
    monkeypatch.setenv(gate.KEYS, "one, two\nthree")
    assert keys_from_environment() == ["one", "two", "three"]


def test_without_keys_only_pages_of_this_machine_may_ask(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        for host in (
            "evil.example",
            "evil.example@127.0.0.1",
            "127.0.0.1:evil",
            "localhost.evil.example",
            "[::1]x",
            "",
        ):
            assert answer_to(server, post(BODY, host=host))[0] == 403, host
        for name in ("forwarded", "via", "x-forwarded-for"):
            assert answer_to(server, post(BODY, **{name: "10.0.0.1"}))[0] == 403, name
        assert answer_to(server, post(BODY, origin="https://evil.example"))[0] == 403
        for odd in ("http://[", "http://[::1", "null", "?"):
            assert answer_to(server, post(BODY, origin=odd))[0] == 403
        text = {"content-type": "text/plain"}  # what a page of another site may send without asking first
        assert answer_to(server, post(BODY, **text))[0] == 400
        assert upstream.calls == []
        own = f"localhost:{server.port}"
        assert answer_to(server, post(BODY, host=own, origin=f"http://{own}"))[0] == 200


def test_bodies_are_bounded(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MAX_BODY", 1000)
    with serving(tmp_path, upstream) as server:
        assert answer_to(server, post(body_of("x" * 2000)))[0] == 413
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        assert answer_to(server, head + b"transfer-encoding: chunked\r\n\r\n" + chunk * 3)[0] == 413
        assert server.text(QUESTION) == "Author 1"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"model": 3}', b"\xff\xfe", b'{"model":"madke","messages":"x"}'])
def test_what_is_no_request_is_refused_in_openais_form(content: bytes, upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        status, body = answer_to(server, post(content))
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        status, body = answer_to(server, b"GET /v1/none HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (status, body["error"]["type"]) == (404, "invalid_request_error")


@pytest.mark.slow
def test_beyond_the_queue_clients_are_told_to_come_back(tmp_path: Path) -> None:
    with endpoint(seconds=0.3) as upstream, serving(tmp_path, upstream, run={"concurrency": 1}, queue=1) as server:
        connections = [server.ask("Who wrote book 1?"), server.ask("Who wrote book 2?")]
        wait_for(lambda: (server.debates.running, server.debates.waiting) == (1, 1))
        with pytest.raises(openai.RateLimitError) as refused:
            server.text(QUESTION)
        assert int(refused.value.response.headers["retry-after"]) > 0
        assert refused.value.code == "queue_full"
        for connection in connections:
            while b"Author" not in connection.recv(65536):
                pass
            connection.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "set MADKE_SERVE_KEYS, or pass --no-auth"),
        (["--protocols", "madke,nothing"], "unknown protocol 'nothing'"),
        (["--protocols", "rerank"], "cannot be served: this protocol needs an answer scorer"),
        (["--protocols", "cot", "--cast", "judge=offline"], "no served protocol has this role"),
        (["--protocols", "cot", "--set", "rounds=x"], "rounds"),
        (["--set", "rounds=x"], "rounds"),
        (["--protocols", "cot", "--alias", "gpt-4o=madk"], "--alias gpt-4o=madk: unknown protocol 'madk'"),
        (["--protocols", "cot", "--alias", "gpt-4o"], "expected NAME=PROTOCOL"),
        (["--protocols", "cot,per-document", "--sources", THREE], "protocol 'per-document' cannot be served: --set"),
        (["--protocols", "per-document", "--sources", THREE], "needs a debater for each of up to 15 passages"),
    ],
)
def test_bad_options_end_before_anything_is_served(arguments: list[str], message: str, tmp_path: Path) -> None:
    ended = commands.madke("serve", "--out", tmp_path / "out", *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = commands.madke("serve", "--out", tmp_path / "out", "--port", port, "--protocols", "cot")
    assert ended.returncode == 2
    assert f"port {port}" in ended.stderr


def test_two_servers_cannot_share_a_folder(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path / "out", upstream):
        began = time.monotonic()
        ended = commands.madke("serve", "--out", tmp_path / "out", "--port", 0, "--protocols", "cot")
    assert ended.returncode == 2
    assert "another server is using it" in ended.stderr
    assert time.monotonic() - began < 60
