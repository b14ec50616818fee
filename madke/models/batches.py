"""Calls at half the price: what debates wait for is sent as one batch to the provider's batch interface.

Every debate runs until it waits for a call. When no further call arrives, all that wait are one batch: a wave. So a
protocol needs as many batches as it has calls one after another: a debate of two rounds needs two.

A line for each batch is in ``batches.jsonl`` before it is sent. A killed run is resumed by the same command: a call
that an earlier process sent is not sent again, its answer is collected. A call whose answer a batch does not give
(an error, an expired batch) is made as an ordinary call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madke._util.child_process import Child, why_ended
from madke._util.files import drop_torn_line, read_jsonl
from madke.core.chat import ChatModel, ChatRequest, Completion, Usage
from madke.core.errors import UserError, count_of
from madke.models.openai_client import OpenAIChat
from madke.models.prices import BATCH

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_log = logging.getLogger(__name__)

API = "api"
"""``--batch api``: through the endpoint's own files and batches; anything else is the command of a program."""
STATE = "batches.jsonl"
MOST_CALLS = 2000
"""Calls of one batch: replies of that many calls fit into one file that the client reads."""
MOST_AT_ONCE = 50_000
"""Debates, and calls that wait, at a time; with more questions, later ones start as debates end."""
QUIET_SECONDS = 2.0
"""Time without a further call after which all debates are taken to wait."""
POLL_SECONDS = (5.0, 60.0)
"""Time between two looks at a batch: at first, and at most."""
_OVER = ("completed", "failed", "expired", "cancelled")


class BatchApi:
    """OpenAI's files and batches, which other providers offer, too."""

    def __init__(self, connect: Callable[[], AsyncOpenAI]) -> None:
        self._connect = connect

    @property
    def _client(self) -> AsyncOpenAI:
        return self._connect().with_options(max_retries=5)

    async def send(self, lines: bytes, token: str) -> str:
        """Send a batch, one request a line; returns its name."""
        file = await self._client.files.create(file=("madke.jsonl", lines), purpose="batch")
        batch = await self._client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"madke": token}
        )
        return batch.id

    async def find(self, token: str) -> str | None:
        """The name of the batch that was sent with this token; None if none was."""
        async for batch in self._client.batches.list(limit=100):
            if (batch.metadata or {}).get("madke") == token:
                return batch.id
        return None

    async def state(self, batch: str) -> tuple[str, int]:
        """The status of a batch, and how many calls are answered or have failed."""
        found = await self._client.batches.retrieve(batch)
        counts = found.request_counts
        return found.status, counts.completed + counts.failed if counts else 0

    async def answers(self, batch: str) -> bytes:
        """The answers of a batch that is over, one a line; perhaps not of all its requests."""
        found = await self._client.batches.retrieve(batch)
        files = [file for file in (found.output_file_id, found.error_file_id) if file]
        return b"\n".join([(await self._client.files.content(file)).content for file in files])


class BatchCommand:
    """A program that answers a file of requests, such as ``vllm run-batch -i {input} -o {output} --model NAME``."""

    def __init__(self, command: str, folder: Path) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UserError(f"--batch {command!r}: {error}") from None
        if "{input}" not in command or "{output}" not in command:
            raise UserError(f"--batch {command!r}: expected `api`, or a command with {{input}} and {{output}}")
        self._folder = folder

    def _file(self, token: str, kind: str) -> Path:
        return self._folder / f"batch-{token}.{kind}.jsonl"

    async def send(self, lines: bytes, token: str) -> str:
        """As :meth:`BatchApi.send`; returns when the program has ended. UserError if it failed."""
        source, part, target = (self._file(token, kind) for kind in ("requests", "part", "answers"))
        source.write_bytes(lines)
        words = [word.replace("{input}", str(source)).replace("{output}", str(part)) for word in self._words]
        child = Child(words)
        try:
            status, _, errors = await asyncio.to_thread(child.ended)
        except asyncio.CancelledError:
            child.kill()
            raise
        if status:
            raise UserError(f"--batch: `{shlex.join(words)}` {why_ended(status, errors)}")
        part.rename(target)
        return token

    async def find(self, token: str) -> str | None:
        """As :meth:`BatchApi.find`."""
        return token if self._file(token, "answers").exists() else None

    async def state(self, batch: str) -> tuple[str, int]:
        """As :meth:`BatchApi.state`."""
        return "completed", 0

    async def answers(self, batch: str) -> bytes:
        """As :meth:`BatchApi.answers`."""
        return self._file(batch, "answers").read_bytes()


@dataclass(kw_only=True)
class _Batch:
    """A batch that was sent, by this process or an earlier one."""

    token: str
    ids: Sequence[str]
    since: float
    name: str | None = None
    answered: dict[str, asyncio.Future[bytes | None]] = field(default_factory=dict)
    """Id -> the body of its response; None if the batch gave none."""
    collecting: asyncio.Task[None] | None = None


