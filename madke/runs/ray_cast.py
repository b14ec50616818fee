"""Models on the nodes of a Ray cluster, each node with its own endpoint or GPU.

Debates run in this process; only model calls run on nodes. A finished call returns here and is stored before it is
used. When a node is lost, its calls in flight are repeated on another node.

A node calls the endpoint in the environment in which Ray was started *on that node* (``OPENAI_BASE_URL``), with the key
in that environment: keys are never sent. ``--base-url`` applies to all nodes. A model is recorded under its name *on
this machine*, whichever node answered. Paths (``hf/FOLDER``, ``gguf/FILE``, ``scripted/FILE``) refer to the files of
each node.

The values of a call (``ChatRequest.stage``) are sent only to models that may read them, ``offline`` and your own
objects: among them is the task, which may be an object that cannot be sent. All others get the messages alone.
"""

import asyncio
import logging
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from madke._util.versions import versions
from madke._util.workers.ray_cluster import cause_on_node, connected, fetched, same_versions
from madke.core.chat import ChatModel, ChatRequest, Completion, takes_schemas
from madke.core.errors import CallError, UserError
from madke.endpoints.endpoint import OPENAI_URL, AtEndpoint, ModelEntries, endpoints_of, read_models
from madke.endpoints.model_names import kind_of
from madke.llm.models import OwnModel
from madke.llm.offline import OfflineChat
from madke.runs.cast import open_models
from madke.runs.options import RunOptions

_log = logging.getLogger(__name__)

_Answer = Completion | dict[str, Any]
"""A completion, or the fields of a CallError."""

_RESTARTS = 3
"""Maximum number of restarts of a worker, since a model may kill it each time."""
_TRIES = 2
"""Maximum number of workers that a call is sent to when workers are lost: the call may be the cause."""
_PATIENCE = 30.0
"""Seconds without a new ready worker after which a warning names the missing ones."""
_ENDED = "Ray: the worker on node {} ended while starting"
_REMEMBERED = 4
"""Number of questions whose worker is remembered, per concurrent question."""


@contextmanager
def ray_models(names: Mapping[str, str], options: RunOptions) -> Iterator[dict[str, ChatModel]]:
    """Role -> model, like :func:`madke.runs.cast.open_models`, open on the nodes of a cluster while the block runs.

    If a model is ``hf/`` and there are GPUs, each GPU has one worker; otherwise each node with CPUs has one. An ``hf/``
    model without a GPU takes all CPUs of its node. All calls of a question go to the same worker, for the prefix cache
    of its server; a new question goes to the worker with the fewest calls in flight. A worker whose process ended is
    restarted as long as its node is alive. A call raises UserError when no worker is left.

    The entries of ``models.yaml`` are sent to the nodes, but not the keys that they name. Without ``base_url`` each
    node has its own endpoint. One worker may get all ``concurrency`` calls.
    """
    if "human" in map(kind_of, names.values()):
        raise UserError("--engine ray: a human answers at this terminal, not on a node; remove --engine ray")
    models = read_models(options.models_file)
    here = open_models(names, base_url=options.base_url, replay=True, models=models)
    expected = {name: here[role] for role, name in names.items()}
    with connected(options.address) as ray:
        workers = _start(ray, expected, options, models)
        try:
            _wait_until_open(ray, workers, expected)
            nodes = _Nodes(ray, workers, remembered=_REMEMBERED * options.concurrency)
            opened = {name: _OnNodes(name, model, nodes) for name, model in expected.items()}
            yield {role: opened[name] for role, name in names.items()}
        finally:
            for worker in workers:
                ray.kill(worker.actor)


@dataclass(kw_only=True, eq=False, slots=True)
class _Worker:
    actor: Any
    node: str
    """Host name, for messages."""
    busy: int = 0
    """Number of calls in flight."""


