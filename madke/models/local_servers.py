"""Model servers on this machine, on the ports that they use by default or those of ``MADKE_LOCAL_PORTS``."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from madke.core.errors import UserError, count_of

if TYPE_CHECKING:
    import httpx2

PORTS: Mapping[int, str] = {11434: "Ollama", 8080: "llama.cpp", 1234: "LM Studio", 8000: "vLLM"}
"""Port -> the program that uses it by default."""

_SECONDS, _MOST_BYTES = 0.8, 256 << 10
_NAME = re.compile(r"(?!.*@https?:)[\w.:/@+-]{1,200}", re.ASCII)
"""Names that a command line reads as nothing else."""
_NOT_CHAT = re.compile(r"embed|rerank|whisper|\bbge\b|\be5\b", re.IGNORECASE)


def local_ports() -> list[int]:
    """The ports that are asked. UserError unless ``MADKE_LOCAL_PORTS`` has ports, separated by commas, or is empty."""
    chosen = os.environ.get("MADKE_LOCAL_PORTS", ",".join(map(str, PORTS)))
    named = [each.strip() for each in chosen.split(",") if each.strip()]
    if not all(re.fullmatch("[0-9]{1,5}", each) and 0 < int(each) < 1 << 16 for each in named):
        raise UserError(f"MADKE_LOCAL_PORTS is {chosen!r}; expected ports separated by commas, or nothing")
    return [int(each) for each in named]


def local_servers() -> list[str]:
    """A line for each server: its port, its models, and the options that use the first; in less than a second."""
    return asyncio.run(_ask_all(local_ports()))


async def _ask_all(ports: list[int]) -> list[str]:
    import httpx2

    # Without a key, a proxy and redirects: what listens there may be anyone's.
    async with httpx2.AsyncClient(trust_env=False) as client:
        found = await asyncio.gather(*(_ask(client, port) for port in ports), return_exceptions=True)
    return [line for line in found if isinstance(line, str)]


async def _ask(client: httpx2.AsyncClient, port: int) -> str | None:
    """The line of a server. None, or any error, if what answers there is none."""
    url, reply = f"http://127.0.0.1:{port}/v1", bytearray()
    head = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with asyncio.timeout(_SECONDS), client.stream("GET", f"{url}/models", headers=head) as response:
        async for piece in response.aiter_bytes():
            reply += piece
            if len(reply) > _MOST_BYTES:
                return None
    content = json.loads(reply)
    whose = f"{PORTS[port]}'s port" if port in PORTS else "port"
    if response.status_code in (401, 403) and "error" in content:
        return f"a model server is on {whose} {port}; it asks for a key: OPENAI_API_KEY=... --base-url {url}"
    entries = content["data"] if response.status_code == 200 else []
    found = (each.get("id") for each in entries if isinstance(each, dict))  # other entries hide nothing
    names = [name for name in found if isinstance(name, str) and _NAME.fullmatch(name)]
    names.sort(key=lambda name: bool(_NOT_CHAT.search(name)))
    if not names:
        return None
    more = f" and {count_of(len(names) - 1, 'more model')}" if names[1:] else ""
    use = f"to use it: --model openai/{names[0]} --base-url {url}"
    return f"a model server is on {whose} {port}: {names[0]}{more}; {use}"
