"""Several processes of this machine.

Each has a pipe of its own and a thread that waits at it, so that a process may be killed at any moment, in the middle
of a result too, and nobody waits for the rest. A ``ProcessPoolExecutor`` cannot: its workers share one pipe.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import cast

from madke.core.errors import UserError
from madke.workers import R, T, Workers, in_order


@contextmanager
def local_workers(processes: int) -> Iterator[Workers]:
    """So many processes, killed at the end of the block: they hold nothing by then."""
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
            process.kill()
        workers.threads.shutdown(cancel_futures=True)
        for process in started:
            process.join()


class _Processes:
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
