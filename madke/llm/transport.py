"""What carries requests of the ``openai`` package: aiohttp or httpx, with bounded replies and TLS verified.

aiohttp is the default: a call takes about 1.1 ms of CPU, client and package included, and 1.6 ms with 1,000 in flight.
With httpx, which looks at all its connections for each call, it takes 1.7 and 6 ms. Through the package aiohttp speaks
to proxies over plain HTTP only, so where the environment names another one (SOCKS, HTTPS) the default is httpx.
``MADKE_TRANSPORT`` (``aiohttp`` or ``httpx``) chooses for all models.

Both take proxies from ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, and certificates from
``SSL_CERT_FILE`` and ``SSL_CERT_DIR``; nothing switches verification off.

Connections have no bound of their own: there are as many as calls in flight, which the limiter bounds. An idle one is
dropped before servers drop it (those on uvicorn, vLLM among them, after 5 s): a request that meets a connection just
being closed fails and is repeated.
"""

from __future__ import annotations

import logging
import math
import os
import urllib.request
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from madke.core.errors import UserError, unknown

if TYPE_CHECKING:
    import httpx2

Transport = Literal["aiohttp", "httpx"]

KEEP_IDLE = 3.0
"""Seconds for which an idle connection is kept."""

CONNECT = 30.0
"""Seconds to connect at most: a host that does not answer would otherwise take a whole reply's time."""

TIMEOUT = 300.0
"""Seconds that one attempt may take, unless ``MADKE_TIMEOUT`` says otherwise."""

_UNBOUNDED = 1_000_000
"""Connections. The package's aiohttp transport takes None for 100."""


def chosen_transport() -> Transport:
    """The transport that ``MADKE_TRANSPORT`` names, else the one that suits the environment's proxies.

    Raises:
        UserError: It names none.
    """
    match os.environ.get("MADKE_TRANSPORT"):
        case "aiohttp":
            return "aiohttp"
        case "httpx":
            return "httpx"
        case None | "":
            proxies = urllib.request.getproxies()
            urls = [proxies.get(scheme, "") for scheme in ("http", "https", "all")]
            return "aiohttp" if all(url.startswith("http://") or "://" not in url for url in urls) else "httpx"
        case other:
            raise unknown("transport in MADKE_TRANSPORT", other, ("aiohttp", "httpx"))


def chosen_timeout() -> float:
    """Seconds that one attempt may take: ``MADKE_TIMEOUT``, else :data:`TIMEOUT`.

    Raises:
        UserError: It is no number above 0.
    """
    told = os.environ.get("MADKE_TIMEOUT") or str(TIMEOUT)
    try:
        seconds = float(told)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UserError(f"MADKE_TIMEOUT is {told!r}; expected the seconds that one call may take, such as 600")
    return seconds


def open_transport(
    transport: Transport, timeout: float, on_headers: Callable[[Mapping[str, str]], None]
) -> httpx2.AsyncClient:
    """The HTTP client for the package, made in the event loop that uses it; the package closes it.

    A reply beyond the bounds of :mod:`madke.llm.bounded_reply` raises CallError, through the package.

    Args:
        transport: Which.
        timeout: Seconds without a byte after which an attempt has failed.
        on_headers: Told of the headers of every response; names are looked up without regard to case.

    Raises:
        UserError: The environment names a proxy that cannot be used.
    """
    import httpx2
    import openai

    from madke.llm.bounded_reply import BoundedReply

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
