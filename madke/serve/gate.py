"""Who may ask: bearer keys, hosts, origins; and how much a request may hold."""

import asyncio
import hmac
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from madke.core.errors import UserError
from madke.serve.wire import Refusal

_log = logging.getLogger(__name__)

KEYS = "MADKE_SERVE_KEYS"
"""The environment variable with the bearer keys, separated by commas or white space."""

MAX_BODY = 4 << 20
"""Bytes of a request's body."""

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")

_OPEN_PATHS = ("/health", "/")  # the page asks for a key
_OPEN_PREFIXES = ("/debates/", "/assets/")  # secret addresses, and the page's files


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who may ask."""

    keys: Sequence[str] = ()
    """Bearer keys; empty: anybody who can connect."""
    host: str = "127.0.0.1"
    """The address that the server listens at."""
    origins: Sequence[str] = ()
    """Origins of web pages of others that may ask."""

    @property
    def is_private(self) -> bool:
        """Whether only those with a key, or programs of this machine, may ask."""
        return bool(self.keys) or self.host in LOCAL_HOSTS

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Refusal if the request is not allowed."""
        host = _host(headers.get("host", ""))
        if not self.keys and self.host in LOCAL_HOSTS and host not in LOCAL_HOSTS:
            # A page of another site that gave its name this machine's address (DNS rebinding).
            raise Refusal(403, "this server answers only requests to localhost", code="wrong_host")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and not _is_at(origin, headers.get("host")):
            raise Refusal(403, "pages of this origin may not ask; see --cors", code="wrong_origin")
        is_open = path in _OPEN_PATHS or path.startswith(_OPEN_PREFIXES)
        if not self.keys or method == "OPTIONS" or is_open:
            return
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._knows(key.strip()):
            message = "the key is missing or wrong; send it as a bearer token"
            raise Refusal(401, message, kind="authentication_error", code="invalid_api_key")

    def _knows(self, key: str) -> bool:
        """Whether it is one of the keys; the time does not tell how much of a wrong one is right."""
        sent = key.encode("utf-8", "surrogateescape")
        return any([hmac.compare_digest(sent, each.encode("utf-8", "surrogateescape")) for each in self.keys])


def keys_from_environment() -> list[str]:
    """The bearer keys; UserError if the variable is set but holds none."""
    value = os.environ.get(KEYS)
    keys = (value or "").replace(",", " ").split()
    if value is not None and not keys:
        raise UserError(f"{KEYS} is set but holds no key")
    return keys


class Gate:
    """ASGI middleware in front of all routes, mounted ones too; logs each request without its query and headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
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
            self._access.check(scope["method"], scope["path"], Headers(scope=scope))
            await self._app(scope, _bounded(receive), sending)
        except Refusal as refusal:
            await refusal.response()(scope, receive, sending)
        except asyncio.CancelledError:
            pass  # the server ends and has closed the connection; its log needs no traceback of each request
        finally:
            took = time.monotonic() - started
            # Percent-encoded: a line break in the path would begin a line of its own.
            _log.info("%s %s %s %.3f s", scope["method"], quote(scope["path"]), status or "client gone", took)


def _bounded(receive: Receive) -> Receive:
    """The body of a request, limited in size."""
    held, whole = 0, False

    async def bounded() -> Message:
        nonlocal held, whole
        if whole:
            return await receive()
        message = await receive()
        held += len(message.get("body", b""))
        if held > MAX_BODY:
            raise Refusal(413, f"the body is larger than {MAX_BODY} bytes", code="too_large")
        whole = not message.get("more_body", False)
        return message

    return bounded


def _is_at(origin: str, host: str | None) -> bool:
    try:
        return bool(host) and urlsplit(origin).netloc == host
    except ValueError:
        return False


def _host(header: str) -> str:
    """The host name of a Host header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
