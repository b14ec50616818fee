"""A debater at the page: what it is asked, what it sees of the debate, and what it sends."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import Field

from madke.core import events
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.stage import Stage
from madke.engine.protocol import Protocol
from madke.llm import human as human_reply
from madke.serve.wire import Body
from madke.tasks.choice import lettered

_LONGEST_REPLY = 100_000


class PersonReply(Body, extra="forbid"):
    """What a person sends when it is asked. Each kind of question reads its own fields."""

    turn: int
    """Which question it answers."""
    numbers: list[int] = Field(default=[], max_length=1000)
    """Passages chosen."""
    query: str = Field(default="", max_length=_LONGEST_REPLY)
    """What to search for."""
    answer: str = Field(default="", max_length=_LONGEST_REPLY)
    reasons: str = Field(default="", max_length=_LONGEST_REPLY)
    same: bool | None = None
    """A judge's verdict."""
    text: str = Field(default="", max_length=_LONGEST_REPLY)
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
        self._request: ChatRequest | None = None
        self._reply: asyncio.Future[str] | None = None
        self._spoken = 0
        self._held: list[events.Event] = []

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask the person and wait for a reply that can be read."""
        async with self._asked:
            started = time.monotonic()
            self._turn += 1
            self._request = request
            self._reply = asyncio.get_running_loop().create_future()
            self.show(_question(self._turn, request))
            text = await self._reply
        return Completion(text=text, seconds=time.monotonic() - started)

    def take(self, part: PersonReply) -> None:
        """What the person sent; UserError, with a word to the person, if it cannot be read."""
        if self._reply is None or self._request is None or self._reply.done() or part.turn != self._turn:
            raise UserError("This has been answered already.")
        self._reply.set_result(_reply(self._request.stage, part))

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


def _question(turn: int, request: ChatRequest) -> dict[str, Any]:
    stage = request.stage or Stage(name=request.purpose.stage, question=Question(question=""))
    kind = human_reply.asked_kind(stage) if request.stage else "free"
    messages = [{"role": each.role, "content": each.content} for each in request.messages]
    return {
        "event": "YourTurn",
        "turn": turn,
        "kind": kind,
        "agent": request.purpose.agent,
        "round": request.purpose.round,
        "limit": stage.max_selected,
        "search": stage.allow_search,
        "form": stage.form,
        "options": lettered(stage.question.choices),
        "knowledge": [{"n": each.number, "title": each.title, "text": each.text} for each in stage.passages],
        "remarks": [{"who": each.agent or "another agent", "text": each.text or each.answer} for each in stage.newest],
        "role": [stage.persona] if stage.persona else [],
        "messages": messages if kind == "free" else [],
    }


def _reply(stage: Stage | None, part: PersonReply) -> str:
    match human_reply.asked_kind(stage) if stage else "free":
        case "select" if stage:
            return human_reply.selection(stage, part.numbers, part.query)
        case "answer" if stage:
            return human_reply.answer(stage, part.answer.strip(), part.reasons.strip())
        case "verdict" if part.same is not None:
            return human_reply.verdict(part.same)
        case "free" if part.text.strip():
            return part.text.strip()
    raise UserError("Nothing was chosen or written.")
