"""The page: ask, watch a debate, read it again.

One HTML file, one style sheet, one script. The components are those of the report page.
"""

import asyncio
import json
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field, TypeAdapter
from starlette.responses import Response

from madke._util.assets import asset
from madke._util.concurrency import Tell
from madke.core import events
from madke.core.events import Event
from madke.core.transcript import Transcript
from madke.data import read_dataset
from madke.knowledge.named import is_sample
from madke.runs.spec import RunSpec
from madke.serve.debates import Debates
from madke.serve.offers import Ask
from madke.serve.streaming import Debating, data
from madke.serve.transcripts import FoundDebate, ListedDebate, Served
from madke.serve.wire import ERRORS, Body

_SCRIPTS = ("dom.js", "theme.js", "quotes.js", "pool.js", "agreement.js", "conflicts.js", "calls.js", "debate.js")
"""Of the report."""

_OWN_SCRIPTS = ("server.js", "live.js", "page.js")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)

SAFE = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
"""Headers of the page and its files."""


_EXAMPLES = 3


class OfferedProtocol(BaseModel):
    """A protocol that the page offers."""

    name: str
    debaters: list[str]
    sources: list[str]
    models: list[str]
    examples: list[str]
    """Questions that its sources can answer: those of the shipped sample, if it is searched."""


class PageQuestion(Body, extra="forbid"):
    """A question that is asked at the page."""

    protocol: str
    question: Annotated[str, Field(min_length=1, max_length=100_000)]
    instructions: Annotated[str, Field(max_length=100_000)] = ""
    sources: Annotated[list[str], Field(max_length=100)] | None = None
    """Some of the protocol's; None: all."""
    retry: bool = False
    """Whether to go on with a debate whose connection was lost or that was cancelled."""


def page_routes(debates: Debates, *, lists: bool) -> APIRouter:
    """The routes of the page. ``lists``: whether whoever may ask also reads the latest debates of others."""
    routes = APIRouter(responses=ERRORS, tags=["page"])
    offers = debates.offers
    # Once: whether a source is the sample is read from files.
    offered = cache(lambda: [_offered(name, offers.spec(name)) for name in offers.variants])

    routes.include_router(_files())

    @routes.get(
        "/debates/{run}/{question}/{repeat}",
        response_model=None,
        responses=_sends("text/plain", "text/html", "application/json"),
    )
    async def transcript(request: Request, run: str, question: str, repeat: int, token: str = "") -> Response:
        """A finished debate with its passages: a page, JSON or text, as the header ``Accept`` asks."""
        accepted = request.headers.get("accept", "")
        headers = {**SAFE, "cache-control": "private", "vary": "accept"}
        if "text/html" in accepted:
            return _page(vary="accept")  # its script asks for the debate
        if "application/json" in accepted:
            found = await debates.transcripts.found(run, question, repeat, token)
            return JSONResponse(_debate_json(found), headers=headers)
        return PlainTextResponse(await debates.transcripts.text(run, question, repeat, token), headers=headers)

    @routes.get("/page/choices")
    async def choices() -> list[OfferedProtocol]:
        """What can be asked."""
        return await asyncio.to_thread(offered)

    @routes.get("/page/debates")
    async def latest() -> list[ListedDebate]:
        """The latest debates, newest first; none if they are not for all who may ask."""
        places = [*reversed(debates.ledger.latest)] if lists else []
        return await debates.transcripts.listed(places)

    @routes.post("/page/debates", response_model=None, responses=_sends("text/event-stream"))
    async def debate(body: PageQuestion, request: Request) -> Response:
        """Debate a question. The response is the stream of its events; closing it ends the debate."""
        return Watched(debates, request, body)

    return routes


def _files() -> APIRouter:
    """The page, its script and its style."""
    routes = APIRouter()

    @routes.get("/", response_model=None, responses=_sends("text/html"))
    async def page() -> Response:
        """The page."""
        return _page()

    @routes.get("/assets/page.js", response_model=None, responses=_sends("text/javascript"))
    async def script() -> Response:
        """Its script."""
        of_report = [_file("report", "page", "script", name) for name in _SCRIPTS]
        content = "\n".join([*of_report, *map(_site, _OWN_SCRIPTS)])
        return Response(content, media_type="text/javascript", headers=SAFE)

    @routes.get("/assets/page.css", response_model=None, responses=_sends("text/css"))
    async def style() -> Response:
        """Its style."""
        content = "\n".join((_file("report", "page", "style.css"), _site("page.css")))
        return Response(content, media_type="text/css", headers=SAFE)

    return routes


