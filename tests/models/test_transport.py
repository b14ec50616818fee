"""What both HTTP transports do: proxies, certificates, bounds on replies."""

from __future__ import annotations

import datetime
import gzip
import ipaddress
import json
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
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
    [
        ("", "aiohttp"),
        ("http://p:3128", "aiohttp"),
        ("p:3128", "aiohttp"),
        ("https://p:1", "httpx"),
        ("socks5://p:1", "httpx"),
    ],
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
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography makes the certificate")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now, day = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC), datetime.timedelta(1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(made.public_bytes(pem) + secret)
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


@pytest.mark.parametrize(("transport", "status"), [("aiohttp", 200), ("httpx", 500)])
def test_a_reply_without_an_end_is_cut_off(transport: Any, status: int) -> None:
    sent, cut_off = 0, threading.Event()

    def flood() -> Iterator[bytes]:
        nonlocal sent
        while not cut_off.is_set():
            yield b" " * (1 << 20)
            sent += 1 << 20

    failed = failure(lambda body, n: (status, {}, flood()), transport=transport, timeout=30.0)
    cut_off.set()
    assert "longer than" in failed.reason
    assert not failed.retryable
    assert sent < 3 * MAX_REPLY


@both
def test_a_compressed_reply_is_read_if_it_is_short(transport: Any) -> None:
    packed = gzip.compress(json.dumps(chat("packed")[2]).encode())
    done = exchange((200, {"Content-Encoding": "gzip"}, packed), transport=transport)
    assert done.said[0].text == "packed"
    assert done.server.requests[0].headers["accept-encoding"] == "identity"


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
