"""Where work over shards is done: in this process, in several, or on a Ray cluster.

Work is a function of one task that neither reads nor writes files: tasks and results travel, so a cluster needs no
shared disk, and whoever maps is the only writer. Function and tasks are pickled unless they stay in this process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
H = TypeVar("H")

Engine = Literal["local", "ray"]


class Workers(Protocol):
    """Whoever does the work."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results of all tasks, in the order of the tasks.

        Tasks are taken as results are, a few ahead of them, so memory holds no more than those.

        Raises:
            UserError: The work cannot go on. What the function raises passes through.
        """
        ...


class InProcess:
    """Does the work in this process, one task after the other: for functions that use all cores by themselves."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results in the order of the tasks."""
        return map(function, tasks)


def open_workers(
    engine: Engine, *, processes: int | None = None, address: str | None = None, gpus: bool = False
) -> AbstractContextManager[Workers]:
    """Workers that are gone when the block ends.

    Args:
        engine: ``local``: this process, or ``processes`` of them. ``ray``: a Ray cluster.
        processes: Processes for the engine ``local``; None does the work in this one.
        address: ``HOST:PORT`` of the cluster's head, or ``auto``; None takes ``RAY_ADDRESS``, or starts a cluster on
            this machine.
        gpus: Give each task on a cluster that has GPUs one of them.

    Raises:
        UserError: ray is missing, or the cluster cannot be reached.
    """
    if engine == "ray":
        from madke.workers.ray_cluster import ray_workers

        return ray_workers(address, gpus=gpus)
    from madke.workers.local import local_workers

    return local_workers(processes)


def in_order(submit: Callable[[T], H], result: Callable[[H], R], tasks: Iterable[T], *, ahead: int) -> Iterator[R]:
    """Submit tasks, at most ``ahead`` of them at once, and give their results in order."""
    waiting: deque[H] = deque()
    for task in tasks:
        waiting.append(submit(task))
        if len(waiting) >= ahead:
            yield result(waiting.popleft())
    while waiting:
        yield result(waiting.popleft())
