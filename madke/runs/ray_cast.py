"""The cast's models on the nodes of a Ray cluster, each with an endpoint or a GPU of its own.

Debates are played in this process, as ever; only model calls travel. Each has to come home when it has ended in any
case, so that it is stored before it is used and never paid for twice, and a call that is asked costs this process no
more than one that is streamed home. In return the call store, retries, limits, searches and the estimator are those of
any run, and a node that is lost takes nothing with it but the calls that it was asked just then: they are asked of
another, and the questions go on. The price: this process's CPU, some 2 ms a call, bounds what a cluster can do
(``eval/benchmarks/ray_run.py``).

A node's ``openai/`` or ``azure/`` model asks the endpoint in the environment in which Ray was started *there*
(``OPENAI_BASE_URL``), with the key of that environment: keys do not travel, nor does the environment of this machine.
``--base-url`` is for all nodes. A model is recorded, and its calls are kept, under the name that it has *here*,
whichever node's endpoint answered: which node that is, is chance. Paths (``hf/FOLDER``, ``scripted/FILE``) are each
node's own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.errors import CallError, UserError
from madke.llm import read_models
from madke.llm.endpoints import OPENAI_URL, AtEndpoint, Models, endpoints_of
from madke.llm.models import MODEL_FORMS, kind_of
from madke.runs.cast import open_models
from madke.versions import versions
from madke.workers.ray_cluster import cause, connected, same_versions

_log = logging.getLogger(__name__)

_Answer = tuple[Completion | dict[str, Any], float]
"""A completion, or the fields of a CallError; and for how many seconds the model should not be asked."""

_RESTARTS = 3
"""So often a worker whose process ended is started again; one that a model kills each time must not go on forever."""
_ASKED = 2
"""Workers that a call is asked of at most, where the first is lost with it: it may be what killed them."""
_PATIENCE = 30.0
"""Seconds without a worker getting ready after which we say what is waited for."""
_REMEMBERED = 4
"""Questions whose worker is remembered, for each that is under way."""


@contextmanager
def ray_models(
    names: Mapping[str, str],
    *,
    base_url: str | None = None,
    address: str | None = None,
    concurrency: int,
    models: Models | None = None,
) -> Iterator[dict[str, ChatModel]]:
    """Role -> model, like :func:`madke.runs.cast.open_models`, opened on the nodes of a cluster while the block runs.

    There is one worker for each GPU where a model is ``hf/`` and there are GPUs, else one for each node that has CPUs;
    an ``hf/`` model without a GPU takes all CPUs of its node. All calls of a question are asked of one worker while it
    is there, for its server's prefix cache; a question that begins goes to the one with the fewest calls under way.

    The models raise :class:`madke.core.errors.CallError` as those of ``open_model`` do, and UserError when no worker is
    left. A worker whose process ended is started again while its node lives.

    Args:
        names: Role -> model name.
        base_url: The endpoint of the models that have one, for every node; None leaves it to each node.
        address: See :func:`madke.workers.ray_cluster.connected`.
        concurrency: Calls under way at once; all of them may be one worker's.
        models: The entries of ``models.yaml``, which travel to the nodes; the keys that they name do not.

    Raises:
        UserError: The cluster cannot be used, or a node cannot open a model, or would take another one for it.
    """
    if "human" in map(kind_of, names.values()):
        raise UserError("--engine ray: a human answers at this terminal, not on a node; leave the engine out")
    if models is None and any(kind_of(name) not in MODEL_FORMS for name in names.values()):
        models = read_models()
    here = open_models(names, base_url=base_url, replay=True, models=models)
    expected = {name: here[role] for role, name in names.items()}
    with connected(address) as ray:
        workers = _start(ray, expected, base_url, concurrency, models or Models())
        try:
            _wait_until_open(ray, workers, expected)
            nodes = _Nodes(ray, workers, remembered=_REMEMBERED * concurrency)
            opened = {name: _OnNodes(name, model, nodes) for name, model in expected.items()}
            yield {role: opened[name] for role, name in names.items()}
        finally:
            for worker in workers:
                ray.kill(worker.actor)


@dataclass(kw_only=True, eq=False, slots=True)
class _Worker:
    actor: Any
    node: str
    """For people."""
    busy: int = 0
    """Calls under way."""


class _Nodes:
    """The workers that can be asked, in one event loop."""

    def __init__(self, ray: Any, workers: Sequence[_Worker], *, remembered: int) -> None:
        self._ray = ray
        self._ready = list(workers)
        self._returning: set[asyncio.Task[None]] = set()
        self._asked: dict[str, _Worker] = {}
        """Question -> whom it was asked of, the latest last."""
        self._remembered = remembered

    async def ask(self, name: str, request: ChatRequest) -> _Answer:
        for lost in range(_ASKED):
            worker = await self._worker_for(request.purpose.question)
            answer = worker.actor.complete.remote(name, request)
            worker.busy += 1
            try:
                said, hold = await answer
            except asyncio.CancelledError:
                self._ray.cancel(answer)
                raise
            except self._ray.exceptions.RayTaskError as error:
                raise cause(error) from error
            except self._ray.exceptions.RayError as error:
                self._lose(worker, error)
                continue
            finally:
                worker.busy -= 1
            if isinstance(said, Completion):
                said = replace(said, attempts=said.attempts + lost)
            return said, hold
        reason = f"{_ASKED} Ray workers ended while they were asked it, the last on node {worker.node}"
        return Completion(outcome="failed", error=reason, finish_reason="error", attempts=_ASKED), 0.0

    async def _worker_for(self, question: str) -> _Worker:
        while not self._ready:
            if not self._returning:
                raise UserError(
                    "Ray: no worker is left, all nodes are lost or their workers keep ending; what is finished is "
                    "kept, and the same command again goes on from there"
                )
            await asyncio.wait(self._returning, return_when=asyncio.FIRST_COMPLETED)
        worker = self._asked.pop(question, None)
        if worker not in self._ready:
            worker = min(self._ready, key=lambda each: each.busy)
            # Among equals, the one whose turn was longest ago.
            self._ready.remove(worker)
            self._ready.append(worker)
        self._asked[question] = worker
        if len(self._asked) > self._remembered:
            del self._asked[next(iter(self._asked))]
        return worker

    def _lose(self, worker: _Worker, error: Exception) -> None:
        """Ask it no more until it has opened its models again; of many calls that were lost, the first one says so."""
        if worker in self._ready:
            self._ready.remove(worker)
            _log.warning("the Ray worker on node %s is lost, its calls go to others: %s", worker.node, _line(error))
            task = asyncio.create_task(self._return(worker))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def _return(self, worker: _Worker) -> None:
        try:
            # Ray's retries wait until the worker has been started again, or is known not to be.
            await worker.actor.open.options(max_task_retries=-1).remote()
        except self._ray.exceptions.RayError as error:
            _log.warning("the Ray worker on node %s does not come back: %s", worker.node, _line(error))
        else:
            self._ready.append(worker)


class _OnNodes:
    """One of the models that every worker has open."""

    def __init__(self, name: str, here: ChatModel, nodes: _Nodes) -> None:
        self.name = here.name
        if isinstance(here, AtEndpoint):
            self.endpoint, self.dialect = here.endpoint, here.dialect
        self._name = name
        self._nodes = nodes
        self._free_at = 0.0

    @property
    def hold(self) -> float:
        """Seconds for which no call should begin, see :class:`madke.llm.Limited`."""
        return max(0.0, self._free_at - time.monotonic())

    async def complete(self, request: ChatRequest) -> Completion:
        said, hold = await self._nodes.ask(self._name, request)
        self._free_at = max(self._free_at, time.monotonic() + hold)
        if isinstance(said, Completion):
            return said
        raise CallError(**said)


def _start(ray: Any, names: Iterable[str], base_url: str | None, concurrency: int, declared: Models) -> list[_Worker]:
    """A worker at each place. It is given the models' names, and opens them itself."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    models = {name: name for name in names}
    entries = {name: found.model_dump(exclude_unset=True) for name in names if (found := declared.entry(name))}
    named = declared.named
    check = same_versions(versions())

    # Travels whole, and names nothing of madke before the check: where that is missing, it can say so.
    class Models:
        def __init__(self) -> None:
            self._opened: dict[str, ChatModel] = {}

        async def open(self) -> dict[str, tuple[str, str | None]]:
            """The models' own names, and where they are asked."""
            from madke.llm.endpoints import endpoints_of

            opened = self._models()
            at = endpoints_of(opened.values())
            return {
                name: (model.name, str(at[model.name]["address"]) if model.name in at else None)
                for name, model in opened.items()
            }

        async def probe(self) -> None:
            """See to it that the endpoints are there."""
            from madke.core.errors import UserError
            from madke.llm.endpoints import probe

            try:
                probe(self._models().values())
            except UserError as error:
                raise UserError(f"Ray: the node {socket.gethostname()}: {error}") from None

        async def complete(self, name: str, request: ChatRequest) -> _Answer:
            from madke.core.chat import Paced
            from madke.core.errors import CallError

            model = self._models()[name]
            try:
                said: Completion | dict[str, Any] = await model.complete(request)
            except CallError as error:
                said = vars(error)  # Ray would wrap what is raised in its traceback
            return said, model.hold if isinstance(model, Paced) else 0.0

        def _models(self) -> dict[str, ChatModel]:
            if not self._opened:
                check()
                from madke.core.errors import UserError
                from madke.llm.endpoints import ModelEntry, Models
                from madke.runs.cast import open_models

                known = Models(entries={name: ModelEntry(**fields) for name, fields in entries.items()}, named=named)
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
                max_concurrency=concurrency,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
                **needs,
            ).remote(),
            node=node["NodeManagerHostname"],
        )
        for node, needs in places
    ]


