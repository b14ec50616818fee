"""The routes of the server.

To add a door, write a function ``router(state: State) -> APIRouter`` in a module of its own and include it in
:func:`create_app`. Its response is a :class:`madke.serve.streaming.Debating`; errors are
:class:`madke.serve.wire.Refusal`. All routes are behind :class:`madke.serve.gate.Gate`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from openai.types import Model
from openai.types.chat import ChatCompletion
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from madke.serve import mcp_tools, page
from madke.serve.answer import Answer
from madke.serve.debates import Debates
from madke.serve.gate import Access, Gate
from madke.serve.page import Transcripts
from madke.serve.wire import ERRORS, ChatBody, Health, ModelList, Refusal


@dataclass(kw_only=True)
class State:
    """What all routes share."""

    debates: Debates
    access: Access = field(default_factory=Access)
    started: int = field(default_factory=lambda: int(time.time()))
    transcripts: Transcripts = field(init=False)

    def __post_init__(self) -> None:
        self.transcripts = Transcripts(self.debates.options.out)


def create_app(state: State) -> FastAPI:
    """The application. Its debates must be entered while it serves; see :func:`madke.serve.server.serve`."""
    app = FastAPI(title="madke", summary="Debates behind OpenAI's chat completions.")
    for routes in (router(state), page.router(state), mcp_tools.router(state)):
        app.include_router(routes)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_middleware(Gate, access=state.access)
    if state.access.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=state.access.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


def router(state: State) -> APIRouter:
    """The routes that OpenAI's clients use."""
    routes = APIRouter(responses=ERRORS)
    offers = state.debates.offers

    def listed(name: str) -> Model:
        return Model(id=name, object="model", created=state.started, owned_by="madke")

    @routes.get("/health")
    async def health() -> Health:
        """What the server is doing; needs no key."""
        debates = state.debates
        return Health(status="draining" if debates.draining else "ok", running=debates.running, waiting=debates.waiting)

    @routes.get("/v1/models")
    async def models() -> ModelList:
        """The protocols that are served."""
        return ModelList(data=[listed(name) for name in offers.variants])

    @routes.get("/v1/models/{name}")
    async def model(name: str) -> Model:
        """One protocol."""
        return listed(offers.variant(name).name)

    @routes.post(
        "/v1/chat/completions",
        response_model=ChatCompletion,
        responses={200: {"content": {"text/event-stream": {}}, "description": "The answer, whole or as a stream."}},
    )
    async def chat_completions(body: ChatBody, request: Request) -> Answer:
        """Debate the last message of the user."""
        return Answer(state, request, body)

    return routes


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:])
    return Refusal(400, f"{place or 'the body'}: {first['msg']}", param=place or None).response()


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error, Refusal):
        return error.response()
    response = Refusal(error.status_code, str(error.detail)).response()
    response.headers.update(error.headers or {})
    return response