class _Nodes:
    """The ready workers, for one event loop."""

    def __init__(self, ray: Any, workers: Sequence[_Worker], *, remembered: int) -> None:
        self._ray = ray
        self._ready = list(workers)
        self._returning: set[asyncio.Task[None]] = set()
        self._asked: dict[str, _Worker] = {}
        """Question -> its worker, most recent last."""
        self._remembered = remembered

    async def ask(self, name: str, request: ChatRequest) -> _Answer:
        for lost in range(_TRIES):
            worker = await self._worker_for(request.purpose.question)
            answer = worker.actor.complete.remote(name, request)
            worker.busy += 1
            try:
                reply: _Answer = await answer
            except asyncio.CancelledError:
                self._ray.cancel(answer)
                raise
            except self._ray.exceptions.RayTaskError as error:
                raise cause_on_node(error) from error
            except self._ray.exceptions.RayError as error:
                self._lose(worker, error)
                continue
            finally:
                worker.busy -= 1
            if isinstance(reply, Completion):
                reply = replace(reply, attempts=reply.attempts + lost)
            return reply
        reason = f"{_TRIES} Ray workers ended during this call, the last on node {worker.node}"
        return Completion(outcome="failed", error=reason, finish_reason="error", attempts=_TRIES)

    async def _worker_for(self, question: str) -> _Worker:
        while not self._ready:
            if not self._returning:
                raise UserError(
                    "Ray: no worker is left; all nodes are lost or their workers keep ending. Finished questions are "
                    "kept; run the same command again to continue"
                )
            await asyncio.wait(self._returning, return_when=asyncio.FIRST_COMPLETED)
        worker = self._asked.pop(question, None)
        if worker not in self._ready:
            worker = min(self._ready, key=lambda each: each.busy)
            # Among equals, the least recently used one.
            self._ready.remove(worker)
            self._ready.append(worker)
        self._asked[question] = worker
        if len(self._asked) > self._remembered:
            del self._asked[next(iter(self._asked))]
        return worker

    def _lose(self, worker: _Worker, error: Exception) -> None:
        """Send it no calls until it has reopened its models. Only the first of several lost calls logs a warning."""
        if worker in self._ready:
            self._ready.remove(worker)
            _log.warning("the Ray worker on node %s is lost; other workers take over: %s", worker.node, _line(error))
            task = asyncio.create_task(self._return(worker))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def _return(self, worker: _Worker) -> None:
        try:
            # Ray's retries wait until the worker has restarted, or has failed to.
            await worker.actor.open.options(max_task_retries=-1).remote()
        except self._ray.exceptions.RayError as error:
            _log.warning("the Ray worker on node %s cannot be restarted: %s", worker.node, _line(error))
        else:
            self._ready.append(worker)


class _OnNodes:
    """A model that every worker has open."""

    def __init__(self, name: str, here: ChatModel, nodes: _Nodes) -> None:
        self.name = here.name
        self.takes_schemas = takes_schemas(here)
        if isinstance(here, AtEndpoint):
            self.endpoint, self.dialect = here.endpoint, here.dialect
        self._name = name
        self._nodes = nodes
        self._reads_values = isinstance(here, OfflineChat) or (isinstance(here, OwnModel) and not here.is_function)

    async def complete(self, request: ChatRequest) -> Completion:
        if request.stage is not None:
            request = _sendable(request) if self._reads_values else replace(request, stage=None)
        reply = await self._nodes.ask(self._name, request)
        if isinstance(reply, Completion):
            return reply
        raise CallError(**reply)


def _sendable(request: ChatRequest) -> ChatRequest:
    """The request; UserError if the task among its values, which may be the user's own object, cannot be pickled."""
    from ray import cloudpickle

    task = request.stage and request.stage.task
    try:
        cloudpickle.dumps(task)
    except Exception as error:  # noqa: BLE001 - Pickling runs the object's own code.
        name = getattr(task, "name", type(task).__name__)
        why = f"cannot be sent to a node ({error}); hold nothing in it that cannot be pickled, or remove --engine ray"
        raise UserError(f"Ray: the task {name!r} {why}") from None
    return request


