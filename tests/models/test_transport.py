"""What both HTTP transports do: proxies, certificates, bounds on replies."""

import gzip
import json
import subprocess
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from madke.core.errors import CallError
from madke.models.openai_client import AzureChat, OpenAIChat
from madke.models.transport import MAX_PACKED_REPLY, MAX_REPLY, chosen_transport
from tests.models.wire import exchange, failure
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import chat, openai_server

both = pytest.mark.parametrize("transport", ["aiohttp", "httpx"])


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def text_at(url: str, transport: Any) -> str:
    return str(said_by(OpenAIChat("m", base_url=url, transport=transport, timeout=5.0), chat_request())[0].text)


@pytest.mark.parametrize(
    ("proxy", "transport"),
    [("", "aiohttp"), ("p:3128", "aiohttp"), ("https://p:1", "httpx"), ("socks5://p:1", "httpx")],
)
def test_a_proxy_that_aiohttp_does_not_speak_to_means_httpx(
    monkeypatch: pytest.MonkeyPatch, proxy: str, transport: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    assert chosen_transport() == transport


@both
def test_requests_go_through_the_proxy_of_the_environment_unless_it_is_excepted(
    monkeypatch: pytest.MonkeyPatch, transport: Any
) -> None:
    with openai_server(chat("by proxy")) as proxy, openai_server(chat("direct")) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        assert text_at("http://model.invalid/v1", transport) == "by proxy"
        assert proxy.requests[0].path == "http://model.invalid/v1/chat/completions"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert text_at(server.url, transport) == "direct"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key, in one file."""
    if which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    names = ["-subj", "/CN=loopback", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", *names]
    subprocess.run([*command, "-keyout", file, "-out", file], capture_output=True, check=True)
    return file


@both
def test_a_server_whose_certificate_nobody_vouches_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, transport: Any
) -> None:
    with openai_server(chat("secret"), certificate=certificate) as server:
        model = OpenAIChat("m", base_url=server.url, transport=transport)
        with pytest.raises(CallError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            said_by(model, chat_request())
        assert not caught.value.retryable
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert text_at(server.url, transport) == "secret"


def test_an_error_without_an_end_is_cut_off() -> None:
    sent, cut_off = 0, threading.Event()

    def flood() -> Iterator[bytes]:
        nonlocal sent
        while not cut_off.is_set():
            yield b" " * (1 << 20)
            sent += 1 << 20

    failed = failure(lambda body, n: (500, {}, flood()), transport="httpx", timeout=30.0)
    cut_off.set()
    assert "longer than" in failed.reason
    assert not failed.retryable
    assert sent < 3 * MAX_REPLY


@both
def test_a_reply_that_unpacks_to_far_more_is_refused(transport: Any) -> None:
    bomb = zlib.compress(b" " * (64 << 20), 9)
    assert len(bomb) > MAX_PACKED_REPLY
    for packing, content, words in (("deflate", bomb, "longer than"), ("zstd", b"x", "expected no compression")):
        reply = (200, {"Content-Encoding": packing}, content)
        assert words in failure(reply, transport=transport).reason


def test_a_key_for_administration_is_sent_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "canary")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "another")
    with openai_server(chat()) as server:
        for model in (OpenAIChat("m", base_url=server.url), AzureChat("m", endpoint=server.url)):
            said_by(model, chat_request())
    assert len(server.requests) == 2
    assert not any("canary" in str(seen.headers) for seen in server.requests)


@both
def test_a_compressed_reply_is_read_if_it_is_short(transport: Any) -> None:
    packed = gzip.compress(json.dumps(chat("packed")[2]).encode())
    done = exchange((200, {"Content-Encoding": "gzip"}, packed), transport=transport)
    assert done.said[0].text == "packed"
    assert done.server.requests[0].headers["accept-encoding"] == "identity"
