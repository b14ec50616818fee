"""A tool of an MCP server as a search service, over standard input and output or streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from madke._util.assets import require
from madke._util.terminal import without_keys
from madke.core.addresses import public_url, retry_after
from madke.knowledge.asking import source_loop
from madke.knowledge.http_search import HttpReply, HttpService, MappedOptions, filled, parse_json, variables, with_keys
from madke.knowledge.web import Address, WebResult
from madke.knowledge.web_source import MAX_REPLY_BYTES, Fetch, NoAnswer, PricedReply, Request, TryAgain

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Client
    from mcp_types import CallToolResult

_REFUSED = (-32601, -32602)
"""Codes of JSON-RPC: unknown method, invalid parameters."""
_TIMEOUT = -32001
"""Code of the package."""


class McpOptions(MappedOptions):
    """A tool and how its results are read.

    The reply is the tool's structured content. If there is none, it is the JSON in its text, or else a list with one
    ``{"text": ...}`` for each block of text.
    """

    run: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    url: Address | None = None
    """The server's address, instead of ``run``."""
    folder: Path = Path()
    """The program's working directory. Default: the folder of the file that names it."""
    env: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], ...] = ()
    """Environment variables that the program gets, besides PATH, HOME and the like."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers for ``url``; ``${NAME}`` stands for an environment variable with a key."""
    tool: str
    arguments: dict[str, Any]
    """The tool's arguments; ``{query}`` and ``{k}`` stand for the query and the number of results."""
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    """Seconds to connect, and seconds for one query."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if (self.run is None) == (self.url is None):
            raise ValueError("expected either run or url")
        if "{query}" not in str(self.arguments):
            raise ValueError("expected {query} in arguments")
        return self

    @property
    def keys(self) -> Sequence[str]:
        """The environment variables that hold keys."""
        return list(dict.fromkeys([*self.env, *variables(*self.headers.values())]))


class McpSearch:
    """See :class:`madke.knowledge.web_source.Service`. A lost connection is made again."""

    def __init__(self, options: McpOptions) -> None:
        require("an MCP server needs the package", "serve", "mcp")
        # Here, since the threads of a query would import its parts at the same time, which fails.
        import mcp.client  # noqa: F401

        # They log failures with tracebacks and addresses; the query's error tells them.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        self._options = options
        self.concurrency = 4 if options.url else 1  # A query that ends a program fails alone.
        self._http = HttpService(method="POST", concurrency=self.concurrency, variables=" or ".join(options.keys))
        server = public_url(options.url) if options.url else without_keys(shlex.join(options.run or ()))
        self.address = f"mcp {options.tool} of {server}"
        self.description = f"MCP tool {options.tool!r} of {server} (settings {options.digest})"
        self._opened: _Connection | None = None
        self._lock = threading.Lock()

    def send(self, request: Request) -> PricedReply:
        """The tool's reply; the first request makes the session."""
        with self._lock:
            self._opened = opened = self._opened or _Connection(self._options)
        result = opened.call(dict(request))
        if result is None:
            self._drop(opened)
            if opened.reply_too_long:
                raise NoAnswer(f"the reply exceeds {MAX_REPLY_BYTES:,} bytes")
            if opened.refusal:
                self._http.judge(opened.refusal)
            raise TryAgain("the MCP server does not answer", reached=False)
        if result.is_error:
            # In our words, because the text may contain a key.
            raise NoAnswer(f"the tool {self._options.tool!r} reports an error")
        return self._options.answer(_value(result))

    def results(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The tool's results."""
        return self._options.read(fetch(filled(self._options.arguments, query, self._options.count(k))))

    def close(self) -> None:
        """End the session, and the program."""
        self._drop(self._opened)

    def _drop(self, lost: _Connection | None) -> None:
        """Close a connection, unless another thread has done so; the next request makes another one."""
        with self._lock:
            mine = self._opened is lost
            self._opened = None if mine else self._opened
        if mine and lost is not None:
            lost.close()


def _value(result: CallToolResult) -> Any:
    texts = [block.text for block in result.content if block.type == "text"]
    value = result.structured_content
    if sum(map(len, texts)) + len(json.dumps(value)) > MAX_REPLY_BYTES:
        raise NoAnswer(f"the reply exceeds {MAX_REPLY_BYTES:,} bytes")
    if value is None:
        try:
            return parse_json("\n".join(texts))
        except NoAnswer:
            value = [{"text": text} for text in texts]
    return parse_json(json.dumps(value))


class _Connection:
    """A session in the event loop of the sources."""

    def __init__(self, options: McpOptions) -> None:
        self._options = options
        self.refusal: HttpReply | None = None
        """The last HTTP reply, if it is an error."""
        self.reply_too_long = False
        self._client: Future[Client] = Future()
        self._over = asyncio.Event()
        self._ended = asyncio.run_coroutine_threadsafe(self._live(), source_loop())

    def call(self, arguments: dict[str, Any]) -> CallToolResult | None:
        """The tool's result; None if the session is lost."""
        from mcp.shared.exceptions import MCPError

        try:
            called = self._client.result().call_tool(self._options.tool, arguments)
            return asyncio.run_coroutine_threadsafe(called, source_loop()).result()
        except MCPError as error:
            if error.code in _REFUSED and (not self.refusal or self.refusal.status in (400, 404)):
                raise NoAnswer(f"the server refuses the call of tool {self._options.tool!r}") from None
            if error.code == _TIMEOUT:
                raise NoAnswer(f"the MCP server does not answer within {self._options.timeout:g} s") from None
            return None
        except OSError as error:
            raise NoAnswer(f"the MCP server cannot be started: {error.strerror or error}", refused=True) from None
        except Exception:  # noqa: BLE001 - of any package below; the text may contain a key
            return None

    def close(self) -> None:
        source_loop().call_soon_threadsafe(self._over.set)
        self._ended.result()

    async def _live(self) -> None:
        """Open the session, and close it in the same task when it is over."""
        try:
            async with self._session() as client:
                self._client.set_result(client)
                await self._over.wait()
        except Exception as error:  # noqa: BLE001
            if not self._client.done():
                self._client.set_exception(error)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Client]:
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        options = self._options
        async with AsyncExitStack() as stack:
            if options.url:
                http = await stack.enter_async_context(self._http_client())
                transport = streamable_http_client(options.url, http_client=http, max_sse_event_size=MAX_REPLY_BYTES)
            else:
                assert options.run
                program, *arguments = options.run
                environment = {name: os.environ[name] for name in options.env}
                server = StdioServerParameters(command=program, args=arguments, env=environment, cwd=options.folder)
                nowhere = stack.enter_context(os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
                transport = stdio_client(server, errlog=nowhere)
            yield await stack.enter_async_context(Client(transport, read_timeout_seconds=options.timeout))

    def _http_client(self) -> httpx2.AsyncClient:
        import httpx2

        from madke.endpoints.transport import BoundedReply

        def too_long() -> Exception:
            self.reply_too_long = True
            return httpx2.ReadError("the reply is too long")

        async def check(response: httpx2.Response) -> None:
            if response.request.method == "POST":
                refusal = HttpReply(response.status_code, retry_after(response.headers), b"")
                self.refusal = None if response.is_success else refusal
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                response.stream = BoundedReply(response.stream, MAX_REPLY_BYTES, too_long)

        headers = {"Accept-Encoding": "identity", **with_keys(self._options.headers)}
        return httpx2.AsyncClient(headers=headers, timeout=self._options.timeout, event_hooks={"response": [check]})
