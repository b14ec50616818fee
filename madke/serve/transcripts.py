"""Finished debates of a server: their addresses, what stands there, and the list of the latest."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from fastapi import Request
from pydantic import BaseModel

from madke.core.chat import Usage
from madke.core.errors import UserError
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.transcript import Transcript
from madke.pools.loading import pool_of
from madke.pools.pool_file import PoolLines
from madke.runs.directory import read_transcripts
from madke.runs.spec import RunSpec, read_spec
from madke.serve.served_run import ServedRun
from madke.serve.wire import Refusal

_log = logging.getLogger(__name__)

LISTED = 50
"""Debates in the list of the page."""

DebatePlace = tuple[str, str, int]
"""Run, question id and repeat of a debate."""

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
    spec: RunSpec


class ListedDebate(BaseModel):
    """A line of the list of the latest debates."""

    question: str
    answer: str | None
    """None: there is none, or the debate ended split."""
    is_split: bool
    protocol: str
    path: str
    """Its address on this server, with the secret that opens it."""


class Transcripts:
    """The finished debates of all runs below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: dict[DebatePlace, ListedDebate] = {}
        self._read_runs: set[str] = set()

    def keep(self, run: str, done: Transcript, protocol: str) -> None:
        """Remember what the list says of a debate."""
        place = (run, done.id, done.repeat)
        is_split = done.agreement is not None and done.agreement.outcome == "split"
        answer = None if is_split else done.answer
        path = self._path(f"{run}/{done.id}/{done.repeat}")
        self._lines[place] = ListedDebate(
            question=done.question, answer=answer, is_split=is_split, protocol=protocol, path=path
        )
        if len(self._lines) > 2 * LISTED:
            del self._lines[next(iter(self._lines))]

    async def listed(self, places: Collection[DebatePlace]) -> list[ListedDebate]:
        """The finished debates among these, in this order. Those of an earlier server are read once, if they can be."""
        await asyncio.to_thread(self._read_earlier, {*places})
        return [self._lines[place] for place in places if place in self._lines]

    def _read_earlier(self, places: Collection[DebatePlace]) -> None:
        for run in {run for run, *_ in places} - self._read_runs:
            self._read_runs.add(run)
            missing = {place for place in places if place[0] == run} - self._lines.keys()
            try:
                self._keep_earlier(run, missing)
            except UserError as error:
                _log.warning("debates of %s are not in the list: %s", run, error)

    def _keep_earlier(self, run: str, places: Collection[DebatePlace]) -> None:
        path = self._folder / run
        if places and (path / "transcripts.jsonl").exists():
            protocol = read_spec(path).variant
            for done in read_transcripts(path):
                if (run, done.id, done.repeat) in places:
                    self.keep(run, done, protocol)

    def address(self, served: Served, request: Request | None) -> str:
        """The address of a debate's transcript, as the client of the request reaches the server."""
        done = served.transcript
        base = SCHEME if request is None else str(request.base_url).rstrip("/")
        return base + self._path(f"{served.run.name}/{done.id}/{done.repeat}")

    def _path(self, name: str) -> str:
        return f"/debates/{name}?token={self._token(name)}"

    async def found(self, run: str, question: str, repeat: int, token: str) -> FoundDebate:
        """The debate at an address; Refusal if there is none, or if it is damaged."""
        expected = self._token(f"{run}/{question}/{repeat}").encode()
        known = hmac.compare_digest(expected, token.encode("utf-8", "replace"))
        try:
            found = await asyncio.to_thread(self._read, self._folder / run, question, repeat) if known else None
        except UserError as error:
            _log.warning("a debate cannot be read: %s", error)
            why = "this debate cannot be read; the server's log says why"
            raise Refusal(500, why, kind="server_error", code="debate_unreadable") from None
        if found is None:
            raise Refusal(404, "there is no such debate, or the address is not complete", code="debate_not_found")
        return found

    async def text(self, run: str, question: str, repeat: int, token: str) -> str:
        """The debate at an address as text, with its passages."""
        from madke.report.debate_text import debate_text

        found = await self.found(run, question, repeat, token)
        passages = (f"Knowledge {n}: {p.title}\n{p.url or p.key}\n{p.text}" for n, p in enumerate(found.pool.passages))
        return "\n\n".join((debate_text(found.transcript), *passages))

    def _read(self, path: Path, question: str, repeat: int) -> FoundDebate | None:
        every = read_transcripts(path) if path.exists() else ()  # the user may have removed the run
        transcript = next((each for each in every if (each.id, each.repeat) == (question, repeat)), None)
        if transcript is None:
            return None
        spec = read_spec(path)
        knowledge = spec.protocol.knowledge
        record = PoolLines(path / "pools.jsonl", {question}).record(question) if knowledge else None
        pool = pool_of(record, knowledge) if record and knowledge else EMPTY_POOL
        return FoundDebate(transcript=transcript, pool=pool, spec=spec)

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
