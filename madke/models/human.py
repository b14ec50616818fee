"""A person at the terminal, as a chat model: the prompt is printed, and the reply is read line by line."""

import asyncio
import shutil
import signal
import time
from textwrap import fill

from madke._util.concurrency import in_thread
from madke._util.terminal import printable, say
from madke.core.chat import ChatRequest, Completion

ASK_REPLY = "Your reply (an empty line ends it, Ctrl-D leaves): "

_NARROWEST = 40


class HumanChat:
    """A person who reads each prompt on stderr and types the whole reply, one request at a time.

    Ctrl-D ends the command as Ctrl-C does; the same command goes on.
    """

    name = "human"

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def complete(self, request: ChatRequest) -> Completion:
        """Show the request to the person and wait for the reply."""
        async with self._turn:
            started = time.monotonic()
            try:
                # The loop's own threads are joined at exit, so Ctrl-C would wait for Enter.
                text = await asyncio.wrap_future(in_thread(lambda: _reply(request)))
            except EOFError:
                signal.raise_signal(signal.SIGINT)  # without effect in a background job of a script, which ignores it
                raise asyncio.CancelledError from None
        return Completion(text=text, seconds=time.monotonic() - started)


def _reply(request: ChatRequest) -> str:
    purpose = request.purpose
    _show(f"\n--- {purpose.agent}, round {purpose.round}: {purpose.stage} ---")
    for message in request.messages:
        _show(f"You said: {message.content}" if message.role == "assistant" else message.content)
    lines: list[str] = []
    while True:
        say("" if lines else ASK_REPLY, err=True, end="")
        try:
            line = input().strip()
        except EOFError:
            say("", err=True)
            raise
        if line:
            lines.append(line)
        elif lines:
            return "\n".join(lines)
        else:
            _show("Type at least one line.")


def _show(text: str) -> None:
    width = max(_NARROWEST, shutil.get_terminal_size().columns - 1)
    say("\n".join(fill(line, width) for line in printable(text).splitlines()), err=True)
