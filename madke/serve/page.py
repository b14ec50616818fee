"""The page: ask, watch a debate, take part in it, read its transcript.

One HTML file, one style sheet, one script. The components are those of the report page.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, closing
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from madke.core.errors import UserError
from madke.core.events import Event
from madke.serve.debate_json import event_json
from madke.serve.debates import Ask, Served, Turn
from madke.serve.person import Part, PersonAtPage
from madke.serve.streaming import KEEP_ALIVE, send_all, start_stream, told, unless_gone
from madke.serve.wire import ErrorBody, Refusal

if TYPE_CHECKING:
    from madke.serve.app import State

_SCRIPTS = ("dom.js", "theme.js", "quotes.js", "pool.js", "debate.js")
"""Of the report."""

_OWN_SCRIPTS = ("server.js", "live.js", "join.js", "page.js")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)

_SAFE = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
"""Headers of the page and its files."""

_ERRORS = (400, 401, 403, 404, 413, 429, 503)


class Choice(BaseModel):
    """A protocol that the page offers."""

    name: str
    debaters: list[str]
    """The roles that a person can take."""
    sources: list[str]


class Choices(BaseModel):
    """What the page offers."""

    protocols: list[Choice]


class Asked(BaseModel):
    """A question that is asked at the page."""

    model_config = ConfigDict(extra="forbid")

    protocol: str
    question: Annotated[str, Field(min_length=1, max_length=100_000)]
    instructions: Annotated[str, Field(max_length=100_000)] = ""
    sources: Annotated[list[str], Field(max_length=100)] | None = None
    """Some of the protocol's; None: all."""
    role: str | None = None
    """The debater that the person takes; None: only watches."""
    retry: bool = False
    """Whether to go on with a debate whose connection was lost or that was cancelled."""


def router(state: State) -> APIRouter:
    """The routes of the page."""
    routes = APIRouter(responses={status: {"model": ErrorBody} for status in _ERRORS}, tags=["page"])
    people: dict[str, PersonAtPage] = {}

    @routes.get("/", response_model=None, responses=_sends("text/html"))
    async def page() -> Response:
        """The page."""
        return page_response()

    @routes.get("/assets/page.js", response_model=None, responses=_sends("text/javascript"))
    async def script() -> Response:
        """Its script."""
        content = "\n".join(
            [*(_report_file(f"script/{name}") for name in _SCRIPTS), *(_own_file(name) for name in _OWN_SCRIPTS)]
        )
        return Response(content, media_type="text/javascript", headers=_SAFE)

    @routes.get("/assets/page.css", response_model=None, responses=_sends("text/css"))
    async def style() -> Response:
        """Its style."""
        return Response(f"{_report_file('style.css')}\n{_own_file('page.css')}", media_type="text/css", headers=_SAFE)

    @routes.get("/page/choices")
    async def choices() -> Choices:
        """What can be asked."""
        specs = {name: state.debates.spec(name) for name in state.debates.variants}
        listed = [
            Choice(name=name, debaters=[each.name for each in spec.protocol.cast], sources=list(spec.source_specs))
            for name, spec in specs.items()
        ]
        return Choices(protocols=listed)

    @routes.post("/page/debates", response_model=None, responses=_sends("text/event-stream"))
    async def debate(body: Asked, request: Request) -> Response:
        """Debate a question. The response is the stream of its events; closing it ends the debate."""
        protocol = state.debates.spec(body.protocol).protocol
        if not body.question.strip():
            raise Refusal(400, "the question is empty", param="question")
        if body.role is not None and body.role not in [each.name for each in protocol.cast]:
            raise Refusal(400, f"{body.protocol} has no debater {body.role!r}", param="role")
        ask = Ask(
            protocol=body.protocol,
            question=body.question.strip(),
            instructions=body.instructions.strip(),
            sources=body.sources,
            retry=body.retry,
        )
        watched = Watched(state.debates.turn().__enter__(), ask, lambda served: state.transcript_url(request, served))
        if body.role is not None:
            watched.join(PersonAtPage(body.role, protocol, watched.tell), people)
        return watched

    @routes.post("/page/debates/{debate}/parts", status_code=204, response_model=None)
    async def part(debate: str, body: Part) -> Response:
        """What a person says who takes part in a debate."""
        if debate not in people:
            raise Refusal(404, "there is no such debate, or it has ended", code="debate_not_found")
        try:
            people[debate].take(body)
        except UserError as error:
            raise Refusal(400, str(error)) from None
        return Response(status_code=204)

    return routes


class Watched(Response):
    """A debate as a stream of its events. It goes on as long as the client is there.

    Args:
        turn: The request's turn, entered.
        ask: The question.
        address: Gives the address of a debate's transcript.
    """

    def __init__(self, turn: Turn, ask: Ask, address: Callable[[Served], str]) -> None:
        super().__init__()
        self.id = secrets.token_urlsafe(16)
        self.turn = turn
        self.ask = ask
        self.address = address
        self.person: PersonAtPage | None = None
        self._people: dict[str, PersonAtPage] = {}
        self._parts: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()

    def join(self, person: PersonAtPage, people: dict[str, PersonAtPage]) -> None:
        """Let a person take part, who can be found among ``people`` while the debate goes on."""
        self.person, self._people = person, people
        self.ask = replace(self.ask, cast={person.role: person})

    def tell(self, content: Mapping[str, Any]) -> None:
        """Send this to the page."""
        self._parts.put_nowait(content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, unless the client goes away first."""
        with closing(self.turn):
            if self.person is not None:
                self._people[self.id] = self.person
            try:
                await unless_gone(receive, self._stream(send))
            finally:
                self._people.pop(self.id, None)

    async def _stream(self, send: Send) -> None:
        await start_stream(send, {})
        async with aclosing(self._lines()) as lines:
            await send_all(send, lines)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self.turn.delivered()

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        """The stream. A comment breaks each silence, from the start."""
        yield KEEP_ALIVE + _line({"event": "Opened", "id": self.id})
        work = asyncio.create_task(self.turn.debate(self.ask, self._hear, deltas=True))
        async with aclosing(told(work, self._parts)) as parts:
            async for part in parts:
                yield KEEP_ALIVE if part is None else _line(part)
        try:
            yield _line({"event": "Ended", "transcript": self.address(await work)})
        except Refusal as refusal:
            yield _line({"event": "Refused", "message": refusal.error.error.message})

    def _hear(self, event: Event) -> None:
        for each in (event,) if self.person is None else self.person.seen(event):
            if (content := event_json(each)) is not None:
                self.tell(content)


def page_response(**headers: str) -> Response:
    """The page, at any of its addresses."""
    return HTMLResponse(_own_file("page.html"), headers={**_SAFE, **headers})


def _sends(kind: str) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: a success has this content type."""
    return {200: {"content": {kind: {}}, "description": "Success."}}


def _line(content: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


def _report_file(name: str) -> str:
    return (files("madke.report") / "page" / name).read_text(encoding="utf-8")


def _own_file(name: str) -> str:
    return (files("madke.serve") / "site" / name).read_text(encoding="utf-8")
