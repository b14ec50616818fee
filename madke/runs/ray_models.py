"""Models on the nodes of a Ray cluster, each node with its own endpoint or GPU.

Debates run in this process; only model calls run on nodes. A finished call returns here and is stored before it is
used. When a node is lost, its calls in flight are repeated on another node.

A node calls the endpoint in the environment in which Ray was started *on that node* (``OPENAI_BASE_URL``), with the key
in that environment: keys are never sent. ``--base-url`` applies to all nodes. A model is recorded under its name *on
this machine*. Paths (``hf/FOLDER``, ``gguf/FILE``, ``scripted/FILE``) refer to the files of each node.

The values of a call (``ChatRequest.stage``) are sent only to models that may read them, ``offline`` and your own
objects: among them is the task, which may be an object that cannot be sent. All others get the messages alone.
"""

import asyncio
import logging
import pickle
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from madke._util.assets import versions
from madke._util.workers import cause_on_node, fetch_result, ray_connection, same_versions
from madke.core.chat import ChatModel, ChatRequest, Completion, takes_schemas
from madke.core.errors import CallError, UserError
from madke.models.chat_models import OwnModel
from madke.models.endpoint import AtEndpoint, ModelEntries, read_models
from madke.models.model_names import kind_of
from madke.models.offline import OfflineChat
from madke.runs.request import RunOptions
from madke.runs.spec import open_models

_log = logging.getLogger(__name__)

_MAX_TRIES = 2
"""Maximum number of workers that a call is sent to when workers are lost: the call may be the cause."""
_WARN_SECONDS = 30.0
"""Seconds after which a warning says that workers are not ready."""


@contextmanager
def ray_models(names: Mapping[str, str], options: RunOptions) -> Iterator[dict[str, ChatModel]]:
    """Role -> model, like :func:`madke.runs.spec.open_models`, open on the nodes of a cluster while the block runs.

    If a model is ``hf/`` and there are GPUs, each GPU has one worker; otherwise each node with CPUs has one. All calls
    of a question go to the same worker, for the prefix cache of its server. A worker whose process ends is not started
    again by this command. A call raises UserError when no worker is left.
    """
    if "human" in map(kind_of, names.values()):
        raise UserError("--engine ray: a human answers at this terminal, not on a node; remove --engine ray")
    declared = read_models()
    here = open_models(names, base_url=options.base_url, replay=True, models=declared)
    expected = {name: here[role] for role, name in names.items()}
    with ray_connection() as ray:
        workers = _start(ray, expected, options, declared)
        try:
            opening = {worker.open.remote(): node for worker, node in workers.items()}
            while ray.wait(list(opening), num_returns=len(opening), timeout=_WARN_SECONDS)[1]:
                _log.warning("waiting for Ray workers to load their models, or for CPUs or GPUs to be free")
            for answer, node in opening.items():
                fetch_result(ray, answer, f"Ray: the worker on node {node} ended while starting")
            nodes = _Nodes(ray, workers)
            opened = {name: _OnNodes(name, model, nodes) for name, model in expected.items()}
            yield {role: opened[name] for role, name in names.items()}
        finally:
            for worker in workers:
                ray.kill(worker)


