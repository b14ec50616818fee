"""A person at the terminal, as a chat model."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.events import DebateFinished, Event, Listener, StanceGiven, VerdictGiven, never_raising
from madke.terminal import say

if TYPE_CHECKING:
    from madke.engine.protocol import Protocol


class HumanChat:
    """A person who is shown what a debater needs and is asked for each part of a reply, one request at a time.

    Args:
        ask: Shows a label and returns the line typed; called in a thread. It raises EOFError when the person leaves,
            which fails the call. Default: the terminal, where leaving (Ctrl-D) ends the command as Ctrl-C does.
        show: Shows a text. Default: on stderr.
    """

    name = "human"

    def __init__(self, ask: Callable[[str], str] | None = None, show: Callable[[str], None] | None = None) -> None:
        from madke.llm.human_dialogue import Dialogue

        self._at_terminal = ask is None
        self._dialogue = Dialogue(ask or ask_terminal, show or _show)
        self._turn = asyncio.Lock()
        self._busy = False
        self._roles: frozenset[str] = frozenset()
        self._debates = False
        self._reads_all = False
        self._held: list[Event] = []
        self._spoken: dict[tuple[str, int], float] = {}
        """(Question, repeat) -> the last round in which the person has spoken."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Show the request to the person and wait for the reply."""
        async with self._turn:
            started = time.monotonic()
            self._busy = True
            try:
                text = await _in_daemon_thread(lambda: self._dialogue.reply(request))
            except EOFError:
                if not self._at_terminal:
                    return Completion(outcome="failed", error="the person left", finish_reason="error")
                signal.raise_signal(signal.SIGINT)
                raise asyncio.CancelledError from None
            finally:
                self._busy = False
            self._show_held()
        return Completion(text=text, seconds=time.monotonic() - started)

    def sit(self, roles: frozenset[str], protocol: Protocol) -> None:
        """Take these roles of a debate, whose events :meth:`hear` gets."""
        from madke.llm.human_reply import reads_all

        self._roles = roles
        self._debates = not roles.isdisjoint(debater.name for debater in protocol.cast)
        self._reads_all = reads_all(protocol)

    def hear(self, event: Event) -> None:
        """Show the turns of the others as they end: of a round after the person's own turn, and not at a prompt."""
        if isinstance(event, StanceGiven) and event.agent in self._roles:
            self._spoken[event.question, event.repeat] = event.n
        elif isinstance(event, VerdictGiven | DebateFinished) or (isinstance(event, StanceGiven) and self._reads_all):
            self._held.append(event)
        if not self._busy:
            self._show_held()

    def _show_held(self) -> None:
        held, self._held = self._held, []
        for event in held:
            before = 0 if self._debates else math.inf
            if isinstance(event, StanceGiven) and event.n > self._spoken.get((event.question, event.repeat), before):
                self._held.append(event)
            else:
                self._dialogue.tell(event)


def with_people(models: Mapping[str, ChatModel], protocol: Protocol, listen: Listener) -> Listener:
    """A listener that also tells the people among the models; ``listen`` itself if there are none."""
    listeners = [listen]
    for person in people_in(models):
        person.sit(frozenset(role for role, model in models.items() if model == person), protocol)
        listeners.append(person.hear)

    def hear(event: Event) -> None:
        for each in listeners:
            each(event)

    return never_raising(hear) if people_in(models) else listen


def people_in(models: Mapping[str, ChatModel]) -> set[HumanChat]:
    """The people among the models, also as a caller's own objects."""
    return {cast(HumanChat, model) for model in models.values() if hasattr(model, "hear")}


def ask_terminal(label: str) -> str:
    """Show a label on stderr and read a line from stdin. EOFError without further input."""
    say(label, err=True, end="")
    try:
        return input()
    except EOFError:
        say("", err=True)
        raise


def _show(text: str) -> None:
    say(text, err=True)


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
