"""Clients that leave at any step of the event loop, through every door: no place is lost, no further call is paid."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from madke._util import concurrency
from madke.core.chat import ChatRequest, Completion
from madke.runs.request import RunRequest
from madke.serve.debates import Debates
from madke.serve.offers import ServeOptions
from madke.serve.server import create_app
from tests.serve.serving import HELLO, body_of

MCP = {"accept": "application/json, text/event-stream"}
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "debate"}


class Instant:
    """A model in this process; its debaters agree at once."""

    name = "instant"

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ChatRequest) -> Completion:
        self.calls += 1
        for _ in range(3):
            await asyncio.sleep(0)
        judge = request.purpose.stage == "judge"
        return Completion(text="Verdict: [SAME]" if judge else "The answer is [Baikal].")


@dataclass
class Client:
    """A client without a network. It leaves after a number of steps of the event loop."""

    app: Starlette
    sent: list[dict[str, Any]] = field(default_factory=list)

    async def post(self, path: str, body: Any, headers: dict[str, str], *, steps: int = 10**9) -> bool:
        """Whether the request ended before the client left."""
        given = {"host": "localhost", "content-type": "application/json", **headers}
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "scheme": "http", "server": ("localhost", 80), "client": ("localhost", 1), "http_version": "1.1",
            "asgi": {"version": "3.0"},
        }  # fmt: skip
        parts = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if parts:
                return parts.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            self.sent.append(message)

        request = asyncio.create_task(self.app(scope, receive, send))
        for _ in range(steps):
            if request.done():
                break
            await asyncio.sleep(0)
        ended = request.done()
        gone.set()
        await request
        return ended


Leave = Callable[[Client, str, int], Awaitable[bool]]


def chat(*, stream: bool) -> Leave:
    def asked(client: Client, question: str, steps: int) -> Awaitable[bool]:
        return client.post("/v1/chat/completions", body_of(question, stream=stream), {}, steps=steps)

    return asked


def page(client: Client, question: str, steps: int) -> Awaitable[bool]:
    return client.post("/page/debates", {"protocol": "madke", "question": question}, {}, steps=steps)


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern_mcp(client: Client, question: str, steps: int) -> Awaitable[bool]:
    own = {"protocolVersion": MODERN["mcp-protocol-version"], "clientInfo": {"name": "t", "version": "1"}}
    meta = {f"io.modelcontextprotocol/{name}": each for name, each in {**own, "clientCapabilities": {}}.items()}
    call = rpc("tools/call", name="debate", arguments={"question": question}, _meta=meta)
    return client.post("/mcp", call, {**MCP, **MODERN}, steps=steps)


async def mcp_with_sessions(client: Client, question: str, steps: int) -> bool:
    client.sent.clear()
    await client.post("/mcp", rpc("initialize", **HELLO), MCP)
    (session,) = [value for name, value in client.sent[0]["headers"] if name == b"mcp-session-id"]
    headers = {**MCP, "mcp-session-id": session.decode(), "mcp-protocol-version": HELLO["protocolVersion"]}
    await client.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    call = rpc("tools/call", name="debate", arguments={"question": question})
    return await client.post("/mcp", call, headers, steps=steps)


@asynccontextmanager
async def opened(out: Path, model: Instant) -> AsyncIterator[tuple[Client, Debates]]:
    request = RunRequest(model=model, sources="none")
    debates = Debates(ServeOptions(out=out, protocols=("madke",), request=request, queue=4))
    app = create_app(debates)
    async with debates, app.router.lifespan_context(app):
        yield Client(app), debates


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


DOORS: dict[str, Leave] = {
    "whole": chat(stream=False),
    "stream": chat(stream=True),
    "page": page,
    "mcp": modern_mcp,
    "mcp sessions": mcp_with_sessions,
}


@pytest.mark.parametrize("door", DOORS)
def test_leaving_at_any_step_keeps_no_place_and_pays_no_further_call(door: str, tmp_path: Path) -> None:
    leave, model = DOORS[door], Instant()

    async def main() -> int:
        async with opened(tmp_path, model) as (client, debates):
            assert await leave(client, "Warm up?", 10**9)
            whole = model.calls
            for steps in range(10_000):
                before = model.calls
                ended = await leave(client, f"Which lake is number {steps}?", steps)
                await settled()
                assert (debates.turns, debates.running) == (0, 0), steps
                paid = model.calls
                await settled()
                assert model.calls == paid, f"a call began after the client had left at step {steps}"
                if ended:
                    assert model.calls - before == whole
                    return steps
        raise AssertionError("no debate ended")

    assert asyncio.run(main()) > 20, "the client left at many steps of a debate"


def test_work_that_does_not_end_keeps_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "END_SECONDS", 0.1)
    released = asyncio.Event()

    async def stubborn(*_: object) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        raise asyncio.CancelledError

    async def main() -> None:
        async with opened(tmp_path, Instant()) as (client, debates):
            monkeypatch.setattr(debates.offers, "run_of", stubborn)
            for _ in range(6):  # more than the places
                assert not await page(client, "Which lake?", 20)
                assert (debates.turns, debates.running) == (0, 0)
            released.set()
            await settled()

    asyncio.run(main())
