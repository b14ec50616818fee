"""The page: ask, watch a debate, read it again.

One HTML file, one style sheet, one script. The components are those of the report page.
"""

import asyncio
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter
from pydantic_core import to_jsonable_python
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from madke._util.assets import asset
from madke._util.concurrency import Tell
from madke.core import events
from madke.core.events import Event
from madke.core.transcript import Transcript
from madke.data import read_dataset
from madke.retrieval.named import is_sample
from madke.runs.record import RunRecord
from madke.serve.debates import Debates
from madke.serve.offers import Ask
from madke.serve.refusals import body_of
from madke.serve.streaming import DebateResponse, data
from madke.serve.transcripts import FoundDebate, Served

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


_EXAMPLES = 3


class PageQuestion(BaseModel, extra="forbid"):
    """A question that is asked at the page."""

    protocol: Annotated[str, Field(max_length=200)]
    question: str
    instructions: str = ""
    sources: Annotated[list[str], Field(max_length=100)] | None = None
    """Some of the protocol's; None: all."""
    retry: bool = False
    """Whether to go on with a debate whose connection was lost or that was cancelled."""


def page_routes(debates: Debates, *, lists: bool) -> list[Route]:
    """The routes of the page. ``lists``: whether whoever may ask also reads the latest debates of others."""
    offers = debates.offers
    # Once: whether a source is the sample is read from files.
    offered = cache(lambda: [_offered(name, offers.spec(name)) for name in offers.variants])

    async def transcript(request: Request) -> Response:
        """A finished debate with its passages: a page, JSON or text, as the header ``Accept`` asks."""
        accepted = request.headers.get("accept", "")
        if "text/html" in accepted:
            return _page(vary="accept")  # its script asks for the debate
        headers = {**SAFE, "cache-control": "private", "vary": "accept"}
        place = request.path_params
        named = (place["run"], place["question"], place["repeat"], request.query_params.get("token", ""))
        if "application/json" in accepted:
            return JSONResponse(_debate_json(await debates.transcripts.found(*named)), headers=headers)
        return PlainTextResponse(await debates.transcripts.text(*named), headers=headers)

    async def choices(request: Request) -> Response:
        """What can be asked."""
        return JSONResponse(await asyncio.to_thread(offered))

    async def latest(request: Request) -> Response:
        """The latest debates, newest first; none if they are not for all who may ask."""
        return JSONResponse(to_jsonable_python(debates.transcripts.latest if lists else []))

    async def debate(request: Request) -> WatchedDebate:
        """Debate a question. The response is the stream of its events; closing it ends the debate."""
        return WatchedDebate(debates, request, await body_of(request, PageQuestion))

    async def page(request: Request) -> Response:
        return _page()

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
        Route("/page/debates", latest, methods=["GET"]),
        Route("/page/debates", debate, methods=["POST"]),
    ]


class WatchedDebate(DebateResponse):
    """A debate as a stream of its events."""

    def __init__(self, debates: Debates, request: Request, body: PageQuestion) -> None:
        super().__init__(debates, request)
        self._body = body

    def read(self) -> Ask:
        """The question of the form."""
        body = self._body
        return Ask(
            protocol=body.protocol,
            question=body.question.strip(),
            instructions=body.instructions.strip(),
            sources=body.sources,
            retry=body.retry,
        )

    async def work(self, tell: Tell) -> Served:
        """Debate; ``tell`` gets the events."""
        return await self.turn.debate(self.ask, tell, deltas=True)

    def line(self, part: Event | Served) -> bytes:
        """An event as JSON."""
        if isinstance(part, Served):
            return data({"event": "Ended", "transcript": self.debates.transcripts.address(part, self.request)})
        content = _event_json(part)
        return b"" if content is None else data(content)


def _page(**headers: str) -> Response:
    """The page, at any of its addresses."""
    return HTMLResponse(_site("page.html"), headers={**SAFE, **headers})


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


def _offered(name: str, spec: RunRecord) -> dict[str, Any]:
    """A protocol for the form, with questions that its sources can answer: those of the sample, if it is searched."""
    is_of_sample = any(is_sample(*source) for source in spec.source_specs.items())
    return {
        "name": name,
        "debaters": [each.name for each in spec.protocol.cast],
        "sources": [*spec.source_specs],
        "models": _models_of(spec),
        "examples": _examples() if is_of_sample else [],
    }


def _models_of(spec: RunRecord) -> list[str]:
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
