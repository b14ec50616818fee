"""Workers in several processes of this machine."""

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

from madke._util.workers.base import R, T, Workers, in_order
from madke.core.errors import UserError


@contextmanager
def local_workers(processes: int) -> Iterator[Workers]:
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
