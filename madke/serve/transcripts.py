"""Transcripts of served debates, at addresses that only this server can make.

They are read from the run directories, so an address stays good after a restart.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.responses import Response

from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.transcript import Transcript
from madke.knowledge.pools import pool_of
from madke.runs.directory import read_transcripts
from madke.runs.run_json import read_spec
from madke.runs.run_pools import PoolLines
from madke.serve.debate_json import debate_json
from madke.serve.page import SAFE, page_response
from madke.serve.wire import ERRORS, Refusal

if TYPE_CHECKING:
    from madke.serve.app import State
    from madke.serve.debates import Served

SCHEME = "madke:/"
"""Before the path of a transcript, in its address for clients without HTTP."""

Found = tuple[Transcript, KnowledgePool]


class Transcripts:
    """The finished debates of all runs below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def address(self, served: Served, request: Request | None) -> str:
        """The address of a debate's transcript, as the client of the request reaches the server."""
        done = served.transcript
        base = SCHEME if request is None else str(request.base_url).rstrip("/")
        name = f"{served.run.name}/{done.id}/{done.repeat}"
        return f"{base}/debates/{name}?token={self._token(name)}"

    async def found(self, run: str, question: str, repeat: int, token: str) -> Found:
        """The debate at an address; Refusal if there is none."""
        known = hmac.compare_digest(
            self._token(f"{run}/{question}/{repeat}").encode(), token.encode("utf-8", "replace")
        )
        found = await asyncio.to_thread(self._read, self._folder / run, question, repeat) if known else None
        if found is None:
            raise Refusal(404, "there is no such debate, or the address is not complete", code="debate_not_found")
        return found

    async def text(self, run: str, question: str, repeat: int, token: str) -> str:
        """The debate at an address as text, with its passages."""
        from madke.report.debate_text import debate_text

        transcript, pool = await self.found(run, question, repeat, token)
        passages = (f"Knowledge {n}: {p.title}\n{p.url or p.key}\n{p.text}" for n, p in enumerate(pool.passages))
        return "\n\n".join((debate_text(transcript), *passages))

    def _read(self, path: Path, question: str, repeat: int) -> Found | None:
        every = read_transcripts(path) if path.exists() else ()  # the user may have removed the run
        transcript = next((each for each in every if (each.id, each.repeat) == (question, repeat)), None)
        if transcript is None:
            return None
        knowledge = read_spec(path).protocol.knowledge
        record = PoolLines(path / "pools.jsonl", {question}).record(question) if knowledge else None
        return transcript, pool_of(record, knowledge) if record and knowledge else EMPTY_POOL

    def _token(self, name: str) -> str:
        return hmac.new(self._secret, name.encode("utf-8", "replace"), sha256).hexdigest()[:32]

    @cached_property
    def _secret(self) -> bytes:
        file = self._folder / "link-secret"
        file.touch(mode=0o600)
        if not (secret := file.read_bytes()):
            secret = secrets.token_hex(32).encode()
            file.write_bytes(secret)
        return secret


def router(state: State) -> APIRouter:
    """The route of transcripts."""
    routes = APIRouter(responses=ERRORS)
    kinds: dict[str, object] = {"text/plain": {}, "text/html": {}, "application/json": {}}

    @routes.get(
        "/debates/{run}/{question}/{repeat}",
        response_model=None,
        responses={200: {"content": kinds, "description": "The debate."}},
    )
    async def transcript(request: Request, run: str, question: str, repeat: int, token: str = "") -> Response:
        """A finished debate with its passages: a page, JSON or text, as the header ``Accept`` asks."""
        accepted = request.headers.get("accept", "")
        headers = {**SAFE, "cache-control": "private", "vary": "accept"}
        if "text/html" in accepted:
            return page_response(vary="accept")  # its script asks for the debate
        if "application/json" in accepted:
            found = await state.transcripts.found(run, question, repeat, token)
            return JSONResponse(debate_json(*found), headers=headers)
        return PlainTextResponse(await state.transcripts.text(run, question, repeat, token), headers=headers)

    return routes
