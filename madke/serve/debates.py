"""All debates of a server: admission, limits, the end, which answers have reached their clients, and the responses.

:meth:`ServedRequest.debate` is the one way to run a debate, for every interface of the server. A response lasts as long
as its debate, for a client that may go away.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import IO, Any, Self, TypeVar
from urllib.parse import quote

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from madke._util.concurrency import Tell, cancel_tasks, stream_progress
from madke._util.files import file_lock
from madke.api.debates import Debate
from madke.core.chat import Message, Usage
from madke.core.errors import UserError
from madke.core.events import Listener
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.transcript import Transcript
from madke.core.transcript import from_json as transcript_from_json
from madke.engine.parse.reply import without_reasoning
from madke.models.limiter import allow_connections
from madke.models.store import CallStore
from madke.retrieval.pools import pool_of, record_from_json
from madke.runs.directory import RunRecord, read_run, unseal
from madke.runs.runner import GRACE_SECONDS
from madke.serve.gate import Refusal
from madke.serve.offers import Ask, Offers, ServeOptions
from madke.serve.served_run import ServedRun

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5
"""What ``Retry-After`` tells clients that find the queue full, or the server draining."""

_LAST_SECONDS = 0.2
"""For calls of models that are under way, if the grace is over."""

KEEPALIVE_SECONDS = 5.0
"""Seconds without data after which a comment is sent: half of what proxies and clients may not outlive."""

KEEP_ALIVE = b": keep-alive\n\n"

T = TypeVar("T")


class Ledger:
    """The debates that were started and delivered, in the file ``served.jsonl``.

    A request takes the first repeat of its question that no other request waits for and that was not delivered: after
    a lost connection or a crash that is the debate which it continues. A request that says it is a retry may also
    share a repeat with a connection that has not closed yet, or get a delivered answer that was lost on its way.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._states: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
        """(Run, question id) -> repeat -> ``started`` or ``delivered``."""
        self._waiting: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        """(Run, question id) -> repeat -> number of requests that wait for it."""
        file.seek(0)
        content = file.read()
        if not content.endswith(b"\n"):  # of a killed server
            file.write(b"\n")
        for line in content.splitlines():
            with suppress(ValueError, TypeError):
                run, question, repeat, state = json.loads(line)
                self._states[run, question][int(repeat)] = state

    def start(self, run: str, question: str, *, retry: bool) -> int:
        """The repeat that a request debates."""
        states, waiting = self._states[run, question], self._waiting[run, question]
        if not retry:
            repeat = next(n for n in count() if n not in waiting and states.get(n) != "delivered")
        elif lost := [n for n, state in states.items() if state == "started" and n not in waiting]:
            repeat = min(lost)
        elif waiting:
            repeat = min(waiting, key=lambda n: (waiting[n], n))
        else:
            repeat = max(states, default=0)
        waiting[repeat] += 1
        self._note(run, question, repeat, "started")
        return repeat

    def end(self, run: str, question: str, repeat: int, *, delivered: bool) -> None:
        """The request is over; ``delivered``: the whole answer has been sent."""
        self._waiting[run, question] -= Counter([repeat])
        if delivered:
            self._note(run, question, repeat, "delivered")

    def _note(self, run: str, question: str, repeat: int, state: str) -> None:
        states = self._states[run, question]
        if states.get(repeat) not in (state, "delivered"):
            states[repeat] = state
            self._file.write(json.dumps([run, question, repeat, state]).encode() + b"\n")


