"""Find model servers on this machine, on the ports that they use by default."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

from madke.core.errors import UserError
from madke.models.model_names import ADDRESS

if TYPE_CHECKING:
    import httpx2

PORTS: Mapping[int, str] = {11434: "Ollama", 8080: "llama.cpp", 1234: "LM Studio", 8000: "vLLM"}
"""Port -> the program that uses it by default."""
VARIABLE = "MADKE_LOCAL_PORTS"
"""Environment variable with the ports to ask instead, separated by commas; empty: none."""

_HOST = "127.0.0.1"
_SECONDS = 0.8
_MOST_BYTES = 256 << 10
_NAME = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)
_NOT_CHAT = re.compile(r"embed|rerank|whisper|\bbge\b|\be5\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalServer:
    """A server that answers at ``/v1/models``."""

    port: int
    program: str
    """The program whose port it is by default, or empty; another one may be there."""
    models: tuple[str, ...] = ()
    """Names of its models that a command line can hold, those that look like chat models first."""
    needs_key: bool = False

    @property
    def base_url(self) -> str:
        """Its address, for ``--base-url``."""
        return f"http://{_HOST}:{self.port}/v1"

    @property
    def command(self) -> str:
        """The command that asks its first model. A name from the server is quoted for the shell."""
        key = "OPENAI_API_KEY=... " if self.needs_key else ""
        model = quote(f"openai/{self.models[0]}") if self.models else "openai/NAME"
        return f'{key}madke ask "..." --model {model} --base-url {self.base_url}'


def find_servers(ports: Mapping[int, str] | None = None) -> tuple[LocalServer, ...]:
    """The servers on these ports of 127.0.0.1, all asked at once, in less than a second.

    Nothing is sent but a request without a key; redirects are not followed, and at most 256 kB of a reply are read.

    Args:
        ports: Port -> program. Default: the ports in ``MADKE_LOCAL_PORTS``, else :data:`PORTS`.
    """
    return asyncio.run(_ask_all(default_ports() if ports is None else ports))


def default_ports() -> Mapping[int, str]:
    """Port -> program, of the servers that are looked for."""
    chosen = os.environ.get(VARIABLE)
    if chosen is None:
        return PORTS
    named = [each.strip() for each in chosen.split(",") if each.strip()]
    if not all(each.isascii() and each.isdigit() and 0 < int(each) < 1 << 16 for each in named):
        raise UserError(f"{VARIABLE} is {chosen!r}; expected ports separated by commas, or nothing")
    return {int(each): PORTS.get(int(each), "") for each in named}


async def _ask_all(ports: Mapping[int, str]) -> tuple[LocalServer, ...]:
    import httpx2

    async with httpx2.AsyncClient(trust_env=False) as client:
        found = await asyncio.gather(*(_ask(client, port, program) for port, program in ports.items()))
    return tuple(server for server in found if server is not None)


async def _ask(client: httpx2.AsyncClient, port: int, program: str) -> LocalServer | None:
    import httpx2

    reply = bytearray()
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    try:
        async with (
            asyncio.timeout(_SECONDS),
            client.stream("GET", f"http://{_HOST}:{port}/v1/models", headers=headers) as response,
        ):
            async for piece in response.aiter_bytes():
                reply += piece
                if len(reply) > _MOST_BYTES:
                    return None
        content = json.loads(reply)
        if response.status_code in (401, 403):
            return LocalServer(port=port, program=program, needs_key=True) if "error" in content else None
        entries = content["data"] if response.status_code == 200 else None
    except (httpx2.HTTPError, OSError, TimeoutError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(entries, list):
        return None
    names = [name for entry in entries if (name := _name(entry))]
    return LocalServer(port=port, program=program, models=tuple(sorted(names, key=lambda n: bool(_NOT_CHAT.search(n)))))


def _name(entry: Any) -> str | None:
    """The name of a model, unless a command with it could be read as something else."""
    name = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ADDRESS.search(f"openai/{name}"):
        return None
    return name
