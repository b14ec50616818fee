"""Who may ask: bearer keys, hosts, origins; and how large a request may be."""

import asyncio
import hmac
import logging
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from madke.core.errors import UserError
from madke.serve.refusals import Refusal

_log = logging.getLogger(__name__)

KEYS = "MADKE_SERVE_KEYS"
"""The environment variable with the bearer keys, separated by commas or white space."""

MAX_BODY = 4 << 20
"""Bytes of a request's body."""

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")

_LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
"""A Host header that names this machine, compared as a whole."""

_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers of requests that came through a proxy, perhaps from another machine."""

_OPEN_PATHS = ("/health", "/")  # the page asks for a key
_OPEN_PREFIXES = ("/debates/", "/assets/")  # secret addresses, and the page's files


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who may ask."""

    keys: Sequence[str] = ()
    """Bearer keys; empty: anybody who can connect."""
    host: str = "127.0.0.1"
    """The address that the server listens at."""

    def check(self, path: str, headers: Headers) -> int:
        """The number of the request's key, 0 without keys; Refusal if the request is not allowed."""
        hosts = headers.getlist("host")
        if not self.keys and self.host in LOCAL_HOSTS:
            if len(hosts) != 1 or not _LOCAL.fullmatch(hosts[0]):
                # A page of another site that gave its name this machine's address (DNS rebinding).
                raise Refusal(403, "this server answers only requests to localhost", code="wrong_host")
            if any(name in headers for name in _FORWARDED):
                raise Refusal(403, "a server without keys answers no proxy; set keys", code="forwarded")
        origin = headers.get("origin")
        if origin is not None and (len(hosts) != 1 or origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}")):
            raise Refusal(403, "pages of other sites may not ask", code="wrong_origin")
        is_open = path in _OPEN_PATHS or path.startswith(_OPEN_PREFIXES)
        if not self.keys or is_open:
            return 0
        scheme, _, key = headers.get("authorization", "").partition(" ")
        # The time does not tell how much of a wrong key is right.
        sent = key.strip().encode("utf-8", "surrogateescape")
        equal = [hmac.compare_digest(sent, each.encode("utf-8", "surrogateescape")) for each in self.keys]
        if scheme.lower() != "bearer" or not any(equal):
            message = "the key is missing or wrong; send it as a bearer token"
            raise Refusal(401, message, kind="authentication_error", code="invalid_api_key")
        return equal.index(True)


def keys_from_environment() -> list[str]:
    """The bearer keys; UserError if the variable is set but holds none."""
    value = os.environ.get(KEYS)
    keys = (value or "").replace(",", " ").split()
    if value is not None and not keys:
        raise UserError(f"{KEYS} is set but holds no key")
    return keys


class Gate:
    """ASGI middleware in front of all routes; logs each request without its query and headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on; ``scope["madke.key"]`` is the number of its key."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            scope["madke.key"] = self._access.check(scope["path"], Headers(scope=scope))
            await self._app(scope, _bounded(receive), sending)
        except Refusal as refusal:
            await refusal.response()(scope, receive, sending)
        except (asyncio.CancelledError, ClientDisconnect):
            pass  # the client has gone, or the server ends; the log needs no traceback of each request
        finally:
            took = time.monotonic() - started
            # Percent-encoded: a line break in the path would begin a line of its own.
            _log.info("%s %s %s %.3f s", scope["method"], quote(scope["path"]), status or "client gone", took)


def _bounded(receive: Receive) -> Receive:
    """The body of a request, limited in size."""
    size, whole = 0, False

    async def bounded() -> Message:
        nonlocal size, whole
        message = await receive()
        if not whole:
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > MAX_BODY:
                raise Refusal(413, f"the body is larger than {MAX_BODY} bytes", code="too_large")
        return message

    return bounded
