"""Finished debates of a server: their addresses, and what stands there."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from pydantic_core import from_json
from starlette.requests import Request

from madke.core.chat import Usage
from madke.core.errors import UserError
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.transcript import Transcript
from madke.core.transcript import from_json as transcript_from_json
from madke.retrieval.pools import pool_of, record_from_json
from madke.runs.directory import RunRecord, read_run, unsealed
from madke.serve.gate import Refusal
from madke.serve.served_run import ServedRun

_log = logging.getLogger(__name__)


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


class Transcripts:
    """The finished debates of all runs below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, tuple[_IndexedLines, _IndexedLines]] = {}
        """Run -> its transcripts and pools."""

    def address(self, served: Served, request: Request | None) -> str:
        """The address of a debate's transcript, as the client of the request reaches the server; None: by files."""
        run, id_, repeat = served.run.name, served.transcript.id, served.transcript.repeat
        if request is None:
            file = (self._folder / run / "transcripts.jsonl").resolve()
            return f"{file.as_uri()}?question={quote(id_)}&repeat={repeat}"
        name = f"{run}/{id_}/{repeat}"
        return f"{str(request.base_url).rstrip('/')}/debates/{name}?token={self._token(name)}"

    async def found(
        self, run: str, question: str, repeat: int, token: str
    ) -> tuple[Transcript, KnowledgePool, RunRecord]:
        """The debate at an address, its pool and its run; Refusal if there is none, or if its file is damaged."""
        expected = self._token(f"{run}/{question}/{repeat}").encode()
        try:
            if hmac.compare_digest(expected, token.encode("utf-8", "replace")):
                found = await asyncio.to_thread(self._read, run, question, repeat)
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

        transcript, pool, _ = await self.found(run, question, repeat, token)
        passages = (f"Knowledge {n}: {p.title}\n{p.url or p.key}\n{p.text}" for n, p in enumerate(pool.passages))
        return "\n\n".join((debate_text(transcript), *passages))

    def _read(self, run: str, question: str, repeat: int) -> tuple[Transcript, KnowledgePool, RunRecord] | None:
        folder = self._folder / run
        if run not in self._files:
            pools = _IndexedLines(folder / "pools.jsonl", "id")
            self._files[run] = _IndexedLines(folder / "transcripts.jsonl", "id", "repeat"), pools
        transcripts, pools = self._files[run]
        if (sealed := transcripts.line(question, repeat)) is None:
            return None
        try:
            transcript = transcript_from_json(unsealed(sealed))
        except ValueError as error:
            raise UserError(f"is damaged: {error}", file=folder / "transcripts.jsonl") from None
        spec = read_run(folder)
        knowledge = spec.protocol.knowledge
        line = pools.line(question) if knowledge else None
        pool = pool_of(record_from_json(line), knowledge) if line and knowledge else EMPTY_POOL
        return transcript, pool, spec

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


class _IndexedLines:
    """The lines of a file that grows, by the fields that name them. What was appended is read once."""

    def __init__(self, path: Path, *names: str) -> None:
        self._path, self._names = path, names
        self._starts: dict[tuple[object, ...], int] = {}
        self._known = 0
        """Bytes whose lines are known."""
        self._reading = threading.Lock()

    def line(self, *key: object) -> bytes | None:
        """The last line with that key; None if there is none."""
        if not self._path.exists():  # the user may have removed the run
            return None
        with self._reading, self._path.open("rb") as file:
            file.seek(self._known)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                with suppress(ValueError, KeyError, TypeError):  # a line that nobody can read has no key
                    record = from_json(line)
                    self._starts[tuple(record[name] for name in self._names)] = self._known
                self._known += len(line)
            if key not in self._starts:
                return None
            file.seek(self._starts[key])
            return file.readline()
