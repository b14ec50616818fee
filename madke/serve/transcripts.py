"""Transcripts of served debates: a page for browsers, JSON for the page's script, text for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.responses import Response

from madke.core.knowledge import KnowledgePool
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
        from madke.report.debate_text import debate_text

        accepted = request.headers.get("accept", "")
        if "text/html" in accepted:
            return page_response(vary="accept")  # its script asks for the debate
        known = state.check_token(run, question, repeat, token)
        found = await state.debates.transcript(run, question, repeat) if known else None
        if found is None:
            raise Refusal(404, "there is no such debate, or the address is not complete", code="debate_not_found")
        if "application/json" in accepted:
            return JSONResponse(debate_json(*found), headers=_SAFE)
        return PlainTextResponse(f"{debate_text(found[0])}\n\n{_passages(found[1])}", headers=_SAFE)

    return routes


def _passages(pool: KnowledgePool) -> str:
    return "\n\n".join(f"Knowledge {n}: {p.title}\n{p.url or p.key}\n{p.text}" for n, p in enumerate(pool.passages))
