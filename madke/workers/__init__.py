"""Where work over shards is done: in this process, in several, or on a Ray cluster.

Work is a function of one task that writes no files: tasks and results travel (pickled), and whoever maps is the only
writer, so a cluster needs no shared disk but for what the function itself reads.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Literal, Protocol, TypeVar, cast

from madke.core.errors import UserError

T = TypeVar("T")
R = TypeVar("R")
H = TypeVar("H")

Engine = Literal["local", "ray"]


class Workers(Protocol):
    """Whoever does the work."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results of all tasks, in the order of the tasks, which are taken a few ahead of their results.

        When the iterator is closed before its end, what is under way is given up. What the function raises passes
        through; UserError says that the work cannot go on.
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
    """
    if engine == "ray":
        from madke.workers.ray_cluster import ray_workers

        return ray_workers(address, gpus=gpus)
    if address is not None:
        raise UserError("--address is the address of a Ray cluster; it needs --engine ray")
    return nullcontext(IN_THIS_PROCESS) if processes is None else _local_workers(processes)


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


@contextmanager
def _local_workers(processes: int) -> Iterator[Workers]:
    # A process that has started a JVM or torch's threads must not fork.
    context = multiprocessing.get_context("spawn")
    started = []
    workers = _Processes(processes)
    try:
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            started.append(process)
            workers.idle.put(ours)
        yield workers
    finally:
        for process in started:
            process.kill()  # it holds nothing by now
        workers.threads.shutdown(cancel_futures=True)
        for process in started:
            process.join()


class _Processes:
    """Each process has a pipe of its own and a thread that waits at it: it may be killed in the middle of a result.

    The workers of a ``ProcessPoolExecutor`` share one pipe.
    """

    def __init__(self, count: int) -> None:
        self.idle: SimpleQueue[Connection] = SimpleQueue()
        self.threads = ThreadPoolExecutor(count)
        self._count = count

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        def submit(task: T) -> Future[R]:
            return self.threads.submit(self._done, function, task)

        return in_order(submit, Future.result, tasks, ahead=2 * self._count, cancel=Future.cancel)

    def _done(self, function: Callable[[T], R], task: T) -> R:
        """The task's result, from whichever process is idle."""
        pipe = self.idle.get()
        try:
            pipe.send_bytes(pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL))
            answer = pipe.recv_bytes()
        except (EOFError, OSError):
            kept = "what is finished is kept, and the same command again goes on from there"
            raise UserError(f"a worker process ended abruptly, perhaps because memory ran out; {kept}") from None
        finally:
            self.idle.put(pipe)
        done, value = pickle.loads(answer)
        if not done:
            raise value
        return cast(R, value)


def _serve(pipe: Connection) -> None:
    """Do what comes through the pipe, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then kills this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _answer(request: bytes) -> bytes:
    """A task's pickled result, or what was raised, with the traceback that would otherwise stay here."""
    try:
        function, task = pickle.loads(request)
        return pickle.dumps((True, function(task)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return pickle.dumps((False, error))


def _end_with_parent() -> None:
    """A parent that is killed cannot tell its workers, and one in the middle of a task would not notice."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
