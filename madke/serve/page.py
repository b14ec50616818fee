"""The page: ask, watch a debate, read it again.

One HTML file, one style sheet, one script. The components are those of the report page.
"""

import asyncio
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from madke._util.assets import asset
from madke._util.concurrency import Tell
from madke.core import events
from madke.core.events import Event
from madke.data import read_dataset
from madke.retrieval.named import is_sample
from madke.serve.debates import DebateResponse, Debates, Served, data
from madke.serve.gate import body_of
from madke.serve.offers import Ask

_SCRIPTS = ("dom.js", "pool.js", "agreement.js", "calls.js", "debate.js")
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


class PageQuestion(BaseModel, extra="forbid", str_strip_whitespace=True):
    """A question that is asked at the page."""

    protocol: Annotated[str, Field(max_length=200)]
    question: str
    instructions: str = ""
    sources: Annotated[list[str], Field(max_length=100)] | None = None
    """Some of the protocol's; None: all."""
    retry: bool = False
    """Whether to go on with a debate whose connection was lost or that was cancelled."""


def page_routes(debates: Debates) -> list[Route]:
    """The routes of the page."""
    # Once: whether a source is the sample is read from files.
    offered = cache(lambda: [_protocol_entry(debates, name) for name in debates.offers.variants])

    async def transcript(request: Request) -> Response:
        """A finished debate with its passages: a page, JSON or text, as the header ``Accept`` asks."""
        accepted = request.headers.get("accept", "")
        if "text/html" in accepted:
            return HTMLResponse(
                _site("page.html"), headers={**SAFE, "vary": "accept"}
            )  # its script asks for the debate
        headers = {**SAFE, "cache-control": "private", "vary": "accept"}
        place = request.path_params
        named = (place["run"], place["question"], place["repeat"], request.query_params.get("token", ""))
        if "application/json" not in accepted:
            return PlainTextResponse(await debates.transcripts.text(*named), headers=headers)
        # As the report page reads it: [text, url, date] of each passage, the protocol and the models.
        debate, pool, run = await debates.transcripts.find(*named)
        passages = {(each.source, each.key): [each.text, each.url, each.date] for each in reversed(pool.passages)}
        texts = [passages.get((entry.source, entry.key)) for entry in debate.pool]
        about = {"protocol": run.variant, "models": [*dict.fromkeys(run.models.values())]}
        return JSONResponse(_json(debate) | {"texts": texts, **about}, headers=headers)

    async def choices(request: Request) -> Response:
        """What can be asked."""
        return JSONResponse(await asyncio.to_thread(offered))

    async def debate(request: Request) -> WatchedDebate:
        """Debate a question. The response is the stream of its events; closing it ends the debate."""
        return WatchedDebate(debates, request, await body_of(request, PageQuestion))

    async def page(request: Request) -> Response:
        return HTMLResponse(_site("page.html"), headers=SAFE)

    async def script(request: Request) -> Response:
        of_report = [_file("report", "page", "script", name) for name in _SCRIPTS]
        content = "\n".join([*of_report, *map(_site, _OWN_SCRIPTS)])
        return Response(content, media_type="text/javascript", headers=SAFE)

    async def style(request: Request) -> Response:
        content = "\n".join((_file("report", "page", "style.css"), _site("page.css")))
        return Response(content, media_type="text/css", headers=SAFE)

    return [
        Route("/", page),
        Route("/assets/page.js", script),
        Route("/assets/page.css", style),
        Route("/debates/{run}/{question}/{repeat:int}", transcript),
        Route("/page/choices", choices),
        Route("/page/debates", debate, methods=["POST"]),
    ]


class WatchedDebate(DebateResponse):
    """A debate as a stream of its events."""

    def __init__(self, debates: Debates, request: Request, body: PageQuestion) -> None:
        super().__init__(debates, request)
        self._body = body

    def read(self) -> Ask:
        """The question of the form."""
        return Ask(**self._body.model_dump())

    async def work(self, tell: Tell) -> Served:
        """Debate; ``tell`` gets the events."""
        return await self.turn.debate(self.ask, tell, deltas=True)

    def line(self, part: Event | Served) -> bytes:
        """An event with its name, as JSON. Prompts are not sent."""
        match part:
            case Served():
                return data({"event": "Ended", "transcript": self.debates.transcripts.address(part, self.request)})
            case events.DebateStarted() | events.CallFinished():
                return b""  # the pool came before, the reply comes as a stance or a verdict
            case events.PoolReady(pool=pool):
                passages = [*enumerate(pool.passages)]
                fields: dict[str, Any] = {
                    "pool": [{"n": n, "source": p.source, "key": p.key, "title": p.title} for n, p in passages],
                    "texts": [[p.text, p.url, p.date] for _, p in passages],
                    "partial": dict(pool.partial),
                }
            case events.CallStarted(purpose=purpose) | events.CallDelta(purpose=purpose):
                fields = {"stage": purpose.stage, "agent": purpose.agent, "n": purpose.round}
                fields |= {"text": part.text} if isinstance(part, events.CallDelta) else {}
            case _:
                fields = _json(part)
        return data({"event": type(part).__name__, **fields})


def _file(*path: str) -> str:
    return files("madke").joinpath(*path).read_text(encoding="utf-8")


def _site(name: str) -> str:
    return _file("serve", "site", name)


def _protocol_entry(debates: Debates, name: str) -> dict[str, Any]:
    """A protocol for the form, with questions that its sources can answer: those of the sample, if it is searched."""
    record, examples = debates.offers.spec(name), []
    if any(is_sample(*source) for source in record.source_specs.items()):
        examples = [each.question for each in read_dataset(asset("eval", "samples", "questions.jsonl"), limit=3)]
    return {
        "name": name,
        "debaters": [each.name for each in record.protocol.cast],
        "sources": [*record.source_specs],
        "models": [*dict.fromkeys(record.models.values())],
        "examples": examples,
    }


def _json(record: Any) -> dict[str, Any]:
    """The record without default values."""
    kind: Any = type(record)
    fields: dict[str, Any] = _adapter(kind).dump_python(record, mode="json", exclude_defaults=True)
    return fields


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