class _Nodes:
    """The workers that are left (worker -> calls in flight), for one event loop."""

    def __init__(self, ray: Any, workers: Mapping[Any, str]) -> None:
        self._ray, self._node_of = ray, workers
        self._left: dict[Any, int] = dict.fromkeys(workers, 0)
        self._worker_of: dict[str, Any] = {}
        """Question -> the worker of its calls."""

    async def ask(self, name: str, request: ChatRequest) -> Completion:
        for lost in range(_MAX_TRIES):
            worker = self._worker_for(request.purpose.question)
            try:
                answer = worker.complete.remote(name, request)
            except Exception as error:  # pickling runs the code of the user's own task
                why = f"a call cannot be sent to a node ({error}); remove --engine ray, or what cannot be pickled"
                raise UserError(f"Ray: {why}") from error
            self._left[worker] += 1
            try:
                reply: Completion | dict[str, Any] = await answer
            except asyncio.CancelledError:
                self._ray.cancel(answer)
                raise
            except self._ray.exceptions.RayTaskError as error:
                raise cause_on_node(error) from error
            except self._ray.exceptions.RayError as error:
                if self._left.pop(worker, None) is not None:  # the first of several lost calls
                    why = str(getattr(error, "cause", None) or error).strip().partition("\n")[0]
                    _log.warning("the Ray worker on node %s is lost: %s", self._node_of[worker], why)
                continue
            finally:
                if worker in self._left:
                    self._left[worker] -= 1
            if isinstance(reply, Completion):
                return replace(reply, attempts=reply.attempts + lost)
            raise CallError(**reply)
        reason = f"{_MAX_TRIES} Ray workers ended during this call, the last on node {self._node_of[worker]}"
        return Completion(outcome="failed", error=reason, finish_reason="error", attempts=_MAX_TRIES)

    def _worker_for(self, question: str) -> Any:
        if not self._left:
            why = "no worker is left; all nodes are lost, or their workers ended. Finished questions are kept"
            raise UserError(f"Ray: {why}; run the same command again to continue")
        if (worker := self._worker_of.get(question)) not in self._left:
            questions = list(self._worker_of.values())
            worker = min(self._left, key=lambda each: (self._left[each], questions.count(each)))
            self._worker_of[question] = worker
        return worker


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
        return await self._nodes.ask(self._name, request if self._reads_values else replace(request, stage=None))


def _start(ray: Any, here: Mapping[str, ChatModel], options: RunOptions, declared: ModelEntries) -> dict[Any, str]:
    """Worker -> node of a worker at each place. It gets the names of the models and opens them itself."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # The settings are unpickled after the version check, which can thus report a missing madke.
    settings = pickle.dumps(({name: name for name in here}, options.base_url, declared))
    expected = {name: model.name for name, model in here.items()}
    at_openai = [name for name, model in here.items() if isinstance(model, AtEndpoint) and model.endpoint.is_openai]
    check = same_versions(versions())

    class Models:  # pickled by value
        def __init__(self) -> None:
            self._opened: dict[str, ChatModel] = {}

        async def open(self) -> None:
            """UserError if a model has another name than here, or would be called at OpenAI, and is not here."""
            check()
            from madke.core.errors import UserError
            from madke.models.endpoint import AtEndpoint
            from madke.runs.spec import open_models

            node = f"Ray: the node {socket.gethostname()}"
            names, base_url, entries = pickle.loads(settings)
            try:
                self._opened = open_models(names, base_url=base_url, models=entries)
            except UserError as error:
                raise UserError(f"{node}: {error}") from None
            for name, model in self._opened.items():
                if model.name != expected[name]:
                    why = f"has the model {model.name}, but this machine has {expected[name]}"
                    raise UserError(f"{node} {why}; use the same on every node")
                if isinstance(model, AtEndpoint) and model.endpoint.is_openai and name not in at_openai:
                    remedy = "start Ray there with OPENAI_BASE_URL, or pass --base-url"
                    raise UserError(f"{node} would call OpenAI for {name}; {remedy}")

        async def complete(self, name: str, request: ChatRequest) -> Completion | dict[str, Any]:
            from madke.core.errors import CallError

            try:
                return await self._opened[name].complete(request)
            except CallError as error:
                return vars(error)  # Ray would add its traceback to a raised error

    nodes = [node for node in ray.nodes() if node["Alive"]]
    on_gpus = "hf" in map(kind_of, here)
    places = [(node, {"num_gpus": 1, "num_cpus": 0}) for node in nodes for _ in range(_count(node, "GPU"))]
    if not (on_gpus and places):
        # A node without CPUs, often the head of a cluster, is not meant to run workers. A worker that waits for a
        # server requests no CPU, so that it need not wait for free ones.
        working = [node for node in nodes if _count(node, "CPU")]
        places = [(node, {"num_cpus": _count(node, "CPU") if on_gpus else 0}) for node in working]
    if not places:
        raise UserError("Ray: no node of the cluster has a CPU to run workers on")
    remote = ray.remote(Models).options
    at = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node, _ in places]
    started = [
        remote(scheduling_strategy=where, max_concurrency=options.concurrency, **needs)
        for where, (_, needs) in zip(at, places, strict=True)
    ]
    return {each.remote(): node["NodeManagerHostname"] for each, (node, _) in zip(started, places, strict=True)}


def _count(node: Mapping[str, Any], resource: str) -> int:
    return int(node["Resources"].get(resource, 0))
