"""Run a function over tasks in this process, in several processes, or on a Ray cluster.

The function takes one task and writes no files. Tasks and results are pickled, and only the calling process writes
files, so a cluster needs a shared disk only for what the function reads.
"""

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
    """Runs a function over tasks."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results in the order of the tasks; a few tasks are taken from the iterable in advance.

        Closing the iterator early cancels the running tasks. Exceptions of the function are raised here; a UserError
        means that the work cannot continue.
        """


class InProcess:
    """Runs tasks one after another in this process: for functions that use all cores themselves."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        return map(function, tasks)


def in_order(
    submit: Callable[[T], H], result: Callable[[H], R], tasks: Iterable[T], *, ahead: int, cancel: Callable[[H], object]
) -> Iterator[R]:
    """Submit at most ``ahead`` tasks at once and yield their results in order; on exit, cancel the rest."""
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


def open_workers(
    engine: Engine, *, processes: int | None = None, address: str | None = None, gpus: bool = False
) -> AbstractContextManager[Workers]:
    """Open workers for a ``with`` block; they end with the block.

    Args:
        engine: ``local``: this process or several. ``ray``: a Ray cluster.
        processes: Number of processes for the engine ``local``; None: this process does the work.
        address: ``HOST:PORT`` of the cluster's head, or ``auto``; None: that of ``RAY_ADDRESS``, or a new cluster.
        gpus: For functions that use a GPU, or all cores without one. On a cluster, each task gets a GPU or, if there
            are none, as many CPUs as the smallest node has. If False, each task gets one CPU.
    """
    if engine == "ray":
        from madke._util.ray_cluster import ray_workers

        return ray_workers(address, gpus=gpus)
    if address is not None:
        raise UserError("--address is the address of a Ray cluster; it needs --engine ray")
    return nullcontext(InProcess()) if processes is None else _local_workers(processes)


@contextmanager
def _local_workers(processes: int) -> Iterator[Workers]:
    # A process with a JVM or torch threads must not fork.
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
            process.kill()  # it has no unfinished work now
        workers.threads.shutdown(cancel_futures=True)
        for process in started:
            process.join()


class _Processes:
    """Processes, each with its own pipe and waiting thread, so that one may be killed while it sends a result."""

    def __init__(self, count: int) -> None:
        self.idle: SimpleQueue[Connection] = SimpleQueue()
        self.threads = ThreadPoolExecutor(count)
        self._count = count

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        def submit(task: T) -> Future[R]:
            return self.threads.submit(self._run, function, task)

        return in_order(submit, Future.result, tasks, ahead=2 * self._count, cancel=Future.cancel)

    def _run(self, function: Callable[[T], R], task: T) -> R:
        pipe = self.idle.get()
        try:
            pipe.send_bytes(pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL))
            answer = pipe.recv_bytes()
        except (EOFError, OSError):
            resume = "finished work is kept; run the same command again to resume"
            raise UserError(f"a worker process ended abruptly, perhaps because memory ran out; {resume}") from None
        finally:
            self.idle.put(pipe)
        done, value = pickle.loads(answer)
        if not done:
            raise value
        return cast(R, value)


def _serve(pipe: Connection) -> None:
    """Answer requests from the pipe until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and kills this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _answer(request: bytes) -> bytes:
    """A task's pickled result, or its exception with this process's traceback as a note."""
    try:
        function, task = pickle.loads(request)
        return pickle.dumps((True, function(task)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return pickle.dumps((False, error))


def _end_with_parent() -> None:
    """Exit when the parent ends: a killed parent cannot stop its workers, and a busy worker reads no pipe."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