class Batches:
    """The batches of one run.

    Args:
        service: Takes them.
        folder: The run's directory, for ``batches.jsonl``.
        allow: Is told the estimated usage of a batch, and of those that are out, before it is sent; UserError stops the
            run.
    """

    def __init__(self, service: BatchApi | BatchCommand, folder: Path, allow: Callable[[Usage], None]) -> None:
        self._service, self._file, self._allow = service, folder / STATE, allow
        self._waiting: list[tuple[str, Mapping[str, Any], asyncio.Future[bytes | None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._out: dict[str, Usage] = {}
        """Token of each batch of this process that is out -> its estimated usage."""
        self._earlier: dict[str, list[tuple[_Batch, str]]] = {}
        """Fingerprint of a request -> the places where an earlier process sent it."""
        for batch in self._read():
            for id_ in batch.ids:
                self._earlier.setdefault(id_.rpartition("-")[0], []).append((batch, id_))

    def has(self, sent: Mapping[str, Any]) -> bool:
        """Whether an earlier process sent this request, and nobody has asked for its answer since."""
        return bool(self._earlier.get(_fingerprint(sent)))

    async def answer(self, sent: Mapping[str, Any]) -> bytes | None:
        """The body of the response to a request; None if its batch gave none, so that it must be asked alone."""
        loop, fingerprint = asyncio.get_running_loop(), _fingerprint(sent)
        if places := self._earlier.get(fingerprint):
            batch, id_ = places.pop(0)
            if await self._was_sent(batch):
                return await batch.answered[id_]
        future: asyncio.Future[bytes | None] = loop.create_future()
        self._waiting.append((fingerprint, sent, future))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(QUIET_SECONDS, self._start_sending)
        return await future

    async def aclose(self) -> None:
        """Look no longer for answers. What is out stays out, and the same command collects it."""
        if self._timer is not None:
            self._timer.cancel()
        for task in [*self._sending]:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    def _start_sending(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), MOST_CALLS):
            self._keep(self._send(waiting[start : start + MOST_CALLS]))

    def _keep(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return task

    async def _send(self, waiting: Sequence[tuple[str, Mapping[str, Any], asyncio.Future[bytes | None]]]) -> None:
        numbered: dict[str, int] = {}
        batch = _Batch(token=secrets.token_hex(8), ids=[], since=time.time())
        lines = []
        for fingerprint, sent, future in waiting:
            numbered[fingerprint] = number = numbered.get(fingerprint, -1) + 1
            id_ = f"{fingerprint}-{number}"  # Two calls of equal form are two lines.
            batch.answered[id_] = future
            lines.append({"custom_id": id_, "method": "POST", "url": "/v1/chat/completions", "body": sent})
        batch.ids = [*batch.answered]
        try:
            estimate = sum((_estimated(sent) for _, sent, _ in waiting), Usage())
            self._allow(sum(self._out.values(), estimate))
            self._out[batch.token] = estimate
            self._note(token=batch.token, since=batch.since, ids=batch.ids)
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
            batch.name = await self._service.send(text, batch.token)
            self._note(token=batch.token, batch=batch.name)
            await self._collect(batch)
        except Exception as error:  # noqa: BLE001 - each call must learn that its batch is lost
            _fail(batch, error)
        finally:
            self._out.pop(batch.token, None)

    async def _was_sent(self, batch: _Batch) -> bool:
        """Whether an earlier process sent this batch; its answers are then being collected."""
        if batch.collecting is None:
            batch.answered = {id_: asyncio.get_running_loop().create_future() for id_ in batch.ids}
            batch.collecting = self._keep(self._collect_earlier(batch))
        if batch.name is None:
            # The process ended while it sent the batch.
            either: list[asyncio.Future[Any]] = [batch.collecting, *batch.answered.values()]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return batch.name is not None

    async def _collect_earlier(self, batch: _Batch) -> None:
        try:
            if batch.name is None:
                batch.name = await self._service.find(batch.token)
            if batch.name is not None:
                await self._collect(batch)
        except Exception as error:  # noqa: BLE001
            _fail(batch, error)

    async def _collect(self, batch: _Batch) -> None:
        """Wait until a batch is over, and hand out its answers."""
        assert batch.name is not None
        seconds, most = POLL_SECONDS
        shown = None
        while (state := await self._service.state(batch.name))[0] not in _OVER:
            if state != shown:
                status, done = shown = state
                since = time.strftime("%H:%M", time.localtime(batch.since))
                where = f"{done} of {count_of(len(batch.ids), 'call')} done, {status}"
                _log.warning("batch %s, out since %s: %s", batch.name, since, where)
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, most)
        found = dict(_bodies(await self._service.answers(batch.name)))
        missing = len(batch.ids) - len(found.keys() & set(batch.ids))
        if missing:
            left = f"no answer to {missing} of {count_of(len(batch.ids), 'call')}, which are asked one by one"
            _log.warning("batch %s: %s, %s", batch.name, state[0], left)
        for id_, future in batch.answered.items():
            if not future.done():
                future.set_result(found.get(id_))

    def _note(self, **record: Any) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def _read(self) -> Iterator[_Batch]:
        """The batches of earlier processes. A last line that a kill cut off is of a batch that was not sent."""
        drop_torn_line(self._file)
        found: dict[str, _Batch] = {}
        for _, row in read_jsonl(self._file):
            token = str(row["token"])
            if "ids" in row:
                found[token] = _Batch(token=token, ids=row["ids"], since=row["since"])
            elif token in found:
                found[token].name = row["batch"]
        yield from found.values()


class BatchClient(OpenAIChat):
    """A model at an endpoint whose calls go through batches; arguments as for :func:`in_batches`.

    With ``api``, the first call is an ordinary one, from which the client learns what the endpoint takes, unless an
    earlier process sent it in a batch.
    """

    def __init__(self, model: str, how: str, folder: Path, allow: Callable[[str, Usage], None], **options: Any) -> None:
        super().__init__(model, **options)
        service = BatchApi(self._connected) if how == API else BatchCommand(how, folder)
        self._batches = Batches(service, folder, partial(allow, self.name))
        self._first = asyncio.Lock()
        self._is_known = how != API

    async def complete(self, request: ChatRequest) -> Completion:
        """See :meth:`OpenAIChat.complete`."""
        request = replace(request, on_delta=None, on_token=None)
        if not self._is_known:
            async with self._first:
                if not self._is_known:
                    completion = await super().complete(request)
                    self._is_known = True
                    return completion
        return await super().complete(request)

    async def aclose(self) -> None:
        """Close the connections; batches that are out stay out."""
        await self._batches.aclose()
        await super().aclose()

    async def _post(self, sent: Mapping[str, Any], request: ChatRequest) -> bytes:
        whole = {name: value for name, value in sent.items() if not name.startswith("stream")}
        if self._is_known or self._batches.has(whole):
            body = await self._batches.answer(whole)
            if body is not None:
                return body
        return await super()._post(sent, request)


class BatchedChat:
    """The model of a client of batches. It has no endpoint of its own, so no limit of calls at a time holds for it."""

    takes_schemas = True

    def __init__(self, client: BatchClient) -> None:
        self.name = client.name
        self._client = client

    async def complete(self, request: ChatRequest) -> Completion:
        """See :meth:`BatchClient.complete`."""
        return await self._client.complete(request)

    async def aclose(self) -> None:
        """See :meth:`BatchClient.aclose`."""
        await self._client.aclose()


def in_batches(
    models: Mapping[str, ChatModel], how: str, folder: Path, allow: Callable[[str, Usage], None]
) -> dict[str, ChatModel]:
    """Role -> the same model with its calls in batches.

    Args:
        models: Role -> model.
        how: ``api``, or the command of a program, see :class:`BatchCommand`.
        folder: The run's directory.
        allow: As for :class:`Batches`, with the model's name in front.

    Raises:
        UserError: A model is not called at an OpenAI-compatible endpoint.
    """
    made: dict[ChatModel, ChatModel] = {}
    for model in models.values():
        if type(model) is not OpenAIChat:
            raise UserError(f"--batch is for openai/ models and those of models.yaml, and {model.name} is none")
        if model not in made:
            client = BatchClient(model._model, how, folder, allow, name=model.name, endpoint=model.endpoint)
            client.dialect = model.dialect  # as far as an earlier process learned it
            made[model] = BatchedChat(client)
    return {role: made[model] for role, model in models.items()}


def _fingerprint(sent: Mapping[str, Any]) -> str:
    return sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()[:24]


def _estimated(sent: Mapping[str, Any]) -> Usage:
    """Four characters a token, and a reply of full length."""
    text = "".join(str(message.get("content", "")) for message in sent.get("messages", ()))
    most = sent.get("max_completion_tokens") or sent.get("max_tokens") or 0
    return Usage(prompt_tokens=len(text) // 4, completion_tokens=int(most), estimated=True)


def _bodies(answers: bytes) -> Iterator[tuple[str, bytes]]:
    """Id and response body of each answer, with its service tier; an answer with an error has none."""
    for line in answers.splitlines():
        try:
            answer = json.loads(line)
            response = answer.get("response") or {}
            if response.get("status_code") == 200 and not answer.get("error"):
                yield str(answer["custom_id"]), json.dumps({**response["body"], "service_tier": BATCH}).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue


def _fail(batch: _Batch, error: Exception) -> None:
    if not isinstance(error, UserError):
        error = UserError(f"--batch: {count_of(len(batch.ids), 'call')} could not be sent or collected: {error}")
    for future in batch.answered.values():
        if not future.done():
            future.set_exception(error)
