"""A thousand calls in flight: as many sockets as calls, used again, and closed at the end."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from madke.models.chat_models import close
from madke.models.limiter import Limiter
from madke.models.openai_client import OpenAIChat
from madke.models.transport import Transport
from tests.support.chat_requests import chat_request
from tests.support.openai_server import chat
from tests.support.pipelines import limited

IN_FLIGHT = 1000
CALLS = 1500


class Patient:
    """A server on the loopback that answers nobody until so many requests are there; from then on at once."""

    def __init__(self, awaited: Any) -> None:
        self.requests = 0
        self.connections = 0
        self._awaited = awaited
        self._all_there = asyncio.Event()

    async def serve(self, reader: Any, writer: Any) -> None:
        self.connections += 1
        body = json.dumps(chat("yes")[2]).encode()
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
                self.requests += 1
                if self.requests == self._awaited:
                    self._all_there.set()
                await self._all_there.wait()
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
def patient() -> Iterator[Any]:
    """A patient server in a thread of its own, and its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = Patient(IN_FLIGHT)

    async def start() -> Any:
        return await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=IN_FLIGHT)

    async def stop() -> None:
        listening.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)

    listening = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    yield server, listening.sockets[0].getsockname()[1]
    asyncio.run_coroutine_threadsafe(stop(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of each connection are in this process."""
    resource = pytest.importorskip("resource", reason="open files are bounded otherwise here")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * IN_FLIGHT + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"{needed} open files are not allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def sockets_to(port: Any) -> Any:
    """Open connections; those that a busy machine has yet to close count no more."""
    held = psutil.Process().net_connections(kind="tcp")
    return sum(bool(c.raddr) and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in held)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
def test_a_thousand_calls_in_flight_take_a_thousand_sockets_and_give_them_back(
    many_files: None, patient: Any, transport: Transport
) -> None:
    server, port = patient
    limiter = Limiter(IN_FLIGHT, start=IN_FLIGHT)
    most = 0

    async def run() -> Any:
        nonlocal most
        model = OpenAIChat("m", base_url=f"http://127.0.0.1:{port}/v1", transport=transport, timeout=120.0)
        piped = limited(model, limiter)

        async def one(n: Any) -> Any:
            nonlocal most
            said = await piped.complete(chat_request(str(n)))
            if n % 100 == 0:
                most = max(most, sockets_to(port))
            return said.text

        try:
            return await asyncio.gather(*(one(n) for n in range(CALLS)))
        finally:
            await close(model)

    assert asyncio.run(run()) == ["yes"] * CALLS
    assert IN_FLIGHT // 2 < most <= IN_FLIGHT
    assert server.connections < CALLS
    assert sockets_to(port) == 0
