"""Who may ask (bearer keys, hosts, origins), how large a request may be, and how one is refused."""

import hmac
import logging
import os
import re
import time
from asyncio import CancelledError
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from madke.core.errors import UserError

_log = logging.getLogger(__name__)

Body = TypeVar("Body", bound=BaseModel)

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


class Refusal(Exception):
    """A request that is not answered: its HTTP status, and OpenAI's error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        retryable: bool = True,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.error = {"error": {"message": message, "type": kind, "param": param, "code": code}}
        self._headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        if not retryable:
            self._headers["x-should-retry"] = "false"  # the SDKs of OpenAI obey it

    def response(self) -> JSONResponse:
        """The response, in OpenAI's form."""
        return JSONResponse(self.error, status_code=self.status, headers=self._headers)


async def body_of(request: Request, kind: type[Body]) -> Body:
    """The JSON body of a request; Refusal if it is not one. Takes linear time."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":  # what a page of another site cannot send without asking first
        raise Refusal(400, "the content-type must be application/json")
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        raise Refusal(400, f"the body is not JSON: {first['ctx']['error']}")
    place = ".".join(str(part) for part in first["loc"])[:100]
    reason = first["msg"].removeprefix("Value error, ")
    raise Refusal(400, f"{place or 'the body'}: {reason}", param=place or None)


def keys_from_environment() -> list[str]:
    """The bearer keys; UserError if the variable is set but holds none."""
    value = os.environ.get(KEYS)
    keys = (value or "").replace(",", " ").split()
    if value is not None and not keys:
        raise UserError(f"{KEYS} is set but holds no key")
    return keys


class Gate:
    """ASGI middleware in front of all routes; logs each request without its query and headers.

    ``keys``: bearer keys; empty: anybody who can connect may ask. ``host``: the address that the server listens at.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str] = (), host: str = "127.0.0.1") -> None:
        self._app, self._keys, self._host = app, keys, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on; ``scope["madke.key"]`` is the number of its key, 0 without keys."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, size, whole = time.monotonic(), 0, 0, False

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        async def receiving() -> Message:
            nonlocal size, whole
            message = await receive()
            if not whole:
                size += len(message.get("body", b""))
                whole = not message.get("more_body", False)
                if size > MAX_BODY:
                    raise Refusal(413, f"the body is larger than {MAX_BODY} bytes", code="too_large")
            return message

        try:
            scope["madke.key"] = self._key(scope["path"], Headers(scope=scope))
            await self._app(scope, receiving, sending)
        except Refusal as refusal:
            await refusal.response()(scope, receive, sending)
        except (CancelledError, ClientDisconnect):
            pass  # the client has gone, or the server ends; the log needs no traceback of each request
        finally:
            took = time.monotonic() - started
            # Percent-encoded: a line break in the path would begin a line of its own.
            _log.info("%s %s %s %.3f s", scope["method"], quote(scope["path"]), status or "client gone", took)

    def _key(self, path: str, headers: Headers) -> int:
        """The number of the request's key; Refusal if the request is not allowed."""
        hosts = headers.getlist("host")
        if not self._keys and self._host in LOCAL_HOSTS:
            if len(hosts) != 1 or not _LOCAL.fullmatch(hosts[0]):
                # A page of another site that gave its name this machine's address (DNS rebinding).
                raise Refusal(403, "this server answers only requests to localhost", code="wrong_host")
            if any(name in headers for name in _FORWARDED):
                raise Refusal(403, "a server without keys answers no proxy; set keys", code="forwarded")
        origin = headers.get("origin")
        if origin is not None and (len(hosts) != 1 or origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}")):
            raise Refusal(403, "pages of other sites may not ask", code="wrong_origin")
        if not self._keys or path in _OPEN_PATHS or path.startswith(_OPEN_PREFIXES):
            return 0
        scheme, _, key = headers.get("authorization", "").partition(" ")
        # The time does not tell how much of a wrong key is right.
        sent = key.strip().encode("utf-8", "surrogateescape")
        equal = [hmac.compare_digest(sent, each.encode("utf-8", "surrogateescape")) for each in self._keys]
        if scheme.lower() != "bearer" or not any(equal):
            message = "the key is missing or wrong; send it as a bearer token"
            raise Refusal(401, message, kind="authentication_error", code="invalid_api_key")
        return equal.index(True)
