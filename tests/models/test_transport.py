import datetime
import gzip
import ipaddress
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from madke.core.errors import CallError
from madke.models.openai_client import AzureChat, OpenAIChat
from madke.models.transport import MAX_PACKED_REPLY, MAX_REPLY, chosen_transport
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import chat, openai_server

TRANSPORTS = ["aiohttp", "httpx"]
both = pytest.mark.parametrize("transport", TRANSPORTS)
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def ask(url: Any, transport: Any, *, timeout: float = 5.0) -> Any:
    return said_by(OpenAIChat("m", base_url=url, transport=transport, timeout=timeout), chat_request())[0]


@pytest.mark.parametrize(
    ("proxy", "transport"),
    [
        ("", "aiohttp"),
        ("http://proxy:3128", "aiohttp"),
        ("proxy:3128", "aiohttp"),
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
        assert ask("http://model.invalid/v1", transport).text == "by proxy"
        assert proxy.requests[0].path == "http://model.invalid/v1/chat/completions"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert ask(server.url, transport).text == "direct"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A self-signed certificate for 127.0.0.1, with its key, in one file."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography makes the certificate")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


@both
def test_a_server_whose_certificate_nobody_vouches_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, certificate: Any, transport: Any
) -> None:
    with openai_server(chat("secret"), certificate=certificate) as server:
        with pytest.raises(CallError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            ask(server.url, transport)
        assert not caught.value.retryable
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert ask(server.url, transport).text == "secret"


@both
@pytest.mark.parametrize("status", [200, 500])
def test_a_reply_without_an_end_is_cut_off(transport: Any, status: int) -> None:
    sent = 0

    def flood() -> Iterator[Any]:
        nonlocal sent
        while not server.stopping.is_set():
            yield b" " * (1 << 20)
            sent += 1 << 20

    def reply(body: Any, n: Any) -> Any:
        return status, {}, flood()

    with openai_server(reply) as server, pytest.raises(CallError, match="longer than") as caught:
        ask(server.url, transport, timeout=30.0)
    assert not caught.value.retryable
    assert sent < 3 * MAX_REPLY


@both
def test_a_compressed_reply_is_read_if_it_is_short(transport: Any) -> None:
    _, _, body = chat("packed")
    packed = gzip.compress(json.dumps(body).encode())
    with openai_server((200, {"Content-Encoding": "gzip"}, packed)) as server:
        assert ask(server.url, transport).text == "packed"
        assert server.requests[0].headers["accept-encoding"] == "identity"


@both
def test_a_reply_that_unpacks_to_far_more_is_refused(transport: Any) -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join([packer.compress(b" " * (1 << 20)) for _ in range(64)]) + packer.flush()
    assert len(bomb) > MAX_PACKED_REPLY
    for packing, content, words in (("deflate", bomb, "longer than"), ("zstd", b"x", "expected no compression")):
        with openai_server((200, {"Content-Encoding": packing}, content)) as server, pytest.raises(CallError) as caught:
            ask(server.url, transport)
        assert words in caught.value.reason


def test_a_key_for_administration_is_sent_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "canary")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "another")

    with openai_server(chat()) as server:
        for model in (OpenAIChat("m", base_url=server.url), AzureChat("m", endpoint=server.url)):
            said_by(model, chat_request())
    assert len(server.requests) == 2
    assert not any("canary" in str(seen.headers) for seen in server.requests)
