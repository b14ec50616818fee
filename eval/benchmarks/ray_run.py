"""Two Ray nodes against one, and against two of which one is lost: calls a second of debates with models on the nodes.

Each node gets as many calls at once, however many nodes there are. They share this machine's cores with each other,
the server and this process, so few cores leave little of the gain. What bounds a cluster of real nodes is the CPU time
that this process takes for a call, as all debates are played in it.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eval.benchmarks.generated_run import CALLS_EACH, MODEL, POOL, Taken, server
from eval.benchmarks.measure import Setting, duration, report
from madke._util.concurrency import gather
from madke.core.chat import ChatModel
from madke.core.question import Question
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.llm import CallStore, Limits
from madke.runs.cast import role_models
from madke.runs.guard import Guard
from madke.runs.options import RunOptions
from madke.runs.ray_cast import ray_models
from madke.tasks import get_task
from madke.variants import load_variant

QUESTIONS = 120
QUICK = 4
WARM_UP = 8
EACH_NODE = 8
"""Calls at once for each node."""
LATENCY = 0.5
_OBJECTS = 80 * 2**20
"""Bytes of shared memory for a node's objects; Ray's least is 75 MB."""

_VARIANT = load_variant("madke")


def main(setting: Setting) -> None:
    """Measure all and print the ratios."""
    questions = QUICK if setting.quick else QUESTIONS
    with server(LATENCY) as url, tempfile.TemporaryDirectory(dir=setting.folder) as folder, _cluster() as cluster:
        one, two = (_with_one_more_node(cluster, url, questions, Path(folder)) for _ in range(2))
        # Ray tells of a lost node in many lines on stderr; tests/runs/test_ray_run.py shows that such a run goes on.
        lost = None if setting.quick else _losing_a_node(cluster, url, questions, Path(folder), after=two.seconds / 3)
    report(
        "ray_run",
        f"{two.rate:,.0f} calls/s on two nodes",
        f"{one.rate:,.0f} on one ({one.calls:,} calls of {duration(LATENCY)}, {EACH_NODE} at once on each)",
        two.rate / one.rate,
    )
    if lost is not None:
        killed = duration(two.seconds / 3)
        report(
            "ray_run, a node lost",
            f"{duration(lost.seconds)} for {lost.calls:,} calls on two nodes, one killed after {killed}",
            f"{duration(two.seconds)} on two, {duration(one.seconds)} on one; no call failed",
            lost.seconds / two.seconds,
        )
    print(
        f"  the driver's CPU: {duration(two.cpu_each)} a call, at most {1 / two.cpu_each:,.0f} calls/s on any cluster"
    )


def _with_one_more_node(cluster: Any, url: str, questions: int, folder: Path) -> Taken:
    cluster.add_node(num_cpus=1, object_store_memory=_OBJECTS)
    with _on_nodes(cluster, url) as (models, most):
        return asyncio.run(_debated(models, questions, most, folder / f"calls-{most}"))


def _losing_a_node(cluster: Any, url: str, questions: int, folder: Path, *, after: float) -> Taken:
    """All processes of a node are killed after so many seconds of the calls that are measured."""
    doomed = next(iter(cluster.worker_nodes))
    with _on_nodes(cluster, url) as (models, most):
        timer = threading.Timer(after, cluster.remove_node, args=(doomed,), kwargs={"allow_graceful": False})
        try:
            return asyncio.run(_debated(models, questions, most, folder / "calls-lost", then=timer.start))
        finally:
            timer.join()


@contextmanager
def _on_nodes(cluster: Any, url: str) -> Iterator[tuple[dict[str, ChatModel], int]]:
    """The models of all roles on the cluster's nodes, and how many calls they get at once."""
    names, most = role_models(_VARIANT.protocol, MODEL, {}), EACH_NODE * len(cluster.worker_nodes)
    options = RunOptions(engine="ray", base_url=url, concurrency=most, address=cluster.address)
    with ray_models(names, options) as models:
        yield models, most


@contextmanager
def _cluster() -> Iterator[Any]:
    """A cluster on this machine, whose head does no work."""
    from ray.cluster_utils import Cluster

    # It reports a cluster that another process left behind, in the middle of the results.
    logging.getLogger("ray").setLevel(logging.WARNING)
    head = {"num_cpus": 0, "object_store_memory": _OBJECTS, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield cluster
    finally:
        cluster.shutdown()


async def _debated(
    models: Mapping[str, ChatModel],
    count: int,
    most: int,
    store_file: Path,
    *,
    then: Callable[[], object] = lambda: None,
) -> Taken:
    """What the debates take once connections and imports are there, and ``then`` was called; every call is stored."""
    asked = [Question(id=str(n), question=f"Which lake is the deepest, in survey {n}?") for n in range(WARM_UP + count)]
    with CallStore(store_file) as store:
        guard = Guard(limits=Limits(most), store=store)
        cast = {role: guard.model(model) for role, model in models.items()}

        async def play(questions: Sequence[Question]) -> None:
            left = iter(questions)

            async def work() -> None:
                for question in left:
                    task = get_task(question.task)
                    transcript = await hold_debate(
                        Scene(question, _VARIANT.protocol, cast, POOL, task=task, prompts=_VARIANT, seed=0)
                    )
                    assert not transcript.degraded, transcript.final.error

            await gather(work() for _ in range(most))

        await play(asked[:WARM_UP])
        then()
        began, cpu = time.perf_counter(), time.process_time()
        await play(asked[WARM_UP:])
        return Taken(calls=count * CALLS_EACH, seconds=time.perf_counter() - began, cpu=time.process_time() - cpu)
