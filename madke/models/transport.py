"""HTTP transports for the ``openai`` package: aiohttp or httpx, with limited reply sizes and verified TLS.

aiohttp is the default: a call takes 1.6 ms of CPU with 1,000 in flight, with httpx 6 ms. In the package, aiohttp
supports only plain HTTP proxies, so the default is httpx if the environment names another one (SOCKS, HTTPS). Both
read proxies (``HTTPS_PROXY``, ``NO_PROXY``, ...) and certificates (``SSL_CERT_FILE``) from the environment.

Import this module only where a client is made: httpx2 is slow to import.
"""

import os
import ssl
import urllib.request
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import httpx2

from madke.core.errors import CallError, UserError

Transport = Literal["aiohttp", "httpx"]

_NO_PROXY = "the environment names a proxy that cannot be used"
KEEP_IDLE = 3.0
"""Seconds until an idle connection is closed: less than on servers with uvicorn, such as vLLM (5 s)."""
CONNECT_TIMEOUT = 30.0
_MAX_CONNECTIONS = 1_000_000
"""Maximum number of connections; the limiter sets the real limit. The aiohttp transport reads None as 100."""
MAX_REPLY = 16 << 20
"""Maximum size of a reply in bytes, far above the text of a whole context window."""
MAX_PACKED_REPLY = 16 << 10
"""The same for a compressed reply, though none is requested: deflate expands it by a factor of at most 1,032."""


class BoundedReply(httpx2.AsyncByteStream):
    """A response stream that raises a CallError above ``limit`` bytes; closing it drops the connection."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int, reason: str) -> None:
        self._stream, self._left, self._reason = stream, limit, reason

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise CallError(self._reason, retryable=False)
            yield piece

    async def aclose(self) -> None:
        """Close the underlying stream."""
        await self._stream.aclose()


def certificates() -> ssl.SSLContext:
    """The trusted certificates that the environment names, for every client; reading them takes 20 ms.

    UserError if ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` names nothing that can be read.
    """
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    if file and not Path(file).is_file():
        raise UserError(f"SSL_CERT_FILE is {file!r}, and there is no such file; name a PEM file, or unset it")
    if folder and not Path(folder).is_dir():
        raise UserError(f"SSL_CERT_DIR is {folder!r}, and there is no such folder; name a folder, or unset it")
    try:
        return httpx2.create_ssl_context()
    except OSError as error:  # an SSLError is one
        raise UserError(f"SSL_CERT_FILE is {file!r}; expected certificates in PEM: {error}") from None


def chosen_transport() -> Transport:
    """aiohttp, or httpx where a proxy of the environment needs it."""
    proxies = urllib.request.getproxies()
    urls = [proxies.get(scheme, "") for scheme in ("http", "https", "all")]
    return "aiohttp" if all(url.startswith("http://") or "://" not in url for url in urls) else "httpx"


def failure_of(error: Exception) -> str:
    """What failed, without the text of the error, which may hold a key: the certificate, or the type of the error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "the server's certificate is not trusted (SSL_CERT_FILE names those that are)"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def open_client(**settings: Any) -> httpx2.Client:
    """A client for downloads and searches; UserError if the environment names a proxy that cannot be used."""
    try:
        return httpx2.Client(verify=certificates(), **settings)
    except (ImportError, ValueError) as error:
        raise UserError(f"{_NO_PROXY}: {error}") from error


def open_transport(transport: Transport | None, timeout: float, *, own: bool = False) -> httpx2.AsyncClient:
    """Make the HTTP client for the package, in the event loop that uses it; the package closes it.

    ``timeout`` is the read timeout in seconds. ``own`` is for a server that this process started: it is asked past all
    proxies, and each call has its own connection, since llama.cpp closes them after streams without saying so.
    UserError if the environment names a proxy that cannot be used.
    """
    import openai

    async def check(response: httpx2.Response) -> None:
        packing = response.headers.get("content-encoding", "identity").strip().lower()
        limit = MAX_REPLY if packing == "identity" else MAX_PACKED_REPLY
        why = f"the reply is longer than {limit:,} bytes"
        if packing not in ("identity", "gzip", "deflate"):
            limit, why = -1, f"the reply is compressed ({packing}); expected no compression"
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = BoundedReply(response.stream, limit, why)
        # JSON is UTF-8. The header's charset may name a codec that is not for text, which crashes the package.
        response.encoding = "utf-8"

    is_aiohttp = (transport or chosen_transport()) == "aiohttp"
    client = openai.DefaultAioHttpClient if is_aiohttp else openai.DefaultAsyncHttpxClient
    try:
        return client(
            verify=certificates(),
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
            limits=httpx2.Limits(
                max_connections=_MAX_CONNECTIONS,
                max_keepalive_connections=0 if own else _MAX_CONNECTIONS,
                keepalive_expiry=0.0 if own else KEEP_IDLE,
            ),
            event_hooks={"response": [check]},
            # A redirect to another host would not receive the key, but it would receive the prompts.
            follow_redirects=False,
            trust_env=not own,
        )
    except (ImportError, ValueError) as error:
        raise UserError(f"{_NO_PROXY}: {error}") from error