def _start(ray: Any, names: Iterable[str], options: RunOptions, declared: ModelEntries) -> list[_Worker]:
    """Start a worker at each place. It gets the names of the models and opens them itself."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    models = {name: name for name in names}
    entries = {name: found.model_dump(exclude_unset=True) for name in names if (found := declared.entry(name))}
    named, base_url = declared.named, options.base_url
    check = same_versions(versions())

    # Pickled by value. It uses nothing of madke before the version check, which can thus report a missing madke.
    class Models:
        def __init__(self) -> None:
            self._opened: dict[str, ChatModel] = {}

        async def open(self) -> dict[str, tuple[str, str | None]]:
            """Model -> its own name and address."""
            from madke.endpoints.endpoint import endpoints_of

            opened = self._models()
            known = endpoints_of(opened.values())
            return {
                name: (model.name, str(known[model.name]["address"]) if model.name in known else None)
                for name, model in opened.items()
            }

        async def probe(self) -> None:
            from madke.core.errors import UserError
            from madke.endpoints.endpoint import refuse_unreachable

            try:
                refuse_unreachable(self._models().values())
            except UserError as error:
                raise UserError(f"Ray: the node {socket.gethostname()}: {error}") from None

        async def complete(self, name: str, request: ChatRequest) -> _Answer:
            from madke.core.errors import CallError

            try:
                return await self._models()[name].complete(request)
            except CallError as error:
                return vars(error)  # Ray would add its traceback to a raised error

        def _models(self) -> dict[str, ChatModel]:
            if not self._opened:
                check()
                from madke.core.errors import UserError
                from madke.endpoints.endpoint import ModelEntries, ModelEntry
                from madke.runs.cast import open_models

                known = ModelEntries(
                    entries={name: ModelEntry(**fields) for name, fields in entries.items()}, named=named
                )
                try:
                    self._opened = open_models(models, base_url=base_url, models=known, probed=False)
                except UserError as error:
                    raise UserError(f"Ray: the node {socket.gethostname()}: {error}") from None
            return self._opened

    remote = ray.remote(Models)
    places = _places(ray, gpus="hf" in map(kind_of, models))
    return [
        _Worker(
            actor=remote.options(
                max_restarts=_RESTARTS,
                max_concurrency=options.concurrency,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
                **needs,
            ).remote(),
            node=node["NodeManagerHostname"],
        )
        for node, needs in places
    ]


def _places(ray: Any, *, gpus: bool) -> list[tuple[Any, dict[str, float]]]:
    """One (node, resources of the worker) for each worker."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    each_gpu = [node for node in nodes for _ in range(int(node["Resources"].get("GPU", 0)))]
    if gpus and each_gpu:
        return [(node, {"num_gpus": 1, "num_cpus": 0}) for node in each_gpu]
    # A node without CPUs, often the head of a cluster, is not meant to run workers.
    working = [node for node in nodes if node["Resources"].get("CPU", 0) >= 1]
    if not working:
        raise UserError("Ray: no node of the cluster has a CPU to run workers on")
    # A worker that waits for a server requests no CPU, so that it need not wait for free ones.
    return [(node, {"num_cpus": int(node["Resources"]["CPU"]) if gpus else 0}) for node in working]


def _wait_until_open(ray: Any, workers: Sequence[_Worker], expected: Mapping[str, ChatModel]) -> None:
    opening = {worker.actor.open.remote(): worker for worker in workers}
    left = list(opening)
    while left:
        done, left = ray.wait(left, timeout=_PATIENCE)
        if not done:
            waiting = ", ".join(sorted({opening[each].node for each in left}))
            _log.warning("waiting for Ray workers to load their models, or for CPUs or GPUs to be free, on %s", waiting)
        for each in done:
            node = opening[each].node
            found = fetched(ray, each, _ENDED.format(node))
            for name, model in expected.items():
                _compare(node, name, model, *found[name])
    for worker, there in [(worker, worker.actor.probe.remote()) for worker in workers]:
        fetched(ray, there, _ENDED.format(worker.node))


def _compare(node: str, name: str, here: ChatModel, there: str, address: str | None) -> None:
    """UserError if a node's model has another name than here; a warning if its endpoint differs."""
    if here.name != there:
        why = f"has the model {there}, but this machine has {here.name}; use the same on every node"
        raise UserError(f"Ray: the node {node} {why}")
    known = endpoints_of([here]).get(there, {}).get("address")
    if address == known:
        return
    if address == OPENAI_URL:
        raise UserError(
            f"Ray: the node {node} would call OpenAI for {name}; start Ray there with OPENAI_BASE_URL, or pass "
            "--base-url"
        )
    _log.warning(
        "the node %s calls %s at %s; its calls are stored as those of %s at %s", node, there, address, there, known
    )


def _line(error: Exception) -> str:
    """The first line of a Ray error, or of the exception on the node that caused it."""
    return str(getattr(error, "cause", None) or error).strip().partition("\n")[0]