class Debates:
    """The debates of one server. Use it as an asynchronous context manager."""

    def __init__(self, options: ServeOptions) -> None:
        self.options = options
        self.offers = Offers(options)
        self.transcripts = Transcripts(options.out)
        self.running = 0
        """Requests that hold a slot."""
        self.turns = 0
        """Requests whose answers have not been sent."""
        self.draining = False
        self.ends: float | None = None
        """When the process must have ended, in the time of the event loop; None: it serves."""
        self.slots = asyncio.Semaphore(options.run.concurrency)
        self._held = ExitStack()

    @contextmanager
    def admit(self) -> Iterator[ServedRequest]:
        """The turn of a request, for the block; Refusal if no further debate may start.

        The block includes the delivery of the answer: until then the request counts as waiting for it.
        """
        self.check()
        if self.waiting >= self.options.queue + max(0, self.options.run.concurrency - self.running):
            message = f"{self.waiting} requests are waiting; try again later"
            raise Refusal(429, message, kind="rate_limit_error", code="queue_full", retry_after=RETRY_SECONDS)
        self.turns += 1
        turn = ServedRequest(self)
        try:
            yield turn
        finally:
            turn.close()
            self.turns -= 1

    def check(self) -> None:
        """Refusal if no further debate may start."""
        if self.draining:
            raise Refusal(503, "the server is shutting down", kind="server_error", retry_after=RETRY_SECONDS)
        if reached := self.offers.shared.budget.reached:
            message = f"the server's {reached} is reached"
            raise Refusal(429, message, kind="insufficient_quota", code="insufficient_quota", retryable=False)

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot, or whose answers are on their way."""
        return self.turns - self.running

    async def __aenter__(self) -> Self:
        allow_connections(self.options.run.concurrency + self.options.queue)
        out = self.options.out
        busy = UserError("another server is using it; choose another --out", file=out)
        self.ledger = Ledger(self._held.enter_context(file_lock(out / "served.jsonl", busy)))
        for store in out.glob("*/calls.sqlite"):
            with CallStore(store) as calls:
                self.offers.shared.budget.pay_stored(calls)
        return self

    async def __aexit__(self, *error: object) -> None:
        shared = self.offers.shared
        shared.limits.close()
        left = GRACE_SECONDS if self.ends is None else max(_LAST_SECONDS, self.ends - asyncio.get_running_loop().time())
        if shared.landing:
            await asyncio.wait(shared.landing, timeout=left)
        await cancel_tasks(*shared.landing)
        await self.offers.close()
        self._held.close()


class ServedRequest:
    """One request, from its start in the queue to the delivery of its answer; see :meth:`Debates.admit`."""

    def __init__(self, debates: Debates) -> None:
        self._debates = debates
        self._debated: tuple[str, str, int] | None = None
        """Run, question and repeat."""
        self._is_delivered = self._has_slot = False
        self._until = time.monotonic() + debates.options.deadline

    def close(self) -> None:
        """End the request. Work that does not end when it is cancelled keeps no place."""
        self._give_back()
        if self._debated is not None:
            self._debates.ledger.end(*self._debated, delivered=self._is_delivered)

    async def debate(self, ask: Ask, listen: Listener, *, deltas: bool = False) -> Served:
        """Debate the question when there is a free slot.

        Cancel the task to end the debate: waiting calls are not made, calls under way finish and are stored. With
        ``deltas`` the listener also gets the parts of streamed replies. Refusal if the question cannot be answered.
        """
        debates = self._debates
        async with self._working():
            run = await debates.offers.run_of(ask)
            text, usage = ask.question, Usage()
            if ask.condensing:
                completion = await run.call("condense", ask.condensing, question=ask.question)
                text, usage = without_reasoning(completion.text).strip(), completion.usage
            question = run.question(text, ask.instructions)
            repeat = debates.ledger.start(run.name, question.id, retry=ask.retry)
            self._debated = run.name, question.id, repeat
            transcript, pool = await run.debate(question, repeat, listen, deltas=deltas)
            if transcript.status == "failed":
                message = f"the debate failed: {transcript.final.error or transcript.stop_reason}"
                raise Refusal(502, message, kind="server_error", code="debate_failed")
        text = transcript.answer or transcript.final.text or "The debate ended without an answer."
        if transcript.deferral is not None:
            text = f"I leave this question to a person: {transcript.deferral.reason}."
        usage += Debate(transcript=transcript).usage
        return Served(run=run, transcript=transcript, pool=pool, text=text, usage=usage)

    async def search(self, query: str, sources: Sequence[str] | None, k: int) -> KnowledgePool:
        """The best ``k`` passages of each of these sources; None: of all that the server offers."""
        async with self._working():
            return await self._debates.offers.search(query, sources, k)

    async def plain(self, protocol: str, messages: tuple[Message, ...], limit: int | None = None) -> tuple[str, Usage]:
        """The reply to one call of the protocol's model, without a debate."""
        async with self._working():
            run = await self._debates.offers.run_of(Ask(protocol=protocol, question=""))
            completion = await run.call("plain", messages, limit, question=messages[-1].content)
        return without_reasoning(completion.text), completion.usage

    def mark_delivered(self) -> None:
        """Say that the whole answer has been sent; the same question debates anew from now on."""
        self._is_delivered = True

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        """Wait for a free slot, and hold it for the block. Refusal if no debate may start when it is free."""
        debates = self._debates
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                await debates.slots.acquire()
                self._has_slot = True
                debates.running += 1
                debates.check()  # a limit may have been reached since the admission
                yield
        except TimeoutError:
            message = f"the request took longer than {debates.options.deadline:g} s; ask again to go on with it"
            raise Refusal(504, message, kind="server_error", code="deadline") from None
        except UserError as error:
            _log.warning("a debate failed: %s", error)
            raise Refusal(502, str(error), kind="server_error") from error
        finally:
            self._give_back()

    def _give_back(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._debates.running -= 1
            self._debates.slots.release()


class DebateResponse(ABC):
    """A response for which a question is debated as long as its client is there. By default it is a stream."""

    turn: ServedRequest
    ask: Ask
    end = b""
    """What follows the last event of a stream."""

    def __init__(self, debates: Debates, request: Request) -> None:
        self.debates, self.request = debates, request
        self.headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}  # nginx would collect the whole stream

    @property
    def opening(self) -> bytes:
        """The first event of a stream, if it does not begin with the debate."""
        return b""

    @abstractmethod
    def read(self) -> Ask:
        """What the request asks, read once it is admitted; Refusal if it cannot be answered."""

    @abstractmethod
    async def work(self, tell: Tell) -> object:
        """Debate; ``tell`` gets each event that is shown as a line during the debate."""

    @abstractmethod
    def line(self, part: Any) -> bytes:
        """What was told, or the result of the work, as events of a stream."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless the client goes away first; Refusal if the question cannot be debated, or not now."""
        with self.debates.admit() as self.turn:
            self.ask = self.read()
            self.debates.offers.check(self.ask)
            await unless_gone(receive, self.respond(send))

    async def respond(self, send: Send) -> None:
        """Send the response."""
        async with aclosing(self._events()) as events:
            response = StreamingResponse(events, headers=self.headers, media_type="text/event-stream")
            await response.stream_response(send)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        """The stream. A comment breaks each silence, from the start."""
        yield KEEP_ALIVE + self.opening
        try:
            async with aclosing(stream_progress(self.work, KEEPALIVE_SECONDS)) as parts:
                async for part in parts:
                    yield KEEP_ALIVE if part is None else self.line(part)
        except Refusal as refusal:
            yield data(refusal.error) + self.end
        else:
            yield self.end
            self.turn.mark_delivered()