class Watched(Debating):
    """A debate as a stream of its events."""

    def __init__(self, debates: Debates, request: Request, body: PageQuestion) -> None:
        ask = Ask(
            protocol=body.protocol,
            question=body.question.strip(),
            instructions=body.instructions.strip(),
            sources=body.sources,
            retry=body.retry,
        )
        super().__init__(debates, request, ask)

    async def work(self, tell: Tell) -> Served:
        """Debate; ``tell`` gets the events."""
        return await self.turn.debate(self.ask, tell, deltas=True)

    def line(self, part: Event | Served) -> bytes:
        """An event as JSON."""
        match part:
            case Served():
                address = self.debates.transcripts.address(part, self.request)
                content: dict[str, Any] | None = {"event": "Ended", "transcript": address}
            case _:
                content = _event_json(part)
        return b"" if content is None else data(json.dumps(content))


def _page(**headers: str) -> Response:
    """The page, at any of its addresses."""
    return HTMLResponse(_site("page.html"), headers={**SAFE, **headers})


def _sends(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: a success has one of these content types."""
    return {200: {"content": {kind: {} for kind in kinds}, "description": "Success."}}


def _file(*path: str) -> str:
    return files("madke").joinpath(*path).read_text(encoding="utf-8")


def _site(name: str) -> str:
    return _file("serve", "site", name)


def _event_json(event: events.Event) -> dict[str, Any] | None:
    """An event with its name; None for one that the page does not need. Prompts are not sent."""
    match event:
        case events.DebateStarted() | events.CallFinished():
            return None  # the pool came before, the reply comes as a stance or a verdict
        case events.PoolReady(pool=pool):
            fields: dict[str, Any] = {
                "pool": [
                    {"n": n, "source": each.source, "key": each.key, "title": each.title}
                    for n, each in enumerate(pool.passages)
                ],
                "texts": [[each.text, each.url, each.date] for each in pool.passages],
                "partial": dict(pool.partial),
            }
        case events.CallStarted(purpose=purpose):
            fields = {"stage": purpose.stage, "agent": purpose.agent, "n": purpose.round}
        case events.CallDelta(purpose=purpose, text=text):
            fields = {"stage": purpose.stage, "agent": purpose.agent, "n": purpose.round, "text": text}
        case events.DebateFinished(transcript=transcript):
            fields = {"transcript": _json(transcript)}
        case _:
            fields = _json(event)
    return {"event": type(event).__name__, **fields}


def _debate_json(found: FoundDebate) -> dict[str, Any]:
    """A debate as the report page reads it, with what debated it.

    The transcript, ``[text, url, date]`` of each passage of its pool, the protocol and the models.
    """
    held = {(each.source, each.key): [each.text, each.url, each.date] for each in reversed(found.pool.passages)}
    texts = [held.get((entry.source, entry.key)) for entry in found.transcript.pool]
    return _json(found.transcript) | {"texts": texts, "protocol": found.spec.variant, "models": _models_of(found.spec)}


def _offered(name: str, spec: RunSpec) -> OfferedProtocol:
    is_of_sample = any(is_sample(*source) for source in spec.source_specs.items())
    return OfferedProtocol(
        name=name,
        debaters=[each.name for each in spec.protocol.cast],
        sources=list(spec.source_specs),
        models=_models_of(spec),
        examples=_examples() if is_of_sample else [],
    )


def _models_of(spec: RunSpec) -> list[str]:
    """The models of all roles, each once."""
    return [*dict.fromkeys(spec.models.values())]


@cache
def _examples() -> list[str]:
    """The first questions of the shipped sample."""
    return [
        question.question for question in read_dataset(asset("eval", "samples", "questions.jsonl"), limit=_EXAMPLES)
    ]


def _json(record: events.Event | Transcript) -> dict[str, Any]:
    """The record without default values."""
    kind: Any = type(record)
    fields: dict[str, Any] = _adapter(kind).dump_python(record, mode="json", exclude_defaults=True)
    return fields


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
