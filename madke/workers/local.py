"""Several processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from madke.core.errors import UserError
from madke.workers import InProcess, R, T, Workers, in_order


@contextmanager
def local_workers(processes: int | None) -> Iterator[Workers]:
    """So many processes (None: this one alone), ended with the block."""
    if processes is None:
        yield InProcess()
        return
    # A process that has started a JVM or torch's threads must not fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_prepare)
    try:
        yield _Processes(pool, processes)
    finally:
        pool.shutdown(cancel_futures=True)


class _Processes:
    def __init__(self, pool: ProcessPoolExecutor, count: int) -> None:
        self._pool = pool
        self._count = count

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        def submit(task: T) -> Future[R]:
            return self._pool.submit(function, task)

        try:
            yield from in_order(submit, Future.result, tasks, ahead=2 * self._count)
        except BrokenProcessPool:
            raise UserError(
                "a worker process ended abruptly, perhaps for want of memory; what is finished is kept, and the same "
                "command again goes on from there"
            ) from None


def _prepare() -> None:
    """Leave Ctrl-C to the parent, and end with it however it ends: a killed one cannot tell its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
