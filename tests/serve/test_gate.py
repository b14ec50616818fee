"""Who is let in, and how large a request may be."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.serve import gate
from madke.serve.gate import keys_from_environment
from tests.serve.serving import Serving, Upstream, body_of, post, response, serving

QUESTION = "Who wrote book 1?"
BODY = body_of(QUESTION)


def answer_to(server: Serving, request: bytes) -> tuple[int, dict[str, Any]]:
    """Status and body of the response to a raw request."""
    status, _, body = response(server.raw(request))
    return status, json.loads(body) if body else {}


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


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
        for path in ("/v1/models", "/page/choices", "/mcp", "/a%0amadke:%20stopped"):
            assert answer_to(server, get(path))[0] == 401
        assert answer_to(server, get("/health"))[0] == 200
        assert len(upstream.calls) == 4
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"canary-key" not in file.read_bytes()
    shown = capfd.readouterr()
    assert "canary-key" not in caplog.text + shown.out + shown.err
    log = "\n".join(record.getMessage() for record in caplog.records if record.name == "madke.serve.gate")
    assert "POST /v1/chat/completions 200" in log
    assert "GET /a%0Amadke%3A%20stopped 401" in log, "a path cannot begin a line of its own"
    assert QUESTION not in log


def test_the_environment_holds_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gate.KEYS, "one, two\nthree")
    assert keys_from_environment() == ["one", "two", "three"]
    monkeypatch.setenv(gate.KEYS, " , ")
    with pytest.raises(UserError, match="holds no key"):
        keys_from_environment()


def test_without_keys_only_pages_of_this_machine_may_ask(upstream: Upstream, tmp_path: Path) -> None:
    hosts = ("evil.example", "evil.example@127.0.0.1", "127.0.0.1:evil", "localhost.evil.example", "[::1]x", "")
    origins = ("https://evil.example", "http://[", "null")
    with serving(tmp_path, upstream) as server:
        strangers = [
            *({"host": host} for host in hosts),
            *({header: "10.0.0.1"} for header in ("forwarded", "via", "x-forwarded-for")),
            *({"origin": origin} for origin in origins),
        ]
        for headers in strangers:
            assert answer_to(server, post(BODY, **headers))[0] == 403, headers
        text = {"content-type": "text/plain"}  # what a page of another site may send without asking first
        assert answer_to(server, post(BODY, **text))[0] == 400
        assert upstream.calls == []
        own = f"localhost:{server.port}"
        assert answer_to(server, post(BODY, host=own, origin=f"http://{own}"))[0] == 200


def test_bodies_are_bounded(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MAX_BODY", 1000)
    chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with serving(tmp_path, upstream) as server:
        assert answer_to(server, post(body_of("x" * 2000)))[0] == 413
        assert answer_to(server, head + b"transfer-encoding: chunked\r\n\r\n" + chunk * 3)[0] == 413
        assert server.text(QUESTION) == "Author 1"
