"""Finished debates of a server: their addresses, what stands there, and the list of the latest."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from pydantic_core import from_json
from starlette.requests import Request

from madke.core.chat import Usage
from madke.core.errors import UserError
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.transcript import Transcript
from madke.core.transcript import from_json as transcript_from_json
from madke.retrieval.pools.pool_file import pool_of, record_from_json
from madke.runs.directory import unsealed
from madke.runs.record import RunRecord, read_run
from madke.serve.refusals import Refusal
from madke.serve.served_run import ServedRun

_log = logging.getLogger(__name__)

LISTED = 50
"""Debates in the list of the page."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedDebate:
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
        self._files: dict[str, _ServedFiles] = {}
        self._latest: dict[str, ListedDebate] = {}
        """Path -> debate, the last one last."""

    def keep(self, run: str, done: Transcript, protocol: str) -> None:
        """List a debate that has ended now."""
        is_split = done.agreement is not None and done.agreement.outcome == "split"
        path = self._path(f"{run}/{done.id}/{done.repeat}")
        answer = None if is_split else done.answer
        self._latest.pop(path, None)
        self._latest[path] = ListedDebate(
            question=done.question, answer=answer, is_split=is_split, protocol=protocol, path=path
        )
        if len(self._latest) > LISTED:
            del self._latest[next(iter(self._latest))]

    @property
    def latest(self) -> list[ListedDebate]:
        """The latest debates of this server, newest first."""
        return [*reversed(self._latest.values())]

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
            found = await asyncio.to_thread(self._read, run, question, repeat) if known else None
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

    def _read(self, run: str, question: str, repeat: int) -> FoundDebate | None:
        files = self._files_of(run)
        if (sealed := files.transcripts.line((question, repeat))) is None:
            return None
        try:
            transcript = transcript_from_json(unsealed(sealed))
        except ValueError as error:
            raise UserError(f"is damaged: {error}", file=self._folder / run / "transcripts.jsonl") from None
        spec = read_run(self._folder / run)
        knowledge = spec.protocol.knowledge
        line = files.pools.line(question) if knowledge else None
        pool = pool_of(record_from_json(line), knowledge) if line and knowledge else EMPTY_POOL
        return FoundDebate(transcript=transcript, pool=pool, spec=spec)

    def _files_of(self, run: str) -> _ServedFiles:
        if run not in self._files:
            self._files[run] = _ServedFiles(self._folder / run)
        return self._files[run]

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
    """The lines of a file that grows, by key. What was appended is read once, to know what is where."""

    def __init__(self, path: Path, key: Callable[[bytes], Hashable]) -> None:
        self._path, self._key = path, key
        self._starts: dict[Hashable, int] = {}
        self._known = 0
        """Bytes whose lines are known."""
        self._reading = threading.Lock()

    def line(self, key: Hashable) -> bytes | None:
        """The last line with that key; None if there is none. UserError if a line is damaged."""
        if not self._path.exists():  # the user may have removed the run
            return None
        with self._reading, self._path.open("rb") as file:
            file.seek(self._known)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    self._starts[self._key(line)] = self._known
                except (ValueError, KeyError, TypeError) as error:
                    raise UserError(f"is damaged at byte {self._known}: {error}", file=self._path) from None
                self._known += len(line)
            if key not in self._starts:
                return None
            file.seek(self._starts[key])
            return file.readline()


class _ServedFiles:
    """The files of a run that grow."""

    def __init__(self, run: Path) -> None:
        self.transcripts = _IndexedLines(run / "transcripts.jsonl", _debate_of)
        self.pools = _IndexedLines(run / "pools.jsonl", _question_of)


def _debate_of(line: bytes) -> Hashable:
    record = from_json(unsealed(line))
    return str(record["id"]), int(record["repeat"])


def _question_of(line: bytes) -> Hashable:
    return str(from_json(line)["id"])
