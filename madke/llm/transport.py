"""What carries requests of the ``openai`` package: aiohttp or httpx, with bounded replies and TLS verified.

aiohttp is the default: a call takes 1.6 ms of CPU with 1,000 in flight, with httpx 6 ms. Through the package it speaks
to proxies over plain HTTP only, so where the environment names another one (SOCKS, HTTPS) the default is httpx. Both
take proxies (``HTTPS_PROXY``, ``NO_PROXY``, ...) and certificates (``SSL_CERT_FILE``) from the environment.

Imported only where a client is made: httpx2 is heavy.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal

import httpx2

from madke.core.errors import CallError, UserError

Transport = Literal["aiohttp", "httpx"]

KEEP_IDLE = 3.0
"""Seconds for which an idle connection is kept: less than servers on uvicorn, vLLM among them, keep it (5 s)."""
CONNECT = 30.0
_UNBOUNDED = 1_000_000
"""Connections: the limiter bounds them. The package's aiohttp transport takes None for 100."""
MAX_REPLY = 16 << 20
"""Bytes of a reply that are read at most; the text of a whole context window is far below."""
MAX_PACKED_REPLY = 16 << 10
"""The same for a compressed one, which nobody asked for: deflate makes it 1,032 times as long at most."""


class BoundedReply(httpx2.AsyncByteStream):
    """The stream of a response that raises CallError, not retryable, at the bound; closing it drops the connection."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._stream = response.stream
        self._packing = response.headers.get("content-encoding", "identity").strip().lower()
        self._bound = MAX_REPLY if self._packing == "identity" else MAX_PACKED_REPLY

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packing not in ("identity", "gzip", "deflate"):
            raise CallError(f"the reply is compressed ({self._packing}), which was not asked for", retryable=False)
        read = 0
        async for piece in self._stream:
            read += len(piece)
            if read > self._bound:
                raise CallError(f"the reply is longer than {self._bound:,} bytes", retryable=False)
            yield piece

    async def aclose(self) -> None:
        """Close the stream under it."""
        await self._stream.aclose()


def open_transport(
    transport: Transport, timeout: float, on_headers: Callable[[Mapping[str, str]], None]
) -> httpx2.AsyncClient:
    """The HTTP client for the package, made in the event loop that uses it; the package closes it.

    Args:
        transport: Which.
        timeout: Seconds without a byte after which an attempt has failed.
        on_headers: Told of the headers of every response.

    Raises:
        UserError: The environment names a proxy that cannot be used.
    """
    import openai

    async def check(response: httpx2.Response) -> None:
        on_headers(response.headers)
        response.stream = BoundedReply(response)
        # JSON is UTF-8; the header's charset may name a codec that makes no text, at which the package breaks.
        response.encoding = "utf-8"

    # At INFO it logs every address in full, and a path may hold a secret.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    client = openai.DefaultAioHttpClient if transport == "aiohttp" else openai.DefaultAsyncHttpxClient
    try:
        return client(
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT)),
            limits=httpx2.Limits(
                max_connections=_UNBOUNDED, max_keepalive_connections=_UNBOUNDED, keepalive_expiry=KEEP_IDLE
            ),
            event_hooks={"response": [check]},
            # The key would not go along to another host, but the prompts would.
            follow_redirects=False,
        )
    except (ImportError, ValueError) as error:
        raise UserError(f"the environment names a proxy that cannot be used: {error}") from error
