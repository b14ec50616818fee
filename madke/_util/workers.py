"""Run a function over tasks in this process or in several, and connect to a Ray cluster.

The function takes one task and writes no files. Tasks and results are pickled.
"""

import ctypes
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, cast

from madke._util.assets import require
from madke.core.errors import UserError

T = TypeVar("T")
R = TypeVar("R")


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


def open_workers(processes: int) -> AbstractContextManager[Workers]:
    """Open so many worker processes for a ``with`` block; they end with the block. One: this process does the work."""
    return nullcontext(InProcess()) if processes == 1 else _local_workers(processes)


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
        waiting: deque[Future[R]] = deque()
        try:
            for task in tasks:
                waiting.append(self.threads.submit(self._run, function, task))
                if len(waiting) >= 2 * self._count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

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


# A Ray cluster: this process must run on one of its nodes. All need the same versions of madke and its
# extras.

_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_ENOUGH = 512
"""Bytes, more than a ``struct sigaction`` needs on any system. Python's ``signal`` sees only its own handlers."""


@contextmanager
def _fault_signals_kept() -> Iterator[None]:
    """Restore the handlers of memory faults, which Ray replaces when it connects and disconnects.

    The Java virtual machine causes faults on purpose: without its handlers, a process with an open Lucene index ends.
    """
    libc = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(_ENOUGH) for number in _FAULTS}
    for number, action in kept.items():
        libc.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            libc.sigaction(int(number), action, None)


_SECONDS = 5.0
"""How long to wait for a connection to the cluster's head; Ray itself tries for two minutes."""
# The first avoids Ray's warning that a later version will hide GPUs; the second turns off usage reports.
_SETTINGS = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Yield the package ``ray``, connected to ``address``, to ``RAY_ADDRESS``, or to a new local cluster.

    An existing connection is used and stays open. Output printed in the block goes to stderr.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    require("--engine ray needs", "ray", "ray")
    import ray

    # Keeps Ray's messages about lost tasks out of the commands' output, which scripts read.
    with redirect_stdout(sys.stderr):
        if ray.is_initialized():
            yield ray
            return
        with _fault_signals_kept():
            _connect(ray, address or os.environ.get("RAY_ADDRESS"))
        try:
            yield ray
        finally:
            with _fault_signals_kept():
                ray.shutdown()


def same_versions(expected: Mapping[str, str]) -> Callable[[], None]:
    """A check that a node runs before its first task. Pickled with its code, so that it can report a missing madke."""

    def check() -> None:
        from madke._util.assets import versions
        from madke.core.errors import UserError

        found = versions()
        names = (name for name in sorted(found.keys() | expected.keys()) if found.get(name) != expected.get(name))
        others = ", ".join(
            f"{name} {found.get(name, 'missing')} (expected {expected.get(name, 'none')})" for name in names
        )
        if others:
            node = f"the node {socket.gethostname()} has other versions than this machine"
            raise UserError(f"Ray: {node}: {others}; install the same versions on every node")

    return check


def cause_on_node(error: Any) -> BaseException:
    """The exception raised on a node, from Ray's ``RayTaskError``."""
    raised: BaseException = error.cause
    if isinstance(raised, ModuleNotFoundError):
        return UserError(f"Ray: {raised} on a worker; every node needs madke and its extras")
    return raised


def fetched(ray: Any, reference: Any, during: str = "Ray") -> Any:
    """A result from a node; raises the exception of its task there, or a UserError that begins with ``during``."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise cause_on_node(error) from error
    except ray.exceptions.RayError as error:
        raise UserError(f"{during}: {error}") from None


def _connect(ray: Any, address: str | None) -> None:
    if address and address != "auto":
        _check_answers(address)
    local = {} if address else {"include_dashboard": False}
    try:
        # Without an address, Ray would use the cluster last started on this machine.
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, ValueError, RuntimeError) as error:
        ray.shutdown()  # after a version mismatch, Ray believes that it is connected
        raise UserError(f"Ray cluster at {address or 'this machine'}: {error}") from None


def _check_answers(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:
        why = f"no answer ({error}); expected HOST:PORT of its head, for instance 10.0.0.1:6379, or auto"
        raise UserError(f"Ray cluster at {address}: {why}") from None
