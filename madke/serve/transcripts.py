"""Finished debates of a server: their addresses, and what stands there."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request

from madke.core.chat import Usage
from madke.core.errors import UserError
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.transcript import Transcript, from_json
from madke.retrieval.pools.pool_file import PoolLines, pool_of
from madke.runs.directory import unsealed
from madke.runs.record import RunRecord, read_run
from madke.serve.refusals import Refusal
from madke.serve.served_run import ServedRun

_log = logging.getLogger(__name__)

SCHEME = "madke:/"
"""Before the path of a transcript, in its address for clients without HTTP."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A finished debate."""

    run: ServedRun
    transcript: Transcript
    pool: KnowledgePool
    text: str
    """The answer in the form that was asked for, or the text in which no answer could be read."""
    usage: Usage
    """Of all calls for the request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDebate:
    """A debate at its address, with what it was made of."""

    transcript: Transcript
    pool: KnowledgePool
    spec: RunRecord


class Transcripts:
    """The finished debates of all runs below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def address(self, served: Served, request: Request | None) -> str:
        """The address of a debate's transcript, as the client of the request reaches the server."""
        done = served.transcript
        base = SCHEME if request is None else str(request.base_url).rstrip("/")
        return base + self._path(f"{served.run.name}/{done.id}/{done.repeat}")

    def _path(self, name: str) -> str:
        return f"/debates/{name}?token={self._token(name)}"

    async def found(self, run: str, question: str, repeat: int, token: str) -> FoundDebate:
        """The debate at an address; Refusal if there is none, or if its file is damaged."""
        expected = self._token(f"{run}/{question}/{repeat}").encode()
        try:
            if hmac.compare_digest(expected, token.encode("utf-8", "replace")) and (self._folder / run).is_dir():
                found = await asyncio.to_thread(_read, self._folder / run, question, repeat)
                if found is not None:
                    return found
        except UserError as error:
            _log.warning("a debate cannot be read: %s", error)
            why = "this debate cannot be read; the server's log says why"
            raise Refusal(500, why, kind="server_error", code="debate_unreadable") from None
        raise Refusal(404, "there is no such debate, or the address is not complete", code="debate_not_found")

    async def text(self, run: str, question: str, repeat: int, token: str) -> str:
        """The debate at an address as text, with its passages."""
        from madke.report.debate_text import debate_text

        found = await self.found(run, question, repeat, token)
        passages = (f"Knowledge {n}: {p.title}\n{p.url or p.key}\n{p.text}" for n, p in enumerate(found.pool.passages))
        return "\n\n".join((debate_text(found.transcript), *passages))

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


def _read(run: Path, question: str, repeat: int) -> FoundDebate | None:
    """The debate in the run's files. UserError if its line is damaged; those of others are not looked at."""
    with (run / "transcripts.jsonl").open("rb") as lines:
        for line in lines:
            if question.encode() not in line:
                continue
            try:
                transcript = from_json(unsealed(line))
            except ValueError as error:
                raise UserError(f"is damaged: {error}", file=run / "transcripts.jsonl") from None
            if (transcript.id, transcript.repeat) == (question, repeat):
                spec = read_run(run)
                knowledge = spec.protocol.knowledge
                record = PoolLines(run / "pools.jsonl", [question]).record(question) if knowledge else None
                pool = pool_of(record, knowledge) if record and knowledge else EMPTY_POOL
                return FoundDebate(transcript=transcript, pool=pool, spec=spec)
    return None
