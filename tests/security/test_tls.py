"""Certificates are checked wherever something is asked over HTTPS."""

import hashlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.retrieval.fetch import download
from madke.retrieval.named import open_source
from madke.retrieval.source import search_source
from tests.support.loopback import QuietHandler, serving

CONTENT = b"the published file"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A certificate that nobody vouches for, with its key."""
    if which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", *names]
    subprocess.run([*command, "-keyout", file, "-out", f"{file}.crt"], capture_output=True, check=True)
    file.write_bytes(file.read_bytes() + file.with_suffix(".pem.crt").read_bytes())
    return file


@contextmanager
def server(certificate: Path) -> Iterator[Any]:
    """Gives ``CONTENT`` over TLS."""
    asked = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            asked.append(dict(self.headers))
            self.answer(200, {}, CONTENT)

        do_POST = do_GET

    with serving(Handler, certificate=certificate) as address:
        yield address, asked


def fetched(url: Any, folder: Any) -> Any:
    with (folder / "part").open("a+b", buffering=0) as part:
        download(url, part, size=len(CONTENT), sleep=lambda seconds: None)
    return hashlib.sha256((folder / "part").read_bytes()).hexdigest()


def test_a_download_checks_the_certificate(tmp_path: Path, certificate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(certificate) as (url, asked):
        with pytest.raises(UserError, match="certificate is not trusted"):
            fetched(url, tmp_path)
        assert not asked
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert fetched(url, tmp_path) == hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Hits]:
    """Searches at an address with a key."""
    monkeypatch.setenv("SERPER_API_KEY", "sk-canary-2718281828")
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))

    def search(url: str) -> Hits:
        monkeypatch.setenv("SERPER_BASE_URL", url)
        monkeypatch.setattr("madke.retrieval.web._MAX_WAIT", 0.0)
        return search_source(open_source("google", "serper"), ["q"], 3)[0]

    return search


def test_a_web_search_checks_the_certificate(certificate: Any, search: Callable[[str], Hits]) -> None:
    with server(certificate) as (url, asked):
        hits = search(url)
    assert "certificate is not trusted" in str(hits.error)
    assert not asked


@pytest.mark.parametrize("address", ["http://user:secret@127.0.0.1:9", "http://127.0.0.1:9/?key=secret"])
def test_a_search_address_that_holds_a_secret_is_refused(
    tmp_path: Path, search: Callable[[str], Hits], address: str
) -> None:
    with pytest.raises(UserError, match="SERPER_BASE_URL") as raised:
        search(address)
    assert "secret" not in str(raised.value)
    assert not list(tmp_path.rglob("*.sqlite"))
