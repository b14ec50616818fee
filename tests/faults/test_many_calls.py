"""Many calls in flight: as many sockets as calls, used again, and closed at the end."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


class Patient:
    """A server on the loopback that answers nobody until so many requests are there; from then on at once."""

    def __init__(self, awaited: int) -> None:
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


@contextmanager
def patient(awaited: int) -> Iterator[tuple[Patient, int]]:
    """A patient server in a thread of its own, and its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = Patient(awaited)

    async def start() -> asyncio.Server:
        return await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=awaited)

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


@contextmanager
def files_allowed(needed: int) -> Iterator[None]:
    resource = pytest.importorskip("resource", reason="open files are bounded otherwise here")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"{needed} open files are not allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def sockets_to(port: int) -> int:
    """Open connections; those that a busy machine has yet to close count no more."""
    held = psutil.Process().net_connections(kind="tcp")
    return sum(bool(c.raddr) and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in held)


# httpx takes a time for each connection that grows with their number.
@pytest.mark.slow
@pytest.mark.parametrize(("transport", "in_flight"), [("aiohttp", 1000), ("httpx", 300)])
def test_calls_in_flight_take_as_many_sockets_and_give_them_back(transport: Transport, in_flight: int) -> None:
    calls = in_flight * 3 // 2
    # Both ends of each connection are in this process.
    with files_allowed(2 * in_flight + 500), patient(in_flight) as (server, port):

        async def run() -> tuple[list[str], int]:
            model = OpenAIChat("m", base_url=f"http://127.0.0.1:{port}/v1", transport=transport, timeout=120.0)
            piped, most = limited(model, Limiter(in_flight, start=in_flight)), 0

            async def one(n: int) -> str:
                nonlocal most
                said = await piped.complete(chat_request(str(n)))
                if n % 100 == 0:
                    most = max(most, sockets_to(port))
                return str(said.text)

            try:
                return await asyncio.gather(*(one(n) for n in range(calls))), most
            finally:
                await close(model)

        texts, most = asyncio.run(run())
        assert texts == ["yes"] * calls
        assert in_flight // 2 < most <= in_flight
        assert server.connections < calls
        assert sockets_to(port) == 0
