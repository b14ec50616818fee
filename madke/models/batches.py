"""Calls at half the price: what debates wait for is sent as one batch to the provider's batch interface.

Every debate runs until it waits for a call. When no further call arrives, all that wait are one batch: a wave. So a
protocol needs as many batches as it has calls one after another: a debate of two rounds needs two.

A line for each batch is in ``batches.jsonl`` before it is sent. A killed run is resumed by the same command: a call
that an earlier process sent is not sent again, its answer is collected. A call whose answer a batch does not give
(an error, an expired batch) is made as an ordinary call. A program such as vLLM's ``run-batch`` takes the same lines.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
"""``--batch api``: the endpoint's own files and batches. Other texts are the command of a program."""
STATE = "batches.jsonl"
MAX_BATCH_CALLS = 2000
"""Calls of one batch: replies of that many calls fit into one file that the client reads. A program gets all."""
MAX_BATCH_CONCURRENCY = 50_000
"""Debates, and calls that wait, at a time; with more questions, later ones start as debates end."""
QUIET_SECONDS = 2.0
"""Time without a further call after which all debates are taken to wait."""
POLL_SECONDS = (5.0, 60.0)
"""Time between two looks at a batch: at first, and at most."""
_URL: Final = "/v1/chat/completions"

_Waiting = tuple[str, Mapping[str, Any], asyncio.Future[bytes | None]]
"""Fingerprint, request, and the body of its response: None if the batch gave none."""


@dataclass(kw_only=True)
class _Batch:
    """A batch that was sent, by this process or an earlier one."""

    token: str
    ids: Sequence[str]
    since: float
    name: str | None = None
    """As the provider calls it; None if the process ended while it sent the batch."""
    answers: asyncio.Task[Mapping[str, bytes] | None] | None = None
    """Its answers, for a batch of an earlier process; None if it has never arrived."""


