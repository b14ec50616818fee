"""A person at the page as a chat model: each call waits for what the page sends."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, Field

from madke.core import events
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.engine.protocol import Protocol
from madke.llm import human as human_reply
from madke.llm.offline.prompt_reader import Prompt, read_prompt

_LONGEST = 100_000


class Part(BaseModel, extra="forbid"):
    """What a person sends when it is asked. Each kind of question reads its own fields."""

    turn: int
    """Which question it answers."""
    numbers: list[int] = Field(default=[], max_length=1000)
    """Passages chosen."""
    query: str = Field(default="", max_length=_LONGEST)
    """What to search for."""
    answer: str = Field(default="", max_length=_LONGEST)
    reasons: str = Field(default="", max_length=_LONGEST)
    same: bool | None = None
    """A judge's verdict."""
    text: str = Field(default="", max_length=_LONGEST)
    """A whole reply."""


class PersonAtPage:
    """A debater at the page. The counterpart at the terminal is :class:`madke.llm.human.HumanChat`."""

    name = "human"

    show: Callable[[dict[str, Any]], None]
    """Gets each question to the person, as JSON values."""

    def __init__(self, role: str, protocol: Protocol) -> None:
        self.role = role
        self._reads_all = human_reply.reads_all(protocol)
        self._asked = asyncio.Lock()
        self._turn = 0
        self._prompt: Prompt | None = None
        self._reply: asyncio.Future[str] | None = None
        self._spoken = 0
        self._held: list[events.Event] = []

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask the person and wait for a reply that can be read."""
        async with self._asked:
            started = time.monotonic()
            self._turn += 1
            self._prompt = read_prompt(request.messages)
            self._reply = asyncio.get_running_loop().create_future()
            self.show(_question(self._turn, request, self._prompt))
            text = await self._reply
        return Completion(text=text, seconds=time.monotonic() - started)

    def take(self, part: Part) -> None:
        """What the person sent; UserError, with a word to the person, if it cannot be read."""
        if self._reply is None or self._prompt is None or self._reply.done() or part.turn != self._turn:
            raise UserError("This has been answered already.")
        self._reply.set_result(_reply(self._prompt, part))

    def seen(self, event: events.Event) -> Iterator[events.Event]:
        """What the person sees of the debate now: of a round of others only after the own turn, as at the terminal."""
        if isinstance(event, events.StanceGiven) and event.agent == self.role:
            self._spoken = event.n
        self._held.append(event)
        held, self._held = self._held, []
        finished = isinstance(event, events.DebateFinished)
        for each in held:
            if finished or self._may_see(each):
                yield each
            else:
                self._held.append(each)

    def _may_see(self, event: events.Event) -> bool:
        match event:
            case events.SelectionMade() | events.SearchMade() | events.StanceGiven():
                known = self._reads_all and event.n <= self._spoken
                return known or event.agent == self.role
            case events.CallDelta(purpose=purpose):
                return self._reads_all and purpose.round <= self._spoken
            case events.VerdictGiven() | events.RoundEnded():
                return self._reads_all
            case _:
                return True


def _question(turn: int, request: ChatRequest, prompt: Prompt) -> dict[str, Any]:
    kind = human_reply.kind_of(prompt)
    own = [part.content for part in request.messages if part.role == "system" and "\n\n" in part.content]
    messages = [{"role": each.role, "content": each.content} for each in request.messages]
    return {
        "event": "YourTurn",
        "turn": turn,
        "kind": kind,
        "agent": request.purpose.agent,
        "round": request.purpose.round,
        "limit": prompt.limit,
        "search": human_reply.may_search(prompt),
        "form": prompt.form,
        "options": prompt.options,
        "knowledge": [{"n": each.number, "title": each.title, "text": each.text} for each in prompt.knowledge],
        "remarks": [{"who": each.who, "text": each.text} for each in prompt.remarks],
        "role": own,
        "messages": messages if kind == "free" else [],
    }


def _reply(prompt: Prompt, part: Part) -> str:
    match human_reply.kind_of(prompt):
        case "select":
            return human_reply.selection(prompt, part.numbers, part.query)
        case "answer":
            return human_reply.answer(prompt, part.answer.strip(), part.reasons.strip())
        case "verdict" if part.same is not None:
            return human_reply.verdict(part.same)
        case "free" if part.text.strip():
            return part.text.strip()
    raise UserError("Nothing was chosen or written.")
