"""Transcripts of served debates: a page for browsers, JSON for the page's script, text for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.responses import Response

from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Transcript
from madke.serve.debate_json import debate_json
from madke.serve.page import page_response
from madke.serve.wire import ErrorBody, Refusal

if TYPE_CHECKING:
    from madke.serve.app import State

_SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "private",
    "vary": "accept",
}


def router(state: State) -> APIRouter:
    """The route of transcripts."""
    routes = APIRouter(responses={status: {"model": ErrorBody} for status in (400, 403, 404)})

    @routes.get(
        "/debates/{run}/{question}/{repeat}",
        response_model=None,
        responses={
            200: {
                "content": {"text/plain": {}, "text/html": {}, "application/json": {}},
                "description": "The debate.",
            }
        },
    )
    async def transcript(request: Request, run: str, question: str, repeat: int, token: str = "") -> Response:
        """A finished debate with its passages: a page, JSON or text, as the header ``Accept`` asks."""
        accepted = request.headers.get("accept", "")
        if "text/html" in accepted:
            return page_response(vary="accept")  # its script asks for the debate
        if "application/json" in accepted:
            return JSONResponse(debate_json(*await _found(state, run, question, repeat, token)), headers=_SAFE)
        return PlainTextResponse(await transcript_text(state, run, question, repeat, token), headers=_SAFE)

    return routes


async def transcript_text(state: State, run: str, question: str, repeat: int, token: str) -> str:
    """A finished debate as text, with its passages; Refusal if the address is not one of ours."""
    from madke.report.debate_text import debate_text

    transcript, pool = await _found(state, run, question, repeat, token)
    return f"{debate_text(transcript)}\n\n{_passages(pool)}"


async def _found(state: State, run: str, question: str, repeat: int, token: str) -> tuple[Transcript, KnowledgePool]:
    known = state.check_token(run, question, repeat, token)
    found = await state.debates.transcript(run, question, repeat) if known else None
    if found is None:
        raise Refusal(404, "there is no such debate, or the address is not complete", code="debate_not_found")
    return found


def _passages(pool: KnowledgePool) -> str:
    return "\n\n".join(f"Knowledge {n}: {p.title}\n{p.url or p.key}\n{p.text}" for n, p in enumerate(pool.passages))