class BatchClient(OpenAIChat):
    """A model at an endpoint whose calls go through batches; arguments as for :func:`in_batches` and its base class.

    The batches are OpenAI's files and batches, which other providers offer, too, or go through a program. With ``api``,
    the first call is an ordinary one, from which the client learns what the endpoint takes, unless an earlier process
    sent it in a batch.
    """

    def __init__(self, model: str, how: str, folder: Path, allow: Callable[[str, Usage], None], **options: Any) -> None:
        super().__init__(model, **options)
        self._file, self._allow = folder / STATE, allow
        self._program = None if how == API else shlex.split(how)
        self._first = asyncio.Lock()
        self._is_known = how != API
        self._runs = asyncio.Lock()  # one program at a time: each loads the model
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._out: dict[str, Usage] = {}
        """Token of each batch of this process that is out -> its estimated usage."""
        drop_torn_line(self._file)  # of a batch that was not sent
        batches: dict[str, _Batch] = {}
        for _, row in read_jsonl(self._file):
            if "ids" in row:
                batches[row["token"]] = _Batch(token=row["token"], ids=row["ids"], since=row["since"])
            elif row["token"] in batches:
                batches[row["token"]].name = row["batch"]
        self._earlier: dict[str, list[tuple[_Batch, str]]] = {}
        """Fingerprint of a request -> the places where an earlier process sent it."""
        for batch in batches.values():
            for id_ in batch.ids:
                self._earlier.setdefault(id_.rpartition("-")[0], []).append((batch, id_))

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

    async def _post(self, sent: Mapping[str, Any], request: ChatRequest) -> bytes:
        whole = {name: value for name, value in sent.items() if not name.startswith("stream")}
        fingerprint = sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:24]
        body = None
        if self._is_known or self._earlier.get(fingerprint):
            import openai

            try:
                body = await self._answer(fingerprint, whole)
            except (openai.OpenAIError, OSError) as error:
                raise UserError(f"--batch: calls could not be sent or collected: {error}") from error
        return await super()._post(sent, request) if body is None else body

    async def _answer(self, fingerprint: str, sent: Mapping[str, Any]) -> bytes | None:
        """The body of the response to a request; None if its batch gave none, so that it must be asked alone."""
        loop = asyncio.get_running_loop()
        if places := self._earlier.get(fingerprint):
            batch, id_ = places.pop(0)
            if batch.answers is None:
                batch.answers = self._keep(loop.create_task(self._collect(batch)))
            await asyncio.wait([batch.answers])
            if (bodies := batch.answers.result()) is not None:
                return bodies.get(id_)
        future: asyncio.Future[bytes | None] = loop.create_future()
        self._waiting.append((fingerprint, sent, future))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(QUIET_SECONDS, self._send_waiting)
        return await future

    async def aclose(self) -> None:
        """Close the connections. Batches that are out stay out, and the same command collects them."""
        if self._timer is not None:
            self._timer.cancel()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().aclose()

    def _keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        most = len(waiting) if self._program else MAX_BATCH_CALLS
        for start in range(0, len(waiting), most):
            part = waiting[start : start + most]
            self._keep(asyncio.get_running_loop().create_task(self._send(part)))

    async def _send(self, waiting: Sequence[_Waiting]) -> None:
        times: dict[str, int] = {}
        futures: dict[str, asyncio.Future[bytes | None]] = {}
        lines, estimate = [], Usage()
        for fingerprint, sent, future in waiting:
            times[fingerprint] = times.get(fingerprint, -1) + 1
            id_ = f"{fingerprint}-{times[fingerprint]}"  # Two calls of equal form are two lines.
            futures[id_] = future
            line = {"custom_id": id_, "method": "POST", "url": _URL, "body": sent}
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
            estimate += _estimate_usage(sent)
        text = "".join(lines).encode()
        batch = _Batch(token=secrets.token_hex(8), ids=[*futures], since=time.time())
        try:
            self._allow(self.name, sum(self._out.values(), estimate))
            self._out[batch.token] = estimate
            self._record(token=batch.token, since=batch.since, ids=batch.ids)
            if self._program:
                await self._run(self._program, batch.token, text)
            else:
                client, token = self._patient_client(), {"madke": batch.token}
                file = await client.files.create(file=("madke.jsonl", text), purpose="batch")
                created = await client.batches.create(
                    input_file_id=file.id, endpoint=_URL, completion_window="24h", metadata=token
                )
                batch.name = created.id
                self._record(token=batch.token, batch=batch.name)
            bodies = await self._collect(batch) or {}
        except Exception as error:  # noqa: BLE001 - each call must learn that its batch is lost
            for future in (each for each in futures.values() if not each.done()):
                future.set_exception(error)
        else:
            for id_, future in futures.items():
                if not future.done():
                    future.set_result(bodies.get(id_))
        finally:
            self._out.pop(batch.token, None)

    def _file_of(self, token: str, kind: str) -> Path:
        return self._file.with_name(f"batch-{token}.{kind}.jsonl")

    async def _run(self, program: Sequence[str], token: str, lines: bytes) -> None:
        """Let the program answer a batch. UserError if it fails."""
        requests, part = self._file_of(token, "requests"), self._file_of(token, "part")
        requests.write_bytes(lines)
        words = [word.replace("{input}", str(requests)).replace("{output}", str(part)) for word in program]
        async with self._runs:
            child = Child(words)
            try:
                status, _, errors = await asyncio.to_thread(child.communicate)
            except asyncio.CancelledError:
                child.kill()
                raise
        if status:
            raise UserError(f"--batch: `{shlex.join(words)}` {why_ended(status, errors)}")
        part.rename(self._file_of(token, "answers"))

    async def _collect(self, batch: _Batch) -> Mapping[str, bytes] | None:
        """Wait until a batch is over. Id -> body of each answer; None if no such batch arrived."""
        if self._program:
            answers = self._file_of(batch.token, "answers")
            return self._collect_bodies(batch, "completed", [answers.read_bytes()]) if answers.exists() else None
        client, shown = self._patient_client(), ""
        seconds, most = POLL_SECONDS
        if batch.name is None:
            async for each in client.batches.list(limit=100):
                if (each.metadata or {}).get("madke") == batch.token:
                    batch.name = each.id
                    break
            else:
                return None
        while True:
            state = await client.batches.retrieve(batch.name)
            if state.status in ("completed", "failed", "expired", "cancelled"):
                break
            counts = state.request_counts
            done = counts.completed + counts.failed if counts else 0
            line = f"{done} of {count_of(len(batch.ids), 'call')} done, {state.status}"
            if line != shown:
                shown, since = line, time.strftime("%H:%M", time.localtime(batch.since))
                _log.warning("batch %s, out since %s: %s", batch.name, since, line)
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, most)
        files = filter(None, (state.output_file_id, state.error_file_id))
        return self._collect_bodies(batch, state.status, [(await client.files.content(file)).content for file in files])

    def _collect_bodies(self, batch: _Batch, status: str, files: Sequence[bytes]) -> Mapping[str, bytes]:
        """Id -> body of each answer without an error, with its service tier; a warning says how many are missing."""
        bodies: dict[str, bytes] = {}
        for line in b"\n".join(files).splitlines():
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                answer = json.loads(line)
                response = answer.get("response") or {}
                if response.get("status_code") == 200 and not answer.get("error"):
                    body = {**response["body"], "service_tier": BATCH}
                    bodies[str(answer["custom_id"])] = json.dumps(body).encode()
        if missing := len(batch.ids) - len(bodies.keys() & set(batch.ids)):
            left = f"no answer to {missing} of {count_of(len(batch.ids), 'call')}, which are asked one by one"
            _log.warning("batch %s: %s, %s", batch.name or batch.token, status, left)
        return bodies

    def _patient_client(self) -> AsyncOpenAI:
        return self._open_client().with_options(max_retries=5)

    def _record(self, **record: Any) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


