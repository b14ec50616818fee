"""Many calls in flight: as many sockets as calls, used again, and closed at the end."""

import asyncio
import threading
from typing import Any

import psutil
import pytest

from madke.models.chat_models import close
from madke.models.limiter import Limiter
from madke.models.openai_client import OpenAIChat
from madke.models.transport import Transport
from tests.support.chat_requests import chat_request
from tests.support.openai_server import Reply, chat, openai_server
from tests.support.pipelines import limited

IN_FLIGHT = 150
"""More than the pools of aiohttp and httpx hold by themselves."""


def sockets_to(port: int) -> int:
    """Open connections; those that a busy machine has yet to close count no more."""
    held = psutil.Process().net_connections(kind="tcp")
    return sum(bool(c.raddr) and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in held)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
def test_calls_in_flight_take_as_many_sockets_and_give_them_back(transport: Transport) -> None:
    all_there = threading.Barrier(IN_FLIGHT)

    def reply(body: dict[str, Any], n: int) -> Reply:
        if n <= IN_FLIGHT:  # nobody is answered until all have asked
            all_there.wait(60)
        return chat("yes")

    async def run(url: str) -> list[str]:
        model = OpenAIChat("m", base_url=url, transport=transport, timeout=120.0)
        piped = limited(model, Limiter(IN_FLIGHT, start=IN_FLIGHT))
        said = await asyncio.gather(*(piped.complete(chat_request(str(n))) for n in range(2 * IN_FLIGHT)))
        await close(model)
        return [each.text for each in said]

    with openai_server(reply) as server:
        assert asyncio.run(run(server.url)) == ["yes"] * 2 * IN_FLIGHT
        port = int(server.url.removesuffix("/v1").rpartition(":")[2])
        assert sockets_to(port) == 0
    assert IN_FLIGHT <= len({seen.port for seen in server.requests}) < 2 * IN_FLIGHT
