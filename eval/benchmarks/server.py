"""An OpenAI-compatible server for benchmarks, without latency: ``python -m eval.benchmarks.server`` prints its port.

Debaters always agree, so a question of MADKE with a pool takes 2 * 2 + 1 = 5 calls: its judge is not asked.
"""

from __future__ import annotations

import asyncio
import json
import re

_REPLY_TOKENS = 10
_COUNTED = 10_000_000
"""Stands for the prompt's token count, which each reply replaces: a client takes a count that is far too low for a cut
prompt."""


def _reply(text: str) -> bytes:
    usage = {"prompt_tokens": _COUNTED, "completion_tokens": _REPLY_TOKENS}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    completion = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    body = json.dumps({**completion, "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_REPLIES = (
    # Of a request with a JSON schema, by a field of it.
    (re.compile(rb'"selected":\s*\{'), _reply('{"reasoning": "It says so.", "selected": [0]}')),
    (re.compile(rb'"answer":\s*\{'), _reply('{"reasoning": "Both say so.", "answer": "Lake Baikal"}')),
    # Of a request without one.
    (re.compile(b"Selected:"), _reply("Selected: 0")),
)
_STANCE = _reply("The answer is [Lake Baikal].")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            # Whether it is there is asked without a body.
            length = next((line for line in lines if line.startswith(b"content-length:")), b"content-length:0")
            request = await reader.readexactly(int(length.partition(b":")[2]))
            reply = next((reply for marker, reply in _REPLIES if marker.search(request)), _STANCE)
            # About four characters a token. The number is padded, so that the reply keeps its length.
            writer.write(reply.replace(b"%d" % _COUNTED, b"%8d" % (len(request) // 4)))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
