"""A person at the terminal, as a chat model."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from textwrap import shorten
from typing import Any

from madke.core.chat import ChatRequest, Completion
from madke.terminal import printable, say

SILENCE = "silence"
"""Finish reason of an empty reply of a person. Such a call is not repeated."""

_SYSTEM_SHOWN = 200
"""Number of characters of the system message shown to a person. The rest is written for models."""


class HumanChat:
    """A person who reads the prompt and types the reply, one request at a time.

    Args:
        ask: Shows a text and returns the reply; called in a thread. It raises EOFError when the person leaves, which
            fails the call. Default: the terminal, with the text on stderr; an empty line ends the reply.
    """

    name = "human"

    def __init__(self, ask: Callable[[str], str] | None = None) -> None:
        self._ask = ask or ask_terminal
        self._turn = asyncio.Lock()

    async def complete(self, request: ChatRequest) -> Completion:
        """Show the request to the person and wait for the reply."""
        async with self._turn:
            started = time.monotonic()
            try:
                text = await _in_daemon_thread(lambda: self._ask(_shown(request)))
            except EOFError:
                return Completion(outcome="failed", error="the person left", finish_reason="error")
        seconds = time.monotonic() - started
        if not text.strip():
            return Completion(outcome="empty", error="the person said nothing", finish_reason=SILENCE, seconds=seconds)
        return Completion(text=text, seconds=seconds)


def ask_terminal(shown: str) -> str:
    """Show a text on stderr and read lines from stdin up to an empty line; EOFError if there is no input."""
    say(f"\n{shown}\n\nYour reply; an empty line ends it:", err=True)
    lines: list[str] = []
    while not lines or lines[-1].strip():
        try:
            lines.append(input())
        except EOFError:
            if not lines:
                raise
            break
    return "\n".join(lines).rstrip()


def _shown(request: ChatRequest) -> str:
    parts = [f"--- {request.purpose.agent}: {request.purpose.stage}, round {request.purpose.round} ---"]
    for message in request.messages:
        if message.role == "system":
            parts.append(shorten(message.content, _SYSTEM_SHOWN, placeholder="..."))
        else:
            parts.append(message.content if message.role == "user" else f"You said: {message.content}")
    return printable("\n\n".join(parts))


async def _in_daemon_thread(ask: Callable[[], str]) -> str:
    """Run ``ask`` in a daemon thread. The loop's threads are joined at exit, so Ctrl-C would wait for Enter."""
    loop = asyncio.get_running_loop()
    reply: asyncio.Future[str] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: object) -> None:
        if not reply.done():
            set_it(value)

    def work() -> None:
        try:
            outcome: tuple[Callable[[Any], None], object] = reply.set_result, ask()
        except BaseException as error:
            outcome = reply.set_exception, error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name="human", daemon=True).start()
    return await reply