def data(content: object) -> bytes:
    """An event of a stream, as JSON."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Do the work, but end it as soon as the client has gone; then the result is None."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, waiting = asyncio.create_task(work), asyncio.create_task(wait_for_disconnect())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not working.done() or not waiting.done():
            await cancel_tasks(working, waiting)
    return working.result() if working.done() and not working.cancelled() else None


# Transcripts


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

    async def find(
        self, run: str, question: str, repeat: int, token: str
    ) -> tuple[Transcript, KnowledgePool, RunRecord]:
        """The debate at an address, its pool and its run; Refusal if there is none, or if its file is damaged."""
        expected = self._token(f"{run}/{question}/{repeat}").encode()
        try:
            if hmac.compare_digest(expected, token.encode("utf-8", "replace")):
                entry = await asyncio.to_thread(self._read, run, question, repeat)
                if entry is not None:
                    return entry
        except UserError as error:
            _log.warning("a debate cannot be read: %s", error)
            why = "this debate cannot be read; the server's log says why"
            raise Refusal(500, why, kind="server_error", code="debate_unreadable") from None
        raise Refusal(404, "there is no such debate, or the address is not complete", code="debate_not_found")

    async def text(self, run: str, question: str, repeat: int, token: str) -> str:
        """The debate at an address as text, with its passages."""
        from madke.report.debate_text import debate_text

        transcript, pool, _ = await self.find(run, question, repeat, token)
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
            transcript = transcript_from_json(unseal(sealed))
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