def _places(ray: Any, *, gpus: bool) -> list[tuple[Any, dict[str, float]]]:
    """Nodes, each as often as it takes workers, and what a worker takes of it."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    each_gpu = [node for node in nodes for _ in range(int(node["Resources"].get("GPU", 0)))]
    if gpus and each_gpu:
        return [(node, {"num_gpus": 1, "num_cpus": 0}) for node in each_gpu]
    # A node without CPUs, which a cluster's head often is, is not meant to work.
    working = [node for node in nodes if node["Resources"].get("CPU", 0) >= 1]
    if not working:
        raise UserError("Ray: no node of the cluster has a CPU, so there is none to work on")
    # Who waits for a server needs no CPU, and is not to wait until others are done with theirs.
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
            worker = opening[each]
            found = _got(ray, each, worker)
            for name, model in expected.items():
                _compare(worker.node, name, model, *found[name])
    for worker, there in [(worker, worker.actor.probe.remote()) for worker in workers]:
        _got(ray, there, worker)


def _got(ray: Any, answer: Any, worker: _Worker) -> Any:
    """What a worker returned as it began; what it raised is raised."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        raise cause(error) from error
    except ray.exceptions.RayError as error:
        raise UserError(f"Ray: the worker on node {worker.node} ended as it began: {error}") from None


def _compare(node: str, name: str, here: ChatModel, there: str, address: str | None) -> None:
    """See to it that calls of a node's model can be kept under its name here; say where its endpoint is another."""
    if here.name != there:
        raise UserError(f"Ray: the node {node} has {there} where this one has {here.name}; give every node the same")
    known = endpoints_of([here]).get(there, {}).get("address")
    if address == known:
        return
    if address == OPENAI_URL:
        raise UserError(
            f"Ray: the node {node} would ask OpenAI itself for {name}; start Ray there with OPENAI_BASE_URL, or give "
            "--base-url"
        )
    _log.warning(
        "the node %s asks %s at %s; its calls are kept as those of %s at %s", node, there, address, there, known
    )


def _line(error: Exception) -> str:
    """What a Ray error says first; of one that was raised on a node, what was raised there."""
    return str(getattr(error, "cause", None) or error).strip().partition("\n")[0]
