"""An OpenAI-compatible server for benchmarks: ``python -m eval.benchmarks.server SECONDS`` prints its port.

Each call takes so many seconds, 0 by default. ``GET /calls`` is answered with their number so far. Debaters always
agree, so a question of MADKE with a pool takes 2 * 2 + 1 = 5 calls: its judge is not asked.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

_REPLY_TOKENS = 10
_ANSWER = "The answer is [Lake Baikal]."
_COUNTED = 10_000_000
"""Stands for the prompt's token count, which each reply replaces: a client takes a count that is far too low for a cut
prompt."""
_TOTAL = 20_000_000


def _body(text: str) -> bytes:
    usage = {"prompt_tokens": _COUNTED, "completion_tokens": _REPLY_TOKENS, "total_tokens": _TOTAL}  # Inspect needs all
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    completion = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    body = json.dumps(completion).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_REPLIES = (
    # Of a request with a JSON schema, by a field of it.
    (re.compile(rb'"selected":\s*\{'), _body('{"reasoning": "It says so.", "selected": [0]}')),
    (re.compile(rb'"verdict":\s*\{'), _body('{"reasoning": "They are equal.", "verdict": "SAME"}')),
    (re.compile(rb'"answer":\s*\{'), _body('{"reasoning": "Both say so.", "answer": "Lake Baikal"}')),
    # Of a request without one.
    (re.compile(b"Selected:"), _body("Selected: 0")),
    (re.compile(b"Verdict: SAME"), _body("Verdict: SAME")),
)
_DEFAULT = _body(_ANSWER)
_calls = 0


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency: float) -> None:
    global _calls
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            # Whether it is there is asked without a body.
            length = next((line for line in lines if line.startswith(b"content-length:")), b"content-length:0")
            request = await reader.readexactly(int(length.partition(b":")[2]))
            if head.startswith(b"GET /calls "):
                body = b"%d" % _calls
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                await writer.drain()
                continue
            _calls += head.startswith(b"POST ")
            if latency:
                await asyncio.sleep(latency)
            reply = next((reply for marker, reply in _REPLIES if marker.search(request)), _DEFAULT)
            # About four characters a token. The number is padded, so that the reply keeps its length.
            tokens = len(request) // 4
            counted = reply.replace(b"%d" % _COUNTED, b"%8d" % tokens)
            writer.write(counted.replace(b"%d" % _TOTAL, b"%8d" % (tokens + _REPLY_TOKENS)))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main(latency: float) -> None:
    server = await asyncio.start_server(lambda r, w: _serve(r, w, latency), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
