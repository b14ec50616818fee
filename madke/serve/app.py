"""The routes of the server.

To add a door (a page, MCP), write a function ``router(state: State) -> APIRouter`` in a module of its own and include
it in :func:`create_app`. It debates with ``with state.debates.turn() as turn: await turn.debate(Ask(...), listen)``,
gets addresses from ``state.transcript_url`` and raises :class:`madke.serve.wire.Refusal` for errors. All routes are
behind :class:`madke.serve.gate.Gate`.
"""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import dataclass, field
from hashlib import sha256

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from openai.types import Model
from openai.types.chat import ChatCompletion
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from madke.serve import page, transcripts
from madke.serve.answer import Answer, Style, refused
from madke.serve.conversation import Conversation
from madke.serve.debates import Debates, Served
from madke.serve.gate import Access, Gate
from madke.serve.mcp_tools import router as mcp_router
from madke.serve.wire import ChatBody, ErrorBody, Health, ModelList, Refusal

_TASK_HEADERS = ("x-openwebui-task", "x-madke-plain")
"""Headers that mark a user interface's request for a title, tags or follow-up questions."""

_IGNORED = "x-madke-ignored"
"""The response header that names the fields of the request that have no effect."""

_ERRORS = (400, 401, 403, 404, 408, 413, 429, 502, 503, 504)


@dataclass(kw_only=True)
class State:
    """What all routes share."""

    debates: Debates
    style: Style = field(default_factory=Style)
    access: Access = field(default_factory=Access)
    started: int = field(default_factory=lambda: int(time.time()))

    def transcript_path(self, run: str, question: str, repeat: int) -> str:
        """The path of a debate's transcript, with a token that only this server can make."""
        return f"/debates/{run}/{question}/{repeat}?token={self._token(run, question, repeat)}"

    def transcript_url(self, request: Request, served: Served) -> str:
        """The address of a debate's transcript, as the client reaches the server."""
        done = served.transcript
        return str(request.base_url).rstrip("/") + self.transcript_path(served.run.name, done.id, done.repeat)

    def check_token(self, run: str, question: str, repeat: int, token: str) -> bool:
        """Whether a transcript's address has its token."""
        return hmac.compare_digest(self._token(run, question, repeat).encode(), token.encode("utf-8", "replace"))

    def _token(self, run: str, question: str, repeat: int) -> str:
        return hmac.new(self._secret(), f"{run}/{question}/{repeat}".encode(), sha256).hexdigest()[:32]

    def _secret(self) -> bytes:
        file = self.debates.options.out / "link-secret"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(secrets.token_hex(32))
        return file.read_bytes()


def create_app(state: State) -> FastAPI:
    """The application. Its debates must be entered while it serves; see :func:`madke.serve.server.serve`."""
    app = FastAPI(title="madke", summary="Debates behind OpenAI's chat completions.")
    app.include_router(router(state))
    app.include_router(page.router(state))
    app.include_router(transcripts.router(state))
    app.include_router(mcp_router(state))
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
    routes = APIRouter(responses={status: {"model": ErrorBody} for status in _ERRORS})

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
        return ModelList(data=[listed(name) for name in state.debates.variants])

    @routes.get("/v1/models/{name}")
    async def model(name: str) -> Model:
        """One protocol."""
        return listed(state.debates.variant(name).name)

    @routes.post(
        "/v1/chat/completions",
        response_model=ChatCompletion,
        responses={200: {"content": {"text/event-stream": {}}, "description": "The answer, whole or as a stream."}},
    )
    async def chat_completions(body: ChatBody, request: Request) -> Answer:
        """Debate the last message of the user."""
        body.check()
        state.debates.variant(body.model)
        conversation = Conversation.read(body.messages)
        headers = request.headers
        retries = headers.get("x-stainless-retry-count", "0")
        return Answer(
            state.debates.turn().__enter__(),
            body,
            conversation,
            plain=conversation.is_task or any(headers.get(name) for name in _TASK_HEADERS),
            retry=retries.isdecimal() and int(retries) > 0,
            style=state.style,
            address=lambda served: state.transcript_url(request, served),
            headers={_IGNORED: ", ".join(body.ignored)} if body.ignored else {},
        )

    return routes


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:])
    return refused(Refusal(400, f"{place or 'the body'}: {first['msg']}", param=place or None))


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error, Refusal):
        return refused(error)
    response = refused(Refusal(error.status_code, str(error.detail)))
    response.headers.update(error.headers or {})
    return response
