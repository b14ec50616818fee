"""A real Ray cluster on this machine, whose nodes can be killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

_SYSTEM = {
    # A lost node is noticed at once.
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 200,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}
_NODE = {"object_store_memory": 80 * 2**20, "include_log_monitor": False}


@contextmanager
def running_cluster(cpus: int = 1, **environment: str) -> Iterator[Any]:
    """One node of so many CPUs, ``cluster.head_node``, which has ``environment`` besides this process's."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            **_NODE,
            "num_cpus": cpus,
            "env_vars": environment,
            "include_dashboard": False,
            "no_monitor": True,
            "_system_config": _SYSTEM,
        },
    )
    try:
        yield cluster
    finally:
        cluster.shutdown()


@contextmanager
def another_node(cluster: Any, **settings: Any) -> Iterator[Any]:
    """One more node, of one CPU unless ``settings`` (of Ray's) say otherwise; a test may kill it."""
    node = cluster.add_node(**{**_NODE, "num_cpus": 1, **settings})
    try:
        yield node
    finally:
        if node in cluster.worker_nodes:
            kill(cluster, node)


def kill(cluster: Any, node: Any) -> None:
    """SIGKILL for all processes of a node; returns when the cluster knows."""
    cluster.remove_node(node, allow_graceful=False)
    cluster.wait_for_nodes()


def workers() -> list[psutil.Process]:
    """The processes, on this test's nodes, in which ``--engine ray`` has models open."""
    ours = psutil.Process().children(recursive=True)
    return [process for process in ours if _name(process).startswith("ray::Models")]


def _name(process: psutil.Process) -> str:
    try:
        return process.name() if process.status() != psutil.STATUS_ZOMBIE else ""
    except psutil.NoSuchProcess:
        return ""