class BatchedChat:
    """The model of a client of batches. It has no endpoint of its own, so no limit of calls at a time holds for it."""

    takes_schemas = True

    def __init__(self, client: BatchClient) -> None:
        self.name, self.complete, self.aclose = client.name, client.complete, client.aclose


def in_batches(
    models: Mapping[str, ChatModel], how: str, folder: Path, allow: Callable[[str, Usage], None]
) -> dict[str, ChatModel]:
    """Role -> the same model with its calls in batches.

    Args:
        models: Role -> model.
        how: ``api``, or the command of a program that answers the file ``{input}`` in the file ``{output}``, such as
            ``vllm run-batch -i {input} -o {output} --model NAME``.
        folder: The run's directory, for ``batches.jsonl``.
        allow: Is told the model's name and the estimated usage of a batch, and of those that are out, before it is
            sent; UserError stops the run.

    Raises:
        UserError: A model is not called at an OpenAI-compatible endpoint.
    """
    clients: dict[ChatModel, ChatModel] = {}
    for model in models.values():
        if type(model) is not OpenAIChat:
            raise UserError(f"--batch is for openai/ models and those of models.yaml, and {model.name} is none")
        if model not in clients:
            client = BatchClient(model._model, how, folder, allow, name=model.name, endpoint=model.endpoint)
            client.dialect = model.dialect  # as far as an earlier process learned it
            clients[model] = BatchedChat(client)
    return {role: clients[model] for role, model in models.items()}


def _estimate_usage(sent: Mapping[str, Any]) -> Usage:
    """Four characters a token, and a reply of full length."""
    text = "".join(str(message.get("content", "")) for message in sent.get("messages", ()))
    most = sent.get("max_completion_tokens") or sent.get("max_tokens") or 0
    return Usage(prompt_tokens=len(text) // 4, completion_tokens=int(most), estimated=True)
