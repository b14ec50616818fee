"""Where work over shards is done: in this process, in several, or on a Ray cluster.

Work is a function of one task that writes no files: tasks and results travel (pickled), and whoever maps is the only
writer, so a cluster needs no shared disk but for what the function itself reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeVar

from madke.core.errors import UserError

T = TypeVar("T")
R = TypeVar("R")
H = TypeVar("H")

Engine = Literal["local", "ray"]


class Workers(Protocol):
    """Whoever does the work."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results of all tasks, in the order of the tasks, which are taken a few ahead of their results.

        When the iterator is closed before its end, what is under way is given up.

        Raises:
            UserError: The work cannot go on. What the function raises passes through.
        """
        ...


class InProcess:
    """Does the work in this process, one task after the other: for functions that use all cores by themselves."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:  # noqa: D102  (as Workers.map)
        return map(function, tasks)


IN_THIS_PROCESS = InProcess()


def open_workers(
    engine: Engine, *, processes: int | None = None, address: str | None = None, gpus: bool = False
) -> AbstractContextManager[Workers]:
    """Workers that are gone when the block ends, however it ends.

    Args:
        engine: ``local``: this process, or ``processes`` of them. ``ray``: a Ray cluster.
        processes: Processes for the engine ``local``; None does the work in this one.
        address: ``HOST:PORT`` of the cluster's head, or ``auto``; None takes ``RAY_ADDRESS``, or starts a cluster.
        gpus: For work that uses a GPU, or else all cores by itself: on a cluster each task gets a GPU or, without any,
            as many CPUs as the smallest node has. Otherwise a task gets one CPU.

    Raises:
        UserError: ray is missing, the cluster cannot be reached, or an address is given for the engine ``local``.
    """
    if engine == "ray":
        from madke.workers.ray_cluster import ray_workers

        return ray_workers(address, gpus=gpus)
    if address is not None:
        raise UserError("--address is the address of a Ray cluster; it needs --engine ray")
    if processes is None:
        return nullcontext(IN_THIS_PROCESS)
    from madke.workers.local import local_workers

    return local_workers(processes)


def in_order(
    submit: Callable[[T], H],
    result: Callable[[H], R],
    tasks: Iterable[T],
    *,
    ahead: int,
    cancel: Callable[[H], object],
) -> Iterator[R]:
    """Submit tasks, at most ``ahead`` of them at once, and give their results in order; cancel those not waited for."""
    waiting: deque[H] = deque()
    try:
        for task in tasks:
            waiting.append(submit(task))
            if len(waiting) >= ahead:
                yield result(waiting.popleft())
        while waiting:
            yield result(waiting.popleft())
    finally:
        for handle in waiting:
            cancel(handle)
